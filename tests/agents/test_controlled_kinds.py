"""Runs of every kind, controlled from another store: cancelled and resumed, each ends as it would have."""

import asyncio
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import PLACES, stores
from ziggurat import Agent, ConfigurationError, ModelRequest, Runnable, tool
from ziggurat.flows import event, flow, gather, sleep, step
from ziggurat.journal import Store
from ziggurat.layers.retry import retry
from ziggurat.messages import stops, tool_call
from ziggurat.teams import majority
from ziggurat.testing import ScriptedModel


class Gate:
    """Holds the runs of a test in a call, until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> str:
        """Wait at the gate."""
        self.reached.set()
        await self.opened.wait()
        return "passed"


def _reply(request: ModelRequest) -> Any:
    results = [result.text for message in request.messages for result in message.tool_results]
    heard = [message.text for message in request.messages if message.role == "user"][1:]
    return " ".join([*results, *heard]) or tool_call("wait")


def _worker(gate: Gate, store: Store | None = None, **options: Any) -> Agent[Any]:
    return Agent(ScriptedModel(always=_reply), tools=[tool(effect="none")(gate.wait)], store=store, **options)


def an_agent(gate: Gate, store: Store) -> Runnable[Any]:
    return _worker(gate, store, name="one")


def an_agent_with_layers(gate: Gate, store: Store) -> Runnable[Any]:
    return Runnable(retry(attempts=2)(_worker(gate, name="one")), name="one", store=store)


def a_nested_agent(gate: Gate, store: Store) -> Runnable[Any]:
    inner = _worker(gate, name="inner", description="Waits.")

    def reply(request: ModelRequest) -> Any:
        results = request.messages[-1].tool_results
        return results[0].text if results else tool_call("inner", input="Go")

    model = ScriptedModel(always=reply)
    return Agent(model, tools=[inner], name="one", store=store)


def a_flow(gate: Gate, store: Store) -> Runnable[Any]:
    passing = step(gate.wait)

    @flow(store=store, name="one")
    async def one(prompt: str) -> str:
        """Pass the gate in a step, and in an agent."""
        return await passing() + (await _worker(gate, name="inner").run(prompt)).text

    return one


def a_fan_out(gate: Gate, store: Store) -> Runnable[Any]:
    passing = step(gate.wait)

    @flow(store=store, name="one")
    async def one(prompt: str) -> list[str]:
        """Pass the gate three times at the same time."""
        return list(await gather(*(passing() for _ in range(3))))

    return one


def a_team(gate: Gate, store: Store) -> Runnable[Any]:
    return majority(*(_worker(gate, name=name) for name in ("ada", "ben")), name="one", store=store)


KINDS: list[Callable[[Gate, Store], Runnable[Any]]] = [
    an_agent,
    an_agent_with_layers,
    a_nested_agent,
    a_flow,
    a_fan_out,
    a_team,
]


@pytest.mark.parametrize(("make", "session"), sample(product(KINDS, [False, True]), 7))
async def test_a_run_that_is_cancelled_elsewhere_ends_as_it_would_when_it_is_resumed(
    make: Callable[[Gate, Store], Runnable[Any]], session: bool, tmp_path: Path
) -> None:

    place, gate = PLACES["sqlite"](tmp_path), Gate()
    here, elsewhere = place(), place()
    one, other = make(gate, here), make(gate, elsewhere)
    options: Any = {"session": "s"} if session else {}
    driving = asyncio.create_task(one.run("Go", run_id="r", **options))
    await gate.reached.wait()
    attached = other.attach("r")
    assert await attached.cancel()
    run = await driving
    assert run.stop == (await attached.result()).stop == stops.Cancelled()
    assert not driving.cancelling()
    gate.opened.set()
    resumed, whole = await one.resume("r"), await one.run("Go", run_id="w")
    assert (resumed.stop, resumed.output) == (whole.stop, whole.output)
    assert resumed.stop == stops.Completed()
    if session:
        again = await one.run("Go on", run_id="s", **options)
        assert again.stop == stops.Completed(), "the session is free"
    for store in (here, elsewhere):
        await store.close()


async def test_a_worker_goes_on_after_one_of_its_runs_was_cancelled_elsewhere(tmp_path: Path) -> None:
    place, gate = PLACES["sqlite"](tmp_path), Gate()
    here, elsewhere = place(), place()
    one, other = an_agent(gate, here), an_agent(gate, elsewhere)
    first, second = await other.submit("Go", run_id="first"), await other.submit("Go", run_id="second")
    async with one.worker():
        await gate.reached.wait()
        assert await first.cancel()
        assert (await first.result()).stop == stops.Cancelled()
        gate.opened.set()
        assert (await second.result()).text == "passed"
        assert await second.inject("too late") is False
    for store in (here, elsewhere):
        await store.close()


@pytest.mark.parametrize("waits", ["timer", "event"])
async def test_a_flow_that_waits_is_cancelled_and_keeps_what_was_sent_to_it(waits: str, tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path) as (here, elsewhere):

        def order(store: Store) -> Runnable[Any]:
            @flow(store=store, name="order")
            async def order() -> int:
                if waits == "timer":
                    await sleep(days=1)
                return await event("paid", int)

            return order

        one, other = order(here), order(elsewhere)
        assert (await one.run(run_id="r")).stop == stops.Suspended()
        attached = other.attach("r")
        await other.attach("r").send("paid", 30)
        assert await attached.cancel()
        with pytest.raises(ConfigurationError, match="no loop"):
            await attached.inject("by the way")
        assert (await other.recover()).runs["r"].stop == stops.Cancelled()
        assert not (await other.recover()).runs
        run = await one.resume("r")
        if waits == "timer":
            assert run.stop == stops.Suspended(), "the timer goes on"
        else:
            assert run.output == 30


async def test_a_message_goes_to_the_outermost_agent(tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path) as (here, elsewhere):

        def outer(request: ModelRequest) -> Any:
            texts = [message.text for message in request.messages if message.role == "user"]
            if "by the way" in texts:
                return "heard"
            return tool_call("inner", input="Go")

        def agent(store: Store) -> Agent[Any]:
            def look(request: ModelRequest) -> Any:
                assert "by the way" not in [message.text for message in request.messages]
                return "looked"

            inner = Agent(ScriptedModel(always=look), name="inner", description="Looks.")
            return Agent(ScriptedModel(always=outer), tools=[inner], store=store, max_steps=10_000)

        handle = agent(here).start("Go", run_id="r")
        await handle.recorded()
        attached = agent(elsewhere).attach("r")
        assert await attached.redirect("by the way")
        assert (await handle.result()).text == "heard"

"""A decision that is made while the run works is used after that, whoever drives the run, and is asked for no more."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.samples import pairs
from tests.serve.serving import TOKEN, serving
from tests.stores.places import STORES, stores
from tests.stores.watched import WatchedStore
from ziggurat import Agent, AgentRun, Approve, Deny, Modify, tool
from ziggurat.agents import Answer, Decision, PendingItem, RunHandle, runs_of
from ziggurat.core.codec import encode
from ziggurat.errors import AlreadyDecided
from ziggurat.flows import Flow, ask, flow, gather, step
from ziggurat.messages import stops, tool_call
from ziggurat.messages.posted import PostedDecisions, PostedWithdrawal
from ziggurat.serve import app
from ziggurat.stores import InMemoryStore, pending
from ziggurat.testing import ScriptedModel


class Works:
    """Runs that ask and work at the same time; the work goes on until it is told to end."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.paid: list[str] = []
        self.begun, self.asks = 0, 2

    async def work(self) -> str:
        self.begun += 1
        await self.ends.wait()
        return "worked"

    @staticmethod
    def prompt(agent: Any) -> tuple[str, ...]:
        return () if isinstance(agent, Flow) else ("Go",)

    async def asked(self, agent: Any, *, again: bool = False) -> tuple[PendingItem, ...]:
        """Return what the run waits for when it asks everything and is at work, for the second time if `again`."""
        items: tuple[PendingItem, ...] = ()
        while len(items) < self.asks:
            await asyncio.sleep(0)
            items = (await agent.pending()).get("r", ())
        while self.begun < 1 + again:  # noqa: ASYNC110 - another drive may begin the work
            await asyncio.sleep(0)
        return items

    def agent(self, store: Any, name: str = "desk") -> Agent[Any]:
        @tool(approval=True, effect="once")
        def pay(to: str) -> str:
            self.paid.append(to)
            return "paid"

        @tool
        async def work() -> str:
            return await self.work()

        calls = [tool_call("pay", to="ada"), tool_call("work"), tool_call("pay", to="bob")]
        return Agent(ScriptedModel(calls, always="done", per_run=True), tools=[pay, work], store=store, name=name)

    def nested(self, store: Any) -> Agent[Any]:
        outer = ScriptedModel(tool_call("desk", input="x"), always="done", per_run=True)
        return Agent(outer, tools=[self.agent(None)], store=store, name="outer")

    def flow(self, store: Any, *, twice: bool = False) -> Flow[None, str]:
        self.asks = 2 if twice else 1

        @step
        async def work() -> str:
            return await self.work()

        async def later() -> tuple[str, ...]:
            return await gather(ask("Ship?"), work())

        @flow(store=store, name="order")
        async def order() -> str:
            await gather(ask("Pay?"), later() if twice else work())
            return "done"

        return order


KINDS: dict[str, Callable[[Works, Any], Any]] = {
    "agent": Works.agent,
    "nested": Works.nested,
    "gather": Works.flow,
    "gather in a gather": lambda works, store: works.flow(store, twice=True),
}


async def _run(works: Works, agent: Any) -> AgentRun:
    run: AgentRun = await agent.run(*works.prompt(agent), run_id="r")
    return run


async def _start(works: Works, agent: Any) -> AgentRun:
    run: AgentRun = await agent.start(*works.prompt(agent), run_id="r").result()
    return run


async def _resume(works: Works, agent: Any) -> AgentRun:
    driving = asyncio.create_task(_run(works, agent))
    await works.asked(agent)
    runs_of(agent.store).withdraw("r")  # as if its process had ended
    driving.cancel()
    await asyncio.wait([driving])
    run: AgentRun = await agent.resume("r")
    return run


VERBS: dict[str, Callable[[Works, Any], Coroutine[Any, Any, AgentRun]]] = {
    "run": _run,
    "start": _start,
    "resume": _resume,
}


def _yes(item: PendingItem) -> Decision:
    return Answer("yes") if item.stage == "question" else Approve()


@pytest.mark.parametrize(("kind", "verb", "place"), pairs(KINDS, VERBS, [None, *STORES]))
async def test_what_was_decided_while_the_run_worked_is_used_after_that(
    kind: str, verb: str, place: str | None, tmp_path: Path
) -> None:
    async with stores(place or "memory", tmp_path, 1) as [store]:
        works = Works()
        agent = KINDS[kind](works, None if place is None else store)
        driving = asyncio.create_task(VERBS[verb](works, agent))
        items = await works.asked(agent, again=verb == "resume")
        for number, item in enumerate(items, 1):
            await agent.decide("r", {item.id: _yes(item)})
            left = [each.id for each in items[number:]]
            assert [each.id for each in (await agent.attach("r").status()).pending] == left
            assert [each.id for each in (await agent.pending()).get("r", ())] == left
            if place is not None:
                assert [each.id for each in (await pending(store)).get("r", ())] == left
        works.ends.set()
        run = await driving
        assert (run.stop, run.pending) == (stops.Completed(), ())
        assert sorted(works.paid) == sorted(json.loads(item.call.arguments)["to"] for item in items if not _asks(item))


def _asks(item: PendingItem) -> bool:
    return item.stage == "question"


@pytest.mark.parametrize("place", [None, "memory"])
async def test_what_is_left_undecided_waits_and_the_rest_is_done(place: str | None) -> None:
    works = Works()
    agent = works.agent(None if place is None else InMemoryStore())
    handle = agent.start("Go", run_id="r")
    first_item, second = await works.asked(agent)
    await agent.decide("r", {second.id: Deny("no")})
    works.ends.set()
    run = await handle.result()
    assert ([item.id for item in run.pending], works.paid) == ([first_item.id], [])
    await agent.decide("r", {first_item.id: Approve()})
    assert ((await handle.result()).stop, works.paid) == (stops.Completed(), ["ada"])


async def test_a_decision_at_any_moment_is_used_by_who_drives_the_run_or_makes_it_due() -> None:
    async def reached(number: int) -> None:
        if number == moment and item is not None:
            await agent.decide("r", {item.id: Answer("yes")})
            decided.append(number)

    used = 0
    for moment in range(1, 100):  # noqa: B007 - read by `reached`
        decided: list[int] = []
        works, item = Works(), None
        store = InMemoryStore()
        agent, watched = works.flow(store), WatchedStore(InMemoryStore(shared=store), reached)
        driving = asyncio.create_task(_run(works, works.flow(watched)))
        (found,) = await works.asked(agent)
        item, watched.moments = found, 0
        works.ends.set()
        run = await driving
        if not decided:
            break
        assert not (await agent.attach("r").status()).pending
        used += isinstance(run.stop, stops.Completed)
        assert (await agent.resume("r")).output == "done"
    assert used
    assert moment < 90


async def test_a_handle_that_is_cancelled_at_any_moment_says_how_the_run_stands() -> None:
    async def reached(number: int) -> None:
        if number == moment:
            assert handle is not None
            assert await handle.cancel()
            await asyncio.sleep(0)

    for moment in range(1, 100):
        handle: RunHandle[Any] | None = None
        works, store = Works(), InMemoryStore()
        agent, watched = works.flow(store), WatchedStore(InMemoryStore(shared=store), reached)
        watched.moments = 1_000
        handle = works.flow(watched).start(run_id="r")
        (item,) = await works.asked(agent)
        await agent.decide("r", {item.id: Answer("yes")})
        watched.moments = 0
        works.ends.set()
        run = await handle.result()
        assert stops.status_of(run.stop) == (await agent.attach("r").status()).status
        if watched.moments < moment:
            break
    assert 4 < moment < 90


async def test_what_is_forged_or_withdrawn_or_does_not_fit_any_more_is_listed() -> None:
    store = InMemoryStore()
    works = Works()
    agent = works.agent(store)
    driving = asyncio.create_task(_run(works, agent))
    items = await works.asked(agent)
    runs = runs_of(store)
    await store.post("run:r", "forged", encode(PostedDecisions({items[0].id: Approve()}))[:-1])
    await runs.put_item("r", "one", encode(PostedDecisions({items[0].id: Approve()})))
    await runs.put_item("r", "withdrawn", encode(PostedWithdrawal("one")))
    assert (await agent.attach("r").status()).pending == items
    await runs.put_item("r", "unfit", encode(PostedDecisions({items[1].id: Modify({"to": 1})})))
    assert (await agent.attach("r").status()).pending == items[:1]
    works.ends.set()
    assert [item.id for item in (await driving).pending] == [item.id for item in items]
    assert (await agent.attach("r").status()).pending == (await pending(store))["r"] == items


@pytest.mark.parametrize("kind", ["agent", "gather"])
async def test_a_server_goes_on_with_what_was_decided_while_the_run_worked(kind: str) -> None:
    works = Works()
    agent = KINDS[kind](works, InMemoryStore())
    async with serving(app([agent], token=TOKEN)) as server:
        await server.post("/runs", {"agent": agent.name, "prompt": "null", "run_id": "r"}, 201)
        for item in await works.asked(agent):
            action = {"action": "answer", "answer": "yes"} if _asks(item) else {"action": "approve"}
            await server.post("/runs/r/decisions", {"decisions": [{"id": item.id, **action}]})
            assert item.id not in {each["id"] for each in (await server.get("/runs/r"))["pending"]}
        works.ends.set()
        while (await server.get("/runs/r"))["status"] != "Completed":  # noqa: ASYNC110 - it is suspended in between
            await asyncio.sleep(0)


async def _end(agent: Any, how: str) -> None:
    """End a run that waits, or have it abandon what waits."""
    if how == "redirected":
        assert await agent.attach("r").redirect("Stop")
    else:
        assert await agent.attach("r").cancel()
        await agent.resume("r")


@pytest.mark.parametrize("place", [None, *STORES])
@pytest.mark.parametrize("how", ["cancelled", "redirected"])
async def test_a_decision_on_what_is_abandoned_is_refused_and_the_run_stays(
    how: str, place: str | None, tmp_path: Path
) -> None:
    async with stores(place or "memory", tmp_path, 1) as [store]:
        works = Works()
        works.ends.set()
        agent = works.agent(None if place is None else store)
        items = (await _run(works, agent)).pending
        await agent.decide("r", {items[0].id: Deny("no")})
        await _end(agent, how)
        before, status = await agent.record("r"), await agent.attach("r").status()
        assert status.pending == (items[1:] if how == "redirected" else ())
        for _ in range(2):
            with pytest.raises(AlreadyDecided, match=r"ended|redirected"):
                await agent.decide("r", {items[1].id: Approve()})
        await agent.decide("r", {items[0].id: Deny("no")})
        assert await agent.record("r") == before
        assert not await agent.pending() or how == "redirected"
        decisions = {items[1].id: Approve()} if how == "cancelled" else {}
        run = await agent.resume("r", decisions)
        assert (run.stop, works.paid) == (stops.Completed(), ["bob"] if decisions else [])


async def test_a_server_refuses_decisions_on_a_run_that_was_cancelled() -> None:
    works = Works()
    works.ends.set()
    agent = works.agent(InMemoryStore())
    item = (await _run(works, agent)).pending[0]
    async with serving(app([agent], token=TOKEN)) as server:
        await server.post("/runs/r/cancel")
        assert await server.ended("r") == await server.get("/runs/r")
        assert (await server.get("/runs/r"))["pending"] == []
        body = {"decisions": [{"id": item.id, "action": "approve"}]}
        assert "Cancelled" in str(await server.post("/runs/r/decisions", body, 409))
        assert (await server.get("/runs/r"))["status"] == "Cancelled"
        assert not works.paid


FIELDS: dict[str, Any] = {"reason": "x", "arguments": {"to": "eve"}, "answer": "x", "result": "x"}
TAKEN = {"approve": "", "deny": "reason", "modify": "arguments", "answer": "answer", "happened": "result"}


async def test_a_server_takes_one_decision_on_a_call_with_the_fields_of_its_action() -> None:
    works = Works()
    works.ends.set()
    agent = works.agent(InMemoryStore())
    item = (await _run(works, agent)).pending[0]
    before = await agent.record("r")
    wrong = [
        {"action": action, name: value, **({taken: FIELDS[taken]} if taken else {})}
        for action, taken in {**TAKEN, "did_not_happen": ""}.items()
        for name, value in FIELDS.items()
        if name != taken
    ]
    async with serving(app([agent], token=TOKEN)) as server:
        for each in [*wrong, {"action": "answer"}, {"action": "modify"}]:
            await server.post("/runs/r/decisions", {"decisions": [{"id": item.id, **each}]}, 422)
        approve, deny = {"id": item.id, "action": "approve"}, {"id": item.id, "action": "deny"}
        await server.post("/runs/r/decisions", {"decisions": [approve, deny]}, 422)
        assert await agent.record("r") == before
        await server.post("/runs/r/decisions", {"decisions": [approve, approve]})

"""A run stops for the reason for which its agent did, whatever a tool had done once; only where something else would be
called in its place does it end because of that."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from msgspec import Struct

from tests.samples import pairs
from tests.stores.mortal import MortalStore
from tests.teams.models import Answering, Reply, after_tools
from ziggurat import Agent, Budget, ModelRequest, Runnable, tool
from ziggurat.core.service import Effect
from ziggurat.errors import ModelError, StoreError
from ziggurat.flows import flow
from ziggurat.layers.alternatives import fallback
from ziggurat.messages import stops, tool_call
from ziggurat.plans import Graph, Task, workflow
from ziggurat.stores import InMemoryStore

ENDS: dict[str, Exception | str] = {
    "connection": ConnectionError("gone"),
    "server": ModelError("overloaded", kind="server"),
    "budget": "not asked",
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _worker(end: str, effect: Effect) -> Agent:
    @tool(effect=effect)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def reply(request: ModelRequest) -> Reply:
        return ENDS[end] if request.messages[-1].role == "tool" else tool_call("pay")

    budget = Budget(requests=1) if end == "budget" else None
    return Agent(Answering(reply), name="worker", description="Works.", tools=[pay], budget=budget)


def _alone(worker: Agent, **arguments: Any) -> Runnable[Any]:
    return worker.with_store(arguments["store"])


def _in_a_flow(worker: Agent, **arguments: Any) -> Runnable[Any]:
    @flow(**arguments)
    async def work(text: str) -> str:
        return (await worker.run(text)).text

    return work


def _in_a_plan(worker: Agent, **arguments: Any) -> Runnable[Any]:
    return workflow(Task("works", agent=worker, prompt="go"), **arguments)


class State(Struct):
    text: str = ""


def _in_a_graph(worker: Agent, **arguments: Any) -> Runnable[Any]:
    graph = Graph(State)
    graph.node(worker, name="works", writes="text", takes=lambda state: "go")
    return graph.build("graph", **arguments)


def _replaced(worker: Agent, **arguments: Any) -> Runnable[Any]:
    return Runnable(fallback(worker, Agent(Answering("other"), name="other")), name="pair", **arguments)


def _as_a_tool(worker: Agent, **arguments: Any) -> Runnable[Any]:
    return Agent(Answering(after_tools("done", tool_call("worker", input="go"))), tools=[worker], **arguments)


async def _facts(make: Callable[..., Runnable[Any]], end: str, effect: Effect, store: Any) -> tuple[Any, ...]:
    run = await make(_worker(end, effect), store=store).run("{}", run_id="r")
    return run.stop, run.observations, run.usage, bool(run.pending)


@pytest.mark.parametrize(("make", "end"), pairs([_alone, _in_a_flow, _in_a_plan, _in_a_graph], ENDS))
async def test_a_run_stops_as_its_agent_did_whatever_was_done(make: Callable[..., Runnable[Any]], end: str) -> None:
    alone = await _facts(_alone, end, "repeatable", InMemoryStore())
    whole = await _facts(make, end, "once", InMemoryStore())
    assert whole[0] == (await _facts(make, end, "repeatable", InMemoryStore()))[0] == alone[0]
    await _is_the_same_after_a_crash(make, end, whole)


@pytest.mark.parametrize(("make", "end"), pairs([_replaced, _as_a_tool], ENDS))
async def test_nothing_is_called_in_place_of_an_agent_that_has_acted(
    make: Callable[..., Runnable[Any]], end: str
) -> None:
    whole = await _facts(make, end, "once", InMemoryStore())
    told = whole[0].error if make is _replaced else whole[1][0]
    assert "pay: paid" in told
    assert make is _as_a_tool or isinstance(whole[0], stops.Failed)
    await _is_the_same_after_a_crash(make, end, whole)


async def _is_the_same_after_a_crash(make: Callable[..., Runnable[Any]], end: str, whole: tuple[Any, ...]) -> None:
    for lives in range(1, 40):
        rows = InMemoryStore()
        store = MortalStore(InMemoryStore(shared=rows), lives)
        with suppress(StoreError):
            await _facts(make, end, "once", store)
        await store.inner.close()
        if not store.dead:
            return
        later = InMemoryStore(shared=rows)
        reached = await _facts(make, end, "once", later)
        assert reached == whole or reached[-1], f"lost at write {lives}"  # else nobody knows whether it took effect
        await later.close()
    raise AssertionError("the process never came to its end")

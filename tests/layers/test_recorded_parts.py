"""A run whose process was lost behind any entry goes on, whatever combinator the call is made of that was cut."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec import Struct

from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Context,
    Middleware,
    Runnable,
    ToolCall,
    ToolResult,
    stack,
    tool,
    user,
)
from ziggurat.agents import runs_of
from ziggurat.journal import LocalJournal
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.pipeline import pipeline, steer, tap
from ziggurat.layers.retry import retry
from ziggurat.messages import tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


class City(Struct):
    name: str


class Wrapped(Middleware):
    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
        result = await tool(call, ctx)
        assert isinstance(result, ToolResult)
        return result


@tool(effect="none")
async def look(at: int) -> str:
    return f"saw {at}"


TOOLS: dict[str, Callable[[], Any]] = {
    "fallback": lambda: fallback(look, look),
    "hedge": lambda: hedge(look, delay=60),
    "steer": lambda: steer(lambda request, ctx: "a", a=look, b=look),
    "nested": lambda: fallback(hedge(look, delay=60), steer(lambda request, ctx: "a", a=look, b=look)),
    "layered": lambda: stack(fallback(stack(look, tap()), look), retry(attempts=2)),
}


def searcher(made: Callable[[], Any], store: InMemoryStore) -> Agent:
    model = ScriptedModel(
        rules=[(lambda request: request.messages[-1].role == "tool", "done")], always=tool_call("look", at=1)
    )
    return Agent(model, tools=[made()], middleware=[Wrapped()], store=store)


async def cities(run: AgentRun, ctx: Context) -> list[City]:
    return [City(run.text)]


async def question(cities: list[City], ctx: Context) -> AgentRequest:
    return AgentRequest((user(cities[0].name),))


def relay(store: InMemoryStore) -> Runnable:
    ann, ben = (Agent(ScriptedModel(always=text), name=text) for text in ("ann", "ben"))
    return Runnable(pipeline(ann, cities, question, ben), name="relay", store=store)


AGENTS: dict[str, Callable[[InMemoryStore], Runnable]] = {
    **{f"tool: {name}": partial(searcher, made) for name, made in TOOLS.items()},
    "pipeline": relay,
}


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
async def test_a_run_goes_on_behind_any_entry(agent: Callable[[InMemoryStore], Runnable]) -> None:
    whole = agent(InMemoryStore())
    run = await whole.run("go", run_id="r")
    lines = (await whole.record("r")).splitlines(keepends=True)
    for lost_behind in range(1, len(lines)):
        store = InMemoryStore()
        later = agent(store)
        entries = LocalJournal.load(b"".join(lines[:lost_behind])).entries
        await runs_of(store).plant("r", later.name, entries)
        again = await later.resume("r")
        assert (again.stop, again.messages) == (run.stop, run.messages), lines[lost_behind - 1]

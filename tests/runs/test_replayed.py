"""`run.replayed` tells a run that was answered from its record from one that was made now."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import PLACES, stores
from ziggurat import Agent, AgentRun, Approve, tool
from ziggurat.models import ScriptedModel
from ziggurat.tools import tool_call


@tool(effect="once", approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


async def streamed(agent: Agent[Any], run_id: str) -> AgentRun:
    async with agent.stream("go", run_id=run_id) as events:
        async for _ in events:
            pass
    return events.response


WAYS: dict[str, Callable[[Agent[Any], str], Awaitable[AgentRun]]] = {
    "run": lambda agent, run_id: agent.run("go", run_id=run_id),
    "resume": lambda agent, run_id: agent.resume(run_id),
    "stream": streamed,
    "start": lambda agent, run_id: agent.start("go", run_id=run_id).result(),
    "attach": lambda agent, run_id: agent.attach(run_id).result(),
}


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_only_a_run_that_had_ended_before_is_replayed(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        calls: list[str] = []
        model = ScriptedModel(rules=[("go", tool_call("pay"))], always="done")
        one, other = (Agent(model, tools=[pay], store=store) for store in (here, elsewhere))
        first = await one.run("go", run_id="r")
        assert not first.replayed
        again = await other.run("go", run_id="r")
        assert not again.replayed, "a run that waits is continued"
        resumed = await one.resume("r", {item.id: Approve() for item in first.pending})
        assert (resumed.text, resumed.replayed) == ("done", False)
        calls.append(str(model.calls))
        for way, answer in WAYS.items():
            for agent in (one, other):
                run = await answer(agent, "r")
                assert (run.text, run.replayed, run.usage) == ("done", True, resumed.usage), way
        assert [str(model.calls)] == calls

"""`run.replayed` tells a run that was answered from its record from one that was made now."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import PLACES, stores
from ziggurat import Agent, AgentRun, Approve, tool
from ziggurat.errors import ServiceError
from ziggurat.journal.store import UNFINISHED
from ziggurat.messages import stops, tool_call, user
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.stops import status_of
from ziggurat.testing import ScriptedModel


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


STOPS: list[stops.Stop] = [
    stops.Completed(), stops.ToolCalled("pay"), stops.StopCondition(""), stops.Continued("r~1"), stops.Cancelled(),
    stops.TimedOut(1.0), stops.BudgetExceeded("tokens", 1, 2), stops.MaxSteps(3), stops.Failed("bad", "ValueError"),
    stops.Incomplete("length"), stops.ModelCallDenied("no"),
]  # fmt: skip


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: type(stop).__name__)
@pytest.mark.parametrize("replayed", [True, False])
def test_a_run_that_can_go_on_says_how_when_it_is_asked_for_again(stop: stops.Stop, replayed: bool) -> None:
    run = AgentRun(Transcript.of(user("go")), stop, id="r", replayed=replayed)
    advised = replayed and status_of(stop) in UNFINISHED
    assert ("resume('r')" in (run.error or "")) == advised
    if not run.is_reusable:
        with pytest.raises(ServiceError) as caught:
            run.raise_for_stop()
        assert ("resume('r')" in " ".join(getattr(caught.value, "__notes__", ()))) == advised

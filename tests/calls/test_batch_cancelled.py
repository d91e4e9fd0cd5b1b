"""Calls that are cancelled because another call of their batch has failed: whether they had begun is told truly."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.stores import places
from tests.stores.places import new_store
from ziggurat import Agent, Approvals, Rule, tool
from ziggurat.core.context import Context
from ziggurat.core.event import Event
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, Decision, PendingItem
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.parts import ToolCall, tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.toolbox import Toolbox

NOT_BEGUN = "not executed: another call of the batch failed"
BEGUN = "interrupted: another call of the batch failed while this one ran; whether it took effect is unknown"


@pytest.fixture(autouse=True, params=["no store", "memory", "sqlite", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "no store":
        yield None
        return
    with places.used(request.param, tmp_path):
        yield new_store()


class Held:
    """Where the call that is cancelled stands when the other one fails."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.ran: list[str] = []
        self.asked: list[PendingItem] = []

    async def hold(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()

    async def approver(self, item: PendingItem) -> Decision:
        self.asked.append(item)
        await self.hold()
        raise AssertionError

    async def when(self, arguments: dict[str, Any]) -> bool:
        await self.hold()
        raise AssertionError


class _SlowHook(Middleware):
    def __init__(self, held: Held) -> None:
        self.held = held

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        if call.name == "pay":
            await self.held.hold()


def _options(where: str, held: Held) -> dict[str, Any]:
    if where == "approver":
        return {"approvals": Approvals("pay", approver=held.approver)}
    if where == "rule":
        return {"approvals": Approvals(Rule("pay", "deny", held.when))}
    return {"middleware": [_SlowHook(held)]} if where == "hook" else {}


@pytest.mark.parametrize("effect", ["none", "repeatable"])
@pytest.mark.parametrize("first", ["pay", "fail"])
@pytest.mark.parametrize(
    ("where", "told"), [("approver", NOT_BEGUN), ("rule", NOT_BEGUN), ("hook", NOT_BEGUN), ("tool", BEGUN)]
)
def test_only_a_call_that_began_is_reported_as_interrupted(
    where: str, told: str, first: str, effect: Any, store: Any
) -> None:
    async def main() -> tuple[AgentRun, AgentRun, list[str]]:
        held = Held()

        @tool(effect=effect)
        async def pay() -> str:
            """Pay."""
            held.ran.append("pay")
            await held.hold()
            return "paid"

        @tool
        async def fail() -> str:
            """Fail, as soon as the other call stands where it is held."""
            await held.reached.wait()
            raise ValueError("broken")

        calls = sorted([tool_call("pay", id="a"), tool_call("fail", id="b")], key=lambda call: call.name != first)
        box = Toolbox([pay, fail], join="fail_fast")
        agent = Agent(ScriptedModel(calls, "done"), tools=box, store=store, **_options(where, held))
        run = await agent.run("go", run_id="r")
        return run, await agent.replay("r") if store is not None else run, held.ran

    run, replayed, ran = asyncio.run(main())
    assert run.stop == stops.Completed()
    assert sorted(run.observations) == sorted([told, "ValueError: broken"])
    assert ran == (["pay"] if told == BEGUN else [])
    assert replayed.observations == run.observations


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("beside", [1, 3])
def test_nobody_is_asked_about_calls_that_wait_when_another_fails(depth: int, beside: int, store: Any) -> None:
    events: list[Event] = []

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        raise AssertionError

    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    waiting: Any = pay
    name = "pay"
    for level in range(depth):
        call = tool_call(name, **({"input": "x"} if level else {}))
        name = f"level-{level}"
        waiting = Agent(ScriptedModel(always=call), name=name, tools=[waiting])
    arguments = {"input": "x"} if depth else {}
    calls = [tool_call(name, id=f"c{at}", **arguments) for at in range(beside)]
    box = Toolbox([waiting, fail], join="fail_fast")
    agent = Agent(ScriptedModel([*calls, tool_call("fail", id="b")], "done"), tools=box, store=store)
    run = agent.run_sync("go", run_id="r", listeners=[events.append])
    assert (run.stop, run.pending, run.text) == (stops.Completed(), (), "done")
    assert len(run.observations) == beside + 1
    if store is not None:
        assert asyncio.run(store.pending()) == {}

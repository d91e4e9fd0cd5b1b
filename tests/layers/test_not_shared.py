"""Nothing but a whole answer is stored or shared: no run that waits or broke off, no reply that was cut."""

import asyncio
from collections.abc import Callable
from typing import Any, get_args

import pytest

from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Approvals,
    Budget,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Rule,
    Runnable,
    Service,
    ToolCall,
    ToolResult,
    stack,
    tool,
    user,
)
from ziggurat.core import root
from ziggurat.layers import CacheStore, DedupeStore
from ziggurat.layers.cache import cache, dedupe
from ziggurat.messages import Transcript, assistant, tool_call
from ziggurat.messages.model import FinishReason
from ziggurat.testing import ScriptedModel

Layers = Callable[[Any], Any]
LAYERS: dict[str, Callable[[], Layers]] = {
    "cache": lambda: lambda inner: stack(inner, cache(store=CacheStore())),
    "dedupe": lambda: lambda inner: stack(inner, dedupe(store=DedupeStore())),
    "both": lambda: lambda inner: stack(inner, cache(store=CacheStore()), dedupe(store=DedupeStore())),
}
REQUEST = AgentRequest((user("go"),))


@tool(approval=True, effect="none")
async def read() -> str:
    return "text"


@tool(effect="none")
async def look() -> str:
    return "seen"


def _cut(finish: FinishReason) -> ModelResponse:
    return ModelResponse(assistant("The first reason is"), finish=finish)


ENDS: dict[str, Callable[[], Agent]] = {
    "Completed": lambda: Agent(ScriptedModel(always="done")),
    "Suspended": lambda: Agent(ScriptedModel(always=tool_call("read")), tools=[read]),
    "Incomplete": lambda: Agent(ScriptedModel(always=_cut("length"))),
    "MaxSteps": lambda: Agent(ScriptedModel(always=tool_call("look")), tools=[look], max_steps=2),
    "BudgetExceeded": lambda: Agent(ScriptedModel(always=tool_call("look")), tools=[look], budget=Budget(requests=1)),
    "ModelCallDenied": lambda: Agent(ScriptedModel(always="x"), approvals=Approvals(Rule("*", "deny", stage="model"))),
    "Failed": lambda: Agent(ScriptedModel(always=ConnectionError("gone"))),
}


class Counted:
    """A service, counting its calls."""

    def __init__(self, inner: Service[Any, Any]) -> None:
        self.inner, self.calls = inner, 0

    async def __call__(self, request: Any, ctx: Any, /) -> Any:
        self.calls += 1
        await asyncio.sleep(0)
        return await self.inner(request, ctx)


async def _thrice(service: Any, request: Any) -> list[Any]:
    """Call twice at the same time, and once more."""
    both = await asyncio.gather(*(service(request, root()) for _ in range(2)), return_exceptions=True)
    return [*both, *await asyncio.gather(service(request, root()), return_exceptions=True)]


@pytest.mark.parametrize("layers", LAYERS)
async def test_only_a_run_that_ended_well_answers_for_others(layers: str) -> None:
    for end, make in ENDS.items():
        counted = Counted(make())
        runs = await _thrice(LAYERS[layers]()(counted), REQUEST)
        ended = {type(run.stop).__name__ for run in runs if isinstance(run, AgentRun)}
        if end == "Completed":
            assert counted.calls < 3
        else:
            assert ended <= {end}
            assert counted.calls >= (2 if any(isinstance(run, Exception) for run in runs) else 3)
        if end == "Suspended":
            assert len({run.id for run in runs}) == 3


@pytest.mark.parametrize("layers", LAYERS)
async def test_only_a_whole_reply_answers_for_others(layers: str) -> None:
    request = ModelRequest(Transcript.of(user("go")), settings=ModelSettings())
    for finish in get_args(FinishReason):
        counted = Counted(ScriptedModel(always=_cut(finish)))
        await _thrice(LAYERS[layers]()(counted), request)
        assert (counted.calls < 3) == (finish in ("stop", "tool_calls", "other")), finish


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("error", [None, "permanent", "interrupted"])
async def test_only_a_result_without_error_answers_for_others(error: Any, layers: str) -> None:
    async def result(call: ToolCall, ctx: Any) -> ToolResult:
        return ToolResult(call.id, call.name, "text", error)

    counted = Counted(result)
    await _thrice(LAYERS[layers]()(counted), ToolCall("1", "look", "{}"))
    assert (counted.calls < 3) == (error is None)


@pytest.mark.parametrize("layers", LAYERS)
def test_a_run_that_waits_is_asked_for_again_by_the_next_run(layers: str) -> None:
    agent = Runnable(LAYERS[layers]()(ENDS["Suspended"]()), name="reader")
    first, second = agent.run_sync("go"), agent.run_sync("go")
    assert first.pending
    assert second.pending
    assert first.pending[0].id != second.pending[0].id

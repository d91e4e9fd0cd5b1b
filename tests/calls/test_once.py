"""What was done before a failure stands in its error; what was done after it, by another try, does not."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from tests.samples import pairs, rows
from tests.stores.mortal import MortalStore
from tests.stores.places import STORES, new_store
from tests.teams.models import Answering, after_tools
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Approve,
    Context,
    Middleware,
    ModelRequest,
    ModelResponse,
    Runnable,
    Service,
    ToolCall,
    ToolResult,
    layer,
    stack,
    tool,
)
from ziggurat.errors import ModelError, StoreError
from ziggurat.flows import flow
from ziggurat.layers.alternatives import fallback
from ziggurat.layers.retry import retry
from ziggurat.messages import stops, tool_call
from ziggurat.messages.model import SPEC
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("place")

WAITS = 3


class _Again(Middleware):
    """Awaits the agent named `worker` once more after a failure."""

    async def wrap_agent(
        self, request: AgentRequest, ctx: Context, call_next: Callable[[AgentRequest, Context], Awaitable[AgentRun]]
    ) -> AgentRun:
        if not ctx.path.endswith("worker"):
            return await call_next(request, ctx)
        try:
            return await call_next(request, ctx)
        except ModelError:
            return await call_next(request, ctx.under("again"))


def _retried(worker: Agent, other: Agent) -> Any:
    retried = stack(worker, retry(base=0.0))
    return Agent(ScriptedModel(tool_call("worker", input="x"), "done"), tools=[retried])


def _awaited_again(worker: Agent, other: Agent) -> Any:
    model = ScriptedModel(tool_call("worker", input="x"), "done")
    return Agent(model, tools=[worker], middleware=[_Again()])


def _in_a_flow(worker: Agent, other: Agent) -> Any:
    @flow
    async def work(text: str) -> str:
        try:
            return (await worker.run(text)).text
        except ModelError:
            return (await worker.run(text)).text

    return work


def _replaced(worker: Agent, other: Agent) -> Any:
    return Runnable(fallback(stack(worker, retry(base=0.0)), other), name="pair")


@pytest.mark.parametrize(
    ("around", "failures", "place"),
    rows([_retried, _awaited_again, _in_a_flow, _replaced], [2, 1], STORES),
    indirect=["place"],
)
async def test_a_try_that_failed_before_anything_was_done_is_no_reason_to_stop_whatever_was_done_later(
    around: Callable[[Agent, Agent], Any], failures: int
) -> None:
    await _is_done_once(around, failures if around is _retried else 1)


async def _is_done_once(around: Callable[[Agent, Agent], Any], failures: int) -> None:
    paid: list[int] = []
    asked = 0

    @tool(effect="once", approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        nonlocal asked
        asked += 1
        if asked <= failures:
            raise ModelError("overloaded", transient=True)
        done = sum(message.role == "tool" for message in request.messages)
        script = ScriptedModel(tool_call("pay", amount=done + 1) if done < WAITS else "paid all")
        return await script(request, ctx)

    store = new_store()
    worker = Agent(model, name="worker", description="Pays.", tools=[pay])
    other = Agent(model, name="other", description="Pays.", tools=[pay])
    root = around(worker, other).with_store(store)
    run = await root.run("go")
    for _ in range(WAITS):
        assert len(run.pending) == 1, run.error
        run = await root.resume(run.id, {run.pending[0].id: Approve()})
    assert isinstance(run.stop, stops.Completed), run.error
    assert paid == [1, 2, 3]
    replay = await root.replay(run.id)
    assert (replay.messages, replay.stop, replay.usage) == (run.messages, run.stop, run.usage)
    record = await root.record(run.id)
    assert b"NotRepeatable" not in record


class _Wrapping(Middleware):
    async def wrap_tool(
        self, call: ToolCall, ctx: Context, inner: Callable[[ToolCall, Context], Awaitable[ToolResult]]
    ) -> ToolResult:
        return _masked(await inner(call, ctx))


class _After(Middleware):
    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult:
        return _masked(result)


def _masked(result: ToolResult) -> ToolResult:
    return replace(result, content=f"<{result.text.replace('DE89', '***')}>")


@layer
async def _mask(call: ToolCall, ctx: Context, inner: Service[ToolCall, ToolResult]) -> ToolResult:
    return _masked(await inner(call, ctx))


@tool(effect="once")
async def _pay(to: str) -> str:
    """Pay."""
    return "paid from DE89"


@tool(name="_pay", effect="once")
def _pay_in_a_thread(to: str) -> str:
    """Pay."""
    return "paid from DE89"


class _Paying:
    """A tool that is a service of its own."""

    def __init__(self) -> None:
        self.spec = replace(_pay.spec)
        self.facts: dict[Any, Any] = {SPEC: self.spec}

    async def __call__(self, call: ToolCall, ctx: Context, /) -> ToolResult:
        return ToolResult(call.id, call.name, "paid from DE89", None, call.name)


@pytest.mark.parametrize(
    ("kind", "around", "place"),
    pairs([_pay, _pay_in_a_thread, _Paying()], ["wrap_tool", "layer", "two layers", "after_tool", "all"], STORES),
    indirect=["place"],
)
async def test_wraps_layers_and_hooks_see_the_result_after_a_crash_too(kind: Any, around: str) -> None:
    layers = {"layer": 1, "two layers": 2, "all": 1}.get(around, 0)
    hooks = [_Wrapping()] * (around in ("wrap_tool", "all")) + [_After()] * (around in ("after_tool", "all"))

    def agent(store: Any) -> Agent:
        model = Answering(after_tools("end", tool_call("_pay", to="Ada")))
        return Agent(model, tools=[stack(kind, *[_mask()] * layers)], middleware=hooks, store=store)

    whole = (await agent(new_store()).run("go")).observations
    assert "DE89" not in whole[0]
    for lives in range(1, 20):
        store = MortalStore(new_store(), lives)
        with suppress(StoreError):
            await agent(store).run("go", run_id=f"r{lives}")
        await store.inner.close()
        if not store.dead:
            break
        other = agent(new_store())
        run = await other.run("go", run_id=f"r{lives}")
        if not run.pending:  # else nobody knows whether it took effect
            assert run.observations == whole
            assert run.messages[-2].tool_results[0].text == whole[0]

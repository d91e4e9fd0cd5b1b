"""A mistake in the code that agents are made of ends the outermost run, from any depth, and is never text for a model.

Such code are hooks, instructions, stop policies, validators, prices, approvers, and what chooses between services or
members. The run can go on when the mistake is corrected. What a tool or a model raises is text for the model around it,
as is a lost connection.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.calls.slips import HERE, Slip
from tests.samples import rows
from tests.stores.places import STORES, new_store
from ziggurat import Agent, Approvals, Budget, Context, Message, Middleware, Runnable, Toolbox, stack, stop_when, tool
from ziggurat.agents import AgentRun, Approve, Rule
from ziggurat.errors import Denied, ServiceError, ToolError
from ziggurat.flows import flow, settled
from ziggurat.layers import fallback, retry, steer
from ziggurat.messages import ModelRequest, ModelResponse, Text, stops, tool_call
from ziggurat.messages.message import Part
from ziggurat.teams import background, debate, group_chat
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("place")


class PayingSlip(Slip):
    """A mistake of an agent that has the tool `pay`, and the effects of that."""

    def __init__(self, error: Callable[[], Exception] = lambda: KeyError("slip")) -> None:
        super().__init__(error)
        self.paid = 0

    def tools(self) -> list[Any]:
        @tool(effect="once")
        async def pay() -> str:
            self.paid += 1
            return "paid"

        async def look() -> str:
            return "seen"

        return [pay, look]

    def agent(self, **settings: Any) -> Agent:
        model = settings.pop("model", _turns)
        return Agent(model, name="inner", tools=self.tools(), **settings)


async def _turns(request: ModelRequest, ctx: Context) -> ModelResponse:
    """Answer by how far the conversation has come, so that what a mistake has discarded is said again."""
    turns: list[Part] = [tool_call("pay"), tool_call("look"), Text("done")]
    said = sum(message.role == "assistant" for message in request.messages)
    return ModelResponse(Message("assistant", (turns[said],)))


def _talker(name: str) -> Agent:
    return Agent(ScriptedModel(always=f"I am {name}"), name=name)


def _with_hook(hook: str) -> Callable[[PayingSlip], Runnable]:
    def make(slip: PayingSlip) -> Runnable:
        async def called(self: Middleware, value: Any, ctx: Context, *inner: Any) -> Any:
            slip.make()
            return await inner[0](value, ctx) if inner else None

        code: Any = (lambda self, ctx: slip.make()) if hook == "deltas" else called
        return slip.agent(middleware=[type("Slipping", (Middleware,), {hook: code})()])

    return make


CODE: dict[str, Callable[[PayingSlip], Runnable]] = {
    "instructions": lambda slip: slip.agent(instructions=slip.returning("Be brief.")),
    "stop policy": lambda slip: slip.agent(stop=stop_when(slip.returning(False))),
    "output validator": lambda slip: slip.agent(output_validator=slip.returning(None)),
    "price": lambda slip: slip.agent(budget=Budget(cost=1.0, price=slip.returning(0.0))),
    "approver": lambda slip: slip.agent(approvals=Approvals("look", approver=slip.returning(Approve()))),
    "approver of a model": lambda slip: slip.agent(
        approvals=Approvals(Rule("*", stage="model"), approver=slip.returning(Approve()))
    ),
    "pick of an agent": lambda slip: Runnable(steer(slip.returning("only"), only=slip.agent()), name="inner"),
    "pick of a model": lambda slip: slip.agent(model=steer(slip.returning("only"), only=_turns)),
    "speaker": lambda slip: group_chat(_talker("a"), _talker("b"), speaker=slip.returning(None), name="inner"),
    "until": lambda slip: group_chat(_talker("a"), _talker("b"), until=slip.returning(True), name="inner"),
    "visibility": lambda slip: group_chat(
        slip.agent(), _talker("b"), turns=1, visibility=lambda seen, _: slip.returning(seen)(), name="inner"
    ),
    **{
        hook: _with_hook(hook)
        for hook in (
            "before_agent", "after_agent", "rewrite", "before_model", "on_model_delta", "after_model", "deltas",
            "wrap_model", "wrap_agent",
        )
    },
}  # fmt: skip


def _as_tool(inner: Runnable, name: str, **settings: Any) -> Runnable:
    return Agent(ScriptedModel(tool_call(inner.name, input="x"), always="done"), tools=[inner], name=name, **settings)


def _beside_others(inner: Runnable, name: str, **settings: Any) -> Runnable:
    calls = [tool_call("look", id="1"), tool_call(inner.name, input="x", id="2"), tool_call("look", id="3")]
    look = PayingSlip().tools()[1]
    return Agent(ScriptedModel(calls, always="done"), tools=[inner, look], name=name, **settings)


def _in_a_function(inner: Runnable, name: str, **settings: Any) -> Runnable:
    async def ask() -> str:
        return (await inner.run("x")).text

    return Agent(ScriptedModel(tool_call("ask"), always="done"), tools=[ask], name=name, **settings)


def _in_a_task_group(inner: Runnable, name: str, **settings: Any) -> Runnable:
    async def ask() -> str:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(inner.run("x"))
        return task.result().text

    return Agent(ScriptedModel(tool_call("ask"), always="done"), tools=[ask], name=name, **settings)


def _raising(inner: Runnable, name: str, **settings: Any) -> Runnable:
    tools = Toolbox([inner], on_error="raise")
    return Agent(ScriptedModel(tool_call(inner.name, input="x"), always="done"), tools=tools, name=name, **settings)


def _in_the_background(inner: Runnable, name: str, **settings: Any) -> Runnable:
    model = ScriptedModel(tool_call(f"start_{inner.name}", task="x"), tool_call("join_members"), always="done")
    return background(Agent(model, name="leader"), inner, name=name, **settings)


def _in_a_debate(inner: Runnable, name: str, **settings: Any) -> Runnable:
    return debate(inner, _talker("other"), rounds=1, scoring=False, name=name, **settings)


def _in_a_flow(inner: Runnable, name: str, **settings: Any) -> Runnable:
    @flow(name=name, **settings)
    async def work(task: str) -> str:
        (outcome,) = await settled(inner.run(task))
        return outcome.text if isinstance(outcome, AgentRun) else "it failed, and the flow goes on"

    return work


def _with_layers(inner: Runnable, name: str, **settings: Any) -> Runnable:
    guarded = stack(fallback(stack(inner, retry(base=0)), _talker("other")), retry(base=0))
    return _as_tool(Runnable(guarded, name="guarded"), name, **settings)


AROUND: tuple[Callable[..., Runnable], ...] = (
    _as_tool, _beside_others, _in_a_function, _in_a_task_group, _raising, _in_the_background, _in_a_debate, _in_a_flow,
    _with_layers,
)  # fmt: skip


def _nested(inner: Runnable, around: Callable[..., Runnable], depth: int) -> Runnable:
    """Return an agent with another one so many levels below, the innermost of which is what is said."""
    outer = inner
    for level in range(1, depth + 1):
        settings = {"store": new_store()} if level == depth else {}
        outer = (around if level == 1 else _as_tool)(outer, f"level-{level}", **settings)
    return outer


async def _run(agent: Runnable, streamed: bool) -> AgentRun:
    if not streamed:
        return await agent.run("go", run_id="r", session="s")
    async with agent.stream("go", run_id="r", session="s") as events:
        async for _ in events:
            pass
    return events.response


NESTINGS = [
    (_as_tool, 2, False),
    (_in_a_function, 3, True),
    (_as_tool, 1, True),
    *((make, 1, False) for make in AROUND),
]
"""What is around the code, how deep it is, and whether the run is streamed."""


@pytest.mark.parametrize(("code", "nesting", "place"), rows(CODE, NESTINGS, STORES), indirect=["place"])
async def test_a_mistake_ends_the_outermost_run_until_it_is_corrected(
    code: str, nesting: tuple[Callable[..., Runnable], int, bool], caplog: pytest.LogCaptureFixture
) -> None:
    around, depth, streamed = nesting
    slip = PayingSlip()
    agent = _nested(CODE[code](slip), around, depth)

    run = await _run(agent, streamed)
    assert run.stop == stops.Failed("'slip'", "KeyError")
    assert run.cause is not None
    assert isinstance(run.cause.error, KeyError)
    assert f"{HERE}:" in (run.error or "")
    assert_sendable(run.messages)
    with pytest.raises(ServiceError) as caught:
        run.raise_for_stop()
    assert caught.value.__cause__ is run.cause.error
    (record,) = [each for each in caplog.records if each.name == "ziggurat" and each.levelno >= logging.WARNING]
    assert record.exc_info is not None
    assert record.exc_info[1] is run.cause.error
    assert slip.made == 1
    assert (await agent.replay("r")).stop == run.stop
    slip.error = None
    again = await agent.resume("r")
    assert isinstance(again.stop, stops.Completed)
    assert not any("slip" in message.text for message in again.messages)
    assert slip.paid == (code not in ("speaker", "until"))
    assert (await agent.run("and now", session="s")).stop == stops.Completed()


@pytest.mark.parametrize("error", [KeyError, TypeError, AttributeError, OSError, ZeroDivisionError, AssertionError])
async def test_whatever_is_raised_by_accident_is_a_mistake(error: type[Exception]) -> None:
    run = await _run(_nested(CODE["instructions"](PayingSlip(lambda: error("slip"))), _in_a_function, 2), False)
    assert run.stop == stops.Failed(str(error("slip")), error.__name__)


@pytest.mark.parametrize(
    ("code", "error", "around"),
    rows(
        ["instructions", "before_model", "wrap_agent", "output validator", "stop policy", "before_agent"],
        [ToolError, Denied, ServiceError, ConnectionError, TimeoutError],
        [_as_tool, _beside_others, _in_a_function],
    ),
)
async def test_errors_on_purpose_are_results(
    code: str, error: type[Exception], around: Callable[..., Runnable]
) -> None:
    run = await _run(_nested(CODE[code](PayingSlip(lambda: error("slip"))), around, 1), False)
    assert run.stop == stops.Completed()
    assert any("slip" in text for text in run.observations)


async def test_an_approver_that_has_made_a_mistake_is_asked_again_at_the_root() -> None:
    slip = PayingSlip()
    approvals = Approvals("look", approver=slip.returning(Approve()))
    agent = Agent(_turns, tools=slip.tools(), approvals=approvals, store=new_store())

    run = await agent.run("go", run_id="r")
    assert run.stop == stops.Failed("'slip'", "KeyError")
    assert (await agent.replay("r")).stop == run.stop
    slip.error = None
    assert (await agent.resume("r")).observations == ("paid", "seen")
    assert slip.paid == 1


async def test_the_error_is_an_exception_as_any_other_for_the_code_around() -> None:
    slip, told = PayingSlip(), list[BaseException]()
    inner = Agent(ScriptedModel(always="done"), name="inner", instructions=slip.returning("Be brief."))

    class Told(Middleware):
        async def on_error(self, error: BaseException, ctx: Context) -> None:
            told.append(error)

    class Catches(Middleware):
        async def wrap_agent(self, request: Any, ctx: Context, agent: Any) -> Any:
            try:
                return await agent(request, ctx)
            except KeyError:
                slip.error = None
                return await agent(request, ctx)

    async def ask() -> str:
        try:
            return (await inner.run("x")).text
        except KeyError:
            return "nobody there"

    def corrects(error: Exception) -> bool:
        slip.error = None
        return isinstance(error, KeyError)

    def asks(**settings: Any) -> Agent:
        return Agent(ScriptedModel(tool_call("ask"), always="done"), tools=[ask], **settings)

    assert (await asks().run("go")).observations == ("nobody there",)
    run = await _as_tool(_as_tool(inner, "middle"), "outer", middleware=[Told()]).run("go")
    assert run.cause is not None
    assert told == [run.cause.error]
    assert (await asks(middleware=[Catches()]).run("go")).observations == ("done",)
    slip.error = lambda: KeyError("slip")
    tries = inner.layered(retry(base=0, when=corrects))
    assert (await _as_tool(tries, "outer").run("go")).observations == ("done",)


def test_what_a_model_has_raised_is_no_mistake_of_what_wraps_it() -> None:
    class Translates(Middleware):
        async def wrap_model(self, request: ModelRequest, ctx: Context, model: Any) -> ModelResponse:
            try:
                return await model(request, ctx)  # type: ignore[no-any-return]
            except KeyError as error:
                raise RuntimeError("the provider has no such model") from error

    class Passes(Middleware):
        async def wrap_agent(self, request: Any, ctx: Context, agent: Any) -> Any:
            return await agent(request, ctx)

    async def broken(request: ModelRequest, ctx: Context) -> ModelResponse:
        raise KeyError("model")

    for middleware, text in (
        (Translates(), "RuntimeError: the provider has no such model"),
        (Passes(), "KeyError: 'model'"),
    ):
        inner = Agent(broken, name="inner", middleware=[middleware])
        assert _as_tool(inner, "outer").run_sync("go").observations == (text,)

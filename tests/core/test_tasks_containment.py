"""What ends a task or a program, raised by user code, ends one call: kinds of exceptions times places."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.samples import LONG, pairs
from ziggurat import (
    Agent,
    AgentRun,
    Approvals,
    Denied,
    Middleware,
    ModelRequest,
    Rule,
    Timeout,
    ToolError,
    layer,
    stack,
    stop_when,
    tool,
)
from ziggurat.core.tasks import StopSignal, as_failure, contained
from ziggurat.errors import InvalidArguments, LimitExceeded, ModelError, ServiceError, Suspend
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.retry import retry
from ziggurat.messages import stops, tool_call
from ziggurat.middleware import Redaction
from ziggurat.models import FunctionModel
from ziggurat.observe import Metrics
from ziggurat.testing import ScriptedModel

KINDS: list[Callable[[], BaseException]] = [
    asyncio.CancelledError,
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    lambda: BaseExceptionGroup("several", [SystemExit(3), ValueError("no")]),
]


class Unreadable:
    """A value that fails however it is looked at."""

    def __getattr__(self, name: str) -> Any:
        raise SystemExit(name)

    def __bool__(self) -> bool:
        raise SystemExit("bool")

    def __repr__(self) -> str:
        raise SystemExit("repr")

    def __eq__(self, other: object) -> bool:
        raise SystemExit("eq")

    __hash__ = None  # type: ignore[assignment]


def _fails(*_: object) -> Any:
    raise SystemExit("its own code failed")


FACTS = ("transient", "retry_after", "usage", "partial", "kind", "type_name", "limit", "used", "seconds", "status")
BASES: list[type[BaseException]] = [
    ValueError, KeyError, BaseException, TimeoutError, ServiceError, ModelError, ToolError, Timeout, LimitExceeded,
    Denied, InvalidArguments,
]  # fmt: skip
FAULTS: dict[str, dict[str, Any]] = {
    "attributes that are not there": {"__getattr__": _fails},
    "text": {"__str__": _fails, "__repr__": _fails},
    "properties": {name: property(_fails) for name in FACTS},
    "notes": {"__notes__": property(_fails)},
    "values": dict.fromkeys(FACTS, Unreadable()),
    "attributes that are set": {"__setattr__": _fails},
    "no attributes of its base": {},
}


def misbehaving(base: type[BaseException], fault: str) -> Callable[[], BaseException]:
    """Return an exception of a user's class whose own code fails, made without the constructor of its base."""
    kind = type("Own", (base,), {"__init__": lambda self: None, **FAULTS[fault]})
    return lambda: kind()


class Raises:
    """A function that raises an exception of one kind, whatever it is called with."""

    def __init__(self, kind: Callable[[], BaseException]) -> None:
        self.kind = kind
        self.calls = 0

    def __call__(self, *_: object, **__: object) -> Any:
        self.calls += 1
        raise self.kind()

    async def later(self, *_: object) -> Any:
        await asyncio.sleep(0)
        self()


def model_that(raises: Raises) -> FunctionModel:
    async def answer(request: ModelRequest) -> str:
        return str(await raises.later())

    return FunctionModel(answer)


@tool
async def echo(text: str) -> str:
    return text


def two_steps() -> ScriptedModel:
    return ScriptedModel(tool_call("echo", text="a"), always="end")


def two_calls() -> ScriptedModel:
    return ScriptedModel([tool_call("echo", text="a", id="1"), tool_call("echo", text="b", id="2")], always="end")


def with_hook(hook: str) -> Callable[[Raises], Agent]:
    def make(raises: Raises) -> Agent:
        async def call(self: object, *arguments: object) -> Any:
            await raises.later()

        middleware = type("Raising", (Middleware,), {hook: call})()
        return Agent(two_calls(), tools=[echo], middleware=[middleware])

    return make


def with_layer(raises: Raises) -> Agent:
    @layer
    async def raising(request: Any, ctx: Any, inner: Any) -> Any:
        await raises.later()

    return Agent(stack(two_steps(), raising()), tools=[echo])


def around_agent(raises: Raises) -> Any:
    @layer
    async def raising(request: Any, ctx: Any, inner: Any) -> Any:
        await raises.later()

    return Agent(two_steps(), tools=[echo]).layered(raising())


def around_tool(raises: Raises) -> Agent:
    @layer
    async def raising(request: Any, ctx: Any, inner: Any) -> Any:
        await raises.later()

    return Agent(two_calls(), tools=[stack(echo, raising())])


def with_tool(sync: bool) -> Callable[[Raises], Agent]:
    def make(raises: Raises) -> Agent:
        async def act(text: str) -> str:
            await raises.later()
            return text

        def act_sync(text: str) -> str:
            raises()
            return text

        model = ScriptedModel([tool_call("act", text="a", id="1"), tool_call("act", text="b", id="2")], always="end")
        return Agent(model, tools=[tool(name="act")(act_sync if sync else act)])

    return make


def nested(raises: Raises) -> Agent:
    inner = Agent(model_that(raises), name="inner")
    model = ScriptedModel([tool_call("inner", input="a", id="1"), tool_call("inner", input="b", id="2")], always="end")
    return Agent(model, tools=[inner])


def called_in_tool(raises: Raises) -> Agent:
    inner = Agent(model_that(raises), name="inner")

    @tool
    async def delegate() -> str:
        return (await inner.run("x")).text

    return Agent(ScriptedModel(tool_call("delegate"), always="end"), tools=[delegate])


def with_output(raises: Raises) -> Agent:
    @dataclass
    class Answer:
        text: str

        def __post_init__(self) -> None:
            raises()

    return Agent(ScriptedModel(always=tool_call("final_answer", text="a")), output=Answer)


def with_argument(raises: Raises) -> Agent:
    @dataclass
    class Place:
        name: str

        def __post_init__(self) -> None:
            raises()

    @tool
    async def go(place: Place) -> str:
        return place.name

    return Agent(ScriptedModel(tool_call("go", place={"name": "Paris"}), always="end"), tools=[go])


PLACES: dict[str, Callable[[Raises], Any]] = {
    "model": lambda raises: Agent(model_that(raises)),
    "model with retries": lambda raises: Agent(stack(model_that(raises), retry(base=0))),
    "model of a fallback": lambda raises: Agent(fallback(model_that(raises), model_that(raises))),
    "model of a hedge": lambda raises: Agent(hedge(model_that(raises), delay=0)),
    "model's layer": with_layer,
    "agent's layer": around_agent,
    "tool's layer": around_tool,
    "async tool": with_tool(False),
    "sync tool": with_tool(True),
    "tool's argument": with_argument,
    "nested agent": nested,
    "agent called in a tool": called_in_tool,
    "instructions": lambda raises: Agent(two_steps(), tools=[echo], instructions=raises.later),
    "stop policy": lambda raises: Agent(two_steps(), tools=[echo], stop=stop_when(raises)),
    "output": with_output,
    "approver": lambda raises: Agent(two_calls(), tools=[echo], approvals=Approvals("echo", approver=raises)),
    "async approver": lambda raises: Agent(
        two_calls(), tools=[echo], approvals=Approvals("echo", approver=raises.later)
    ),
    "rule": lambda raises: Agent(two_calls(), tools=[echo], approvals=Approvals(Rule("echo", "deny", when=raises))),
    **{
        hook: with_hook(hook)
        for hook in ("before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool")
    },
    **{hook: with_hook(hook) for hook in ("wrap_model", "wrap_tool", "wrap_agent", "on_model_delta")},
}
"""User code of every kind, and an agent that uses it."""


async def follow(agent: Any, streamed: bool, listeners: list[Any]) -> AgentRun:
    if not streamed:
        return await agent.run("x", listeners=listeners)  # type: ignore[no-any-return]
    async with agent.stream("x", listeners=listeners) as events:
        async for _ in events:
            pass
    return events.response  # type: ignore[no-any-return]


CASES = pairs(PLACES, KINDS, [False, True])


@pytest.mark.parametrize("place", PLACES)
async def test_it_ends_its_call_and_neither_the_task_nor_the_loop(place: str) -> None:
    for kind, streamed in [case[1:] for case in CASES if case[0] == place]:
        raises = Raises(kind)
        run = await follow(PLACES[place](raises), streamed, [])
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()
        assert raises.calls
        assert isinstance(run.stop, (stops.Failed, stops.Completed, stops.Suspended)), run.stop
        if isinstance(run.stop, stops.Failed):
            assert run.error
        assert_sendable(run.messages)


ENDED = (stops.Failed, stops.Completed, stops.Suspended, stops.ModelCallDenied, stops.TimedOut, stops.BudgetExceeded)


@pytest.mark.parametrize("place", PLACES)
async def test_the_code_of_an_exception_does_no_harm(place: str) -> None:
    """Whatever its class does, the exception ends its call, and the run can be shown."""
    at = list(PLACES).index(place)
    for number, fault in enumerate(FAULTS):
        for base in BASES[(at + number) % 3 :: 3] if LONG else [BASES[(at + number) % len(BASES)]]:
            raises = Raises(misbehaving(base, fault))
            run = await follow(PLACES[place](raises), bool(number % 2), [])
            assert raises.calls
            assert isinstance(run.stop, ENDED), (base, run.stop)
            assert repr(run)
            assert_sendable(run.messages)


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_exception_whose_code_fails_is_recorded_and_masked(fault: str, tmp_path: Path) -> None:
    at = list(FAULTS).index(fault) % 3
    for base in BASES if LONG else BASES[at::3]:
        agent = Agent(
            stack(model_that(Raises(misbehaving(base, fault))), retry(attempts=2, base=0)),
            name="agent",
            store=f"sqlite:///{tmp_path}/runs.db",
            middleware=[Redaction("correct horse"), Metrics()],
        )
        run = await agent.run("x", run_id=base.__name__)
        assert (await agent.replay(base.__name__)).stop == run.stop


HEARD = pairs([kind for kind in KINDS if kind is not GeneratorExit], ["sync", "async"], [False, True])
"""GeneratorExit cannot be distinguished from the end of the coroutine there."""


@pytest.mark.parametrize(("kind", "make", "streamed"), HEARD)
async def test_raised_by_a_listener_it_is_logged_and_by_the_recording_of_an_entry_an_error_of_the_run(
    kind: Callable[[], BaseException], make: str, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    raises = Raises(kind)
    listener = raises if make == "sync" else raises.later
    run = await follow(Agent(two_calls(), tools=[echo]), streamed, [listener])
    assert run.stop == stops.Completed()
    assert raises.calls > 5
    assert "a listener failed" in caplog.text
    middleware = type("Raising", (Middleware,), {"on_record": Raises(kind)})()
    with pytest.raises(ServiceError):
        await follow(Agent(two_calls(), tools=[echo], middleware=[middleware]), streamed, [])


@pytest.mark.parametrize("place", PLACES)
async def test_a_cancellation_that_was_asked_for_ends_the_run(place: str) -> None:
    """The same places, but the task was cancelled by its owner."""
    began = asyncio.Event()

    class Waits(Raises):
        def __call__(self, *_: object, **__: object) -> Any:
            raise ValueError("no")

        async def later(self, *_: object) -> Any:
            self.calls += 1
            began.set()
            await asyncio.get_running_loop().create_future()

    waits = Waits(ValueError)
    running = asyncio.create_task(PLACES[place](waits).run("x"))
    waiting = asyncio.create_task(began.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not waits.calls:
        return  # no code that could wait
    running.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await running
    assert isinstance(raised.value.partial.stop, stops.Cancelled)  # type: ignore[attr-defined]


def test_what_has_to_be_raised_is_left_as_it_is() -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        for error in (ValueError(), Suspend(()), StopSignal(), GeneratorExit(), ExceptionGroup("", [ValueError()])):
            assert contained(error) is error
        assert contained(BaseExceptionGroup("", [Suspend(()), ValueError()])).__class__ is BaseExceptionGroup
        assert isinstance(contained(GeneratorExit(), task), ServiceError)
        assert isinstance(contained(asyncio.CancelledError()), ServiceError)
        task.cancel()
        raise as_failure(asyncio.CancelledError())

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert isinstance(contained(GeneratorExit()), GeneratorExit)  # a coroutine is closed outside of any task


def test_control_c_is_left_where_python_itself_may_have_raised_it() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert isinstance(contained(KeyboardInterrupt()), KeyboardInterrupt)


def test_the_failure_names_what_was_raised_and_has_it_as_its_cause() -> None:
    error = SystemExit("bye")
    failure = as_failure(error)
    assert "SystemExit: bye" in str(failure)
    assert failure.__cause__ is error

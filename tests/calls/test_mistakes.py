"""No mistake of a programmer is silent, and no failure is told in another way when a process was lost."""

import asyncio
import json
import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import elsewhere
from tests.samples import rows, sample
from tests.stores.mortal import MortalStore
from tests.stores.places import STORES, new_store
from tests.wrong import wrong
from ziggurat import Agent, AgentRun, Budget, ConfigurationError, Context, Event, Key, Middleware, Runnable, ToolError
from ziggurat.core.failures import Cause, is_expected
from ziggurat.errors import EmptyPrompt, MissingExtra, NotRepeatable, RunNotFound, ServiceError, StoreError
from ziggurat.events import AgentEnded, ToolEnded
from ziggurat.flows import flow, step
from ziggurat.journal import Store
from ziggurat.messages import Image, ModelRequest, ModelResponse, stops, tool_call
from ziggurat.middleware import Redaction
from ziggurat.models import FunctionModel
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel
from ziggurat.tools import FunctionTool, Toolbox, tool

DB: Key[str] = Key("db")
HERE = Path(__file__).name


Mistake = Callable[[Context], Any]


def _raise(error: BaseException) -> None:
    raise error


def _chained(ctx: Context) -> None:
    try:
        {"a": 1}["b"]
    except KeyError as error:
        raise RuntimeError("no such row") from error


USE: dict[str, Mistake] = {
    "missing value": lambda ctx: ctx.scope[DB],
    "exhausted": lambda ctx: Agent(ScriptedModel(tool_call("nothing")), name="exhausted").run("x"),
    "unpriced": lambda ctx: Agent(ScriptedModel("x", name="free"), name="unpriced", budget=Budget(cost=1.0)).run("x"),
    "id within": lambda ctx: Agent(ScriptedModel("x"), name="within").run("x", run_id="own"),
    "blocked loop": lambda ctx: Agent(ScriptedModel("x"), name="blocked").run_sync("x"),
    "bad agent": lambda ctx: Agent(ScriptedModel("x"), max_steps=0),
    "bad tool": lambda ctx: tool(lambda x: x),
    "bad budget": lambda ctx: Budget(cost=-1),
    "no extra": lambda ctx: _raise(MissingExtra("It", "extra")),
    "wrong history": lambda ctx: Agent(ScriptedModel("x"), name="history").run("x", history=wrong("hello")),
}
CODE: dict[str, Mistake] = {
    "key": lambda ctx: {"a": 1}["b"],
    "attribute": lambda ctx: wrong(ctx).nothing(),
    "division": lambda ctx: 1 / 0,
    "type": lambda ctx: len(wrong(3)),
    "library": lambda ctx: json.loads("{"),
    "chained": _chained,
    **{error.__name__: lambda ctx, error=error: _raise(error("wrong")) for error in (OSError, ConnectionError)},  # type: ignore[misc]
    **{error.__name__: lambda ctx, error=error: _raise(error()) for error in (AssertionError, NotImplementedError)},  # type: ignore[misc]
}


async def _make(mistake: Mistake, ctx: Context) -> None:
    made = mistake(ctx)
    if isawaitable(made):
        await made


def _tool(mistake: Mistake) -> FunctionTool:
    @tool
    async def work(ctx: Context) -> str:
        await _make(mistake, ctx)
        return "worked"

    return work


def _in_tool(mistake: Mistake, **options: Any) -> Agent:
    return Agent(ScriptedModel(tool_call("work"), "done"), tools=[_tool(mistake)], **options)


def _in_batch(mistake: Mistake, **options: Any) -> Agent:
    calls = [tool_call("fine", id="1"), tool_call("work", id="2"), tool_call("fine", id="3")]

    async def fine() -> str:
        return "fine"

    return Agent(ScriptedModel(calls, "done"), tools=[_tool(mistake), fine], **options)


def _in_nested_agent(mistake: Mistake, **options: Any) -> Agent:
    inner = _in_tool(mistake, name="inner")
    middle = Agent(ScriptedModel(tool_call("inner", input="x"), "done"), tools=[inner], name="middle")
    return Agent(ScriptedModel(tool_call("middle", input="x"), "done"), tools=[middle], **options)


def _in_hook(hook: str) -> Callable[..., Agent]:
    def make(mistake: Mistake, **options: Any) -> Agent:
        async def called(self: Middleware, value: Any, ctx: Context) -> None:
            await _make(mistake, ctx)

        made = type("Hooked", (Middleware,), {hook: called})()

        async def work() -> str:
            return "worked"

        return Agent(ScriptedModel(tool_call("work"), "done"), tools=[work], middleware=[made], **options)

    return make


def _in_instructions(mistake: Mistake, **options: Any) -> Agent:
    async def instructed(ctx: Context) -> str:
        await _make(mistake, ctx)
        return "Be brief."

    return Agent(ScriptedModel("done"), instructions=instructed, **options)


def _in_model(mistake: Mistake, **options: Any) -> Agent:
    async def answer(request: ModelRequest, ctx: Context) -> ModelResponse:
        await _make(mistake, ctx)
        raise AssertionError

    return Agent(answer, **options)


def _in_validator(mistake: Mistake, **options: Any) -> Agent:
    async def validate(value: str, ctx: Context) -> None:
        await _make(mistake, ctx)

    return Agent(ScriptedModel("done"), output_validator=validate, **options)


TOOLS: dict[str, Callable[..., Agent]] = {
    "tool": _in_tool,
    "batch": _in_batch,
    "nested agent": _in_nested_agent,
    "before_tool": _in_hook("before_tool"),
    "after_tool": _in_hook("after_tool"),
}
RUNS: dict[str, Callable[..., Agent]] = {
    "before_agent": _in_hook("before_agent"),
    "after_agent": _in_hook("after_agent"),
    "before_model": _in_hook("before_model"),
    "after_model": _in_hook("after_model"),
    "instructions": _in_instructions,
    "model": _in_model,
    "output_validator": _in_validator,
}
PLACES = {**TOOLS, **RUNS}


def _failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.name == "ziggurat" and each.levelno >= logging.WARNING]


async def _expected(mistake: Mistake) -> BaseException:
    """Return the error that a mistake leads to."""
    with pytest.raises(Exception) as caught:
        await _make(mistake, Context("x"))
    return caught.value


OF_RUNS_WITHIN = ("id within", "blocked loop")
"""Mistakes where an agent joins a run; one that a model function calls is a run of its own."""


@pytest.mark.parametrize(
    ("where", "mistake"), [row for row in rows(PLACES, USE) if row[0] != "model" or row[1] not in OF_RUNS_WITHIN]
)
def test_a_wrong_use_is_raised_out_of_the_outermost_run(mistake: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PLACES[where](USE[mistake]).run_sync("go")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(frame.name == "_make" for frame in frames)
    assert not any("ziggurat/calls" in frame.filename for frame in frames if "tests" not in frame.filename)


@pytest.mark.parametrize(("mistake", "where"), rows(CODE, TOOLS))
async def test_an_error_of_a_tool_is_logged(mistake: str, where: str, caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = []
    run = await TOOLS[where](CODE[mistake]).run("go", listeners=[events.append])
    error = await _expected(CODE[mistake])
    assert run.text == "done"
    (record,) = _failures(caplog)
    assert record.levelno == logging.WARNING
    _check_record(record, error)
    assert (f'{HERE}", line ' in caplog.text) == (not is_expected(error))
    (cause,) = [event.cause for event in events if isinstance(event, ToolEnded) and event.cause is not None]
    assert cause.kind == type(error).__name__
    assert f"{HERE}:" in cause.place


@pytest.mark.parametrize(("mistake", "where"), rows(CODE, RUNS))
async def test_an_error_that_ends_a_run_is_logged(mistake: str, where: str, caplog: pytest.LogCaptureFixture) -> None:
    error = await _expected(CODE[mistake])
    store = InMemoryStore()
    events: list[Event] = []
    run = await RUNS[where](CODE[mistake], store=store).run("go", run_id="r", listeners=[events.append])
    _check(run, error)
    (record,) = _failures(caplog)
    assert record.levelno == logging.ERROR
    _check_record(record, error)
    assert [event.run for event in events if isinstance(event, AgentEnded)][-1].cause == run.cause
    with pytest.raises(ServiceError) as caught:
        run.raise_for_stop()
    assert type(caught.value.__cause__) is type(error)
    assert HERE in "".join(traceback.format_exception(caught.value))
    again = await RUNS[where](CODE[mistake], store=elsewhere(store, "r")).run("go", run_id="r")
    _check(again, error)
    with pytest.raises(ServiceError, match=type(error).__name__):
        again.raise_for_stop()


def _check_record(record: logging.LogRecord, error: BaseException) -> None:
    logged = None if record.exc_info is None else type(record.exc_info[1])
    assert logged is (None if is_expected(error) else type(error))
    assert type(error).__name__ in record.getMessage()


def _check(run: AgentRun, error: BaseException) -> None:
    assert isinstance(run.stop, stops.Failed)
    assert run.stop.kind == type(error).__name__
    assert run.cause is not None
    assert f"{HERE}:" in run.cause.place
    assert run.error is not None
    assert run.error.startswith(f"{type(error).__name__}: ")
    assert f"(at {run.cause.place})" in run.error


@pytest.mark.parametrize("where", sample(PLACES, 6))
def test_with_debug_an_error_is_raised_at_once(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        PLACES[where](CODE["division"], debug=True).run_sync("go")
    monkeypatch.setenv("ZIGGURAT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        PLACES[where](CODE["division"]).run_sync("go")
    PLACES[where](CODE["division"], debug=False).run_sync("go")


def test_with_debug_what_is_meant_for_the_model_goes_to_the_model() -> None:
    run = _in_tool(lambda ctx: _raise(ToolError("wrong")), debug=True).run_sync("go")
    assert run.observations == ("wrong",)


def test_an_error_on_purpose_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    for error in (ToolError, RunNotFound, EmptyPrompt):
        run = _in_tool(lambda ctx, error=error: _raise(error("wrong"))).run_sync("go")  # type: ignore[misc]
        assert run.observations == ("wrong",)
    assert not _failures(caplog)


def _yields_parts() -> Any:
    async def parts() -> Any:
        yield Image(b"x", "image/png")

    return tool(name="work")(parts)


FAULTS: dict[str, Callable[[], Any]] = {
    "object": lambda: _tool_returning(object),
    "huge": lambda: _tool_returning(lambda: ["x"] * 2_000_000),
    "parts of a stream": _yields_parts,
    "validator": lambda: tool(name="work", validators=[lambda: wrong(3)])(lambda: "worked"),
    **{
        kind.__name__: lambda kind=kind: _tool(lambda ctx: _raise(kind()))  # type: ignore[misc]
        for kind in (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
    },
}


def _tool_returning(make: Callable[[], object]) -> FunctionTool:
    @tool
    def work() -> Any:
        return make()

    return work


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_a_tool_without_an_error_of_its_own_is_logged(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    agent = Agent(ScriptedModel(tool_call("work"), "done"), tools=[FAULTS[fault]()])
    run = await agent.run("go", listeners=[events.append])
    assert run.text == "done"
    (record,) = _failures(caplog)
    assert (record.levelno, run.observations[0] in record.getMessage()) == (logging.WARNING, True)
    assert (HERE in (record.exc_text or "")) == fault.endswith(("Exit", "Interrupt", "Error"))
    assert [event.cause is not None for event in events if isinstance(event, ToolEnded)] == [True]


def test_a_tool_that_ends_the_run_is_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    tools = Toolbox([_tool(_chained)], on_error="raise")
    run = Agent(ScriptedModel(tool_call("work")), tools=tools).run_sync("go")
    assert run.error is not None
    assert f"{HERE}:" in run.error
    with pytest.raises(ServiceError) as caught:
        run.raise_for_stop()
    assert isinstance(caught.value.__cause__, ToolError)
    assert isinstance(caught.value.__cause__.__cause__, RuntimeError)
    assert len(_failures(caplog)) == 1


def test_an_error_of_a_provider_below_a_tool_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    inner = Agent(ScriptedModel(ConnectionError("gone")), name="inner")
    Agent(ScriptedModel(tool_call("inner", input="x"), "done"), tools=[inner]).run_sync("go")
    assert len(_failures(caplog)) == 1


KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz"


def test_no_secret_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def leaks(ctx: Context) -> None:
        raise RuntimeError(f"refused {KEY} and hunter2hunter2")

    for where in ("tool", "model"):
        PLACES[where](leaks, middleware=[Redaction("hunter2hunter2")]).run_sync("go")
    assert len(_failures(caplog)) == 2
    assert "RuntimeError: refused" in caplog.text
    assert HERE in caplog.text
    assert KEY not in caplog.text
    assert "hunter2" not in caplog.text


def test_an_error_whose_text_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise SystemExit

    _in_tool(lambda ctx: _raise(Shy())).run_sync("go")
    assert "Shy" in caplog.text


def test_a_cause_is_a_type_and_a_place() -> None:
    assert Cause("A", "b") == Cause("A", "b", ValueError())
    assert {Cause("A", "b"), Cause("A", "b"), Cause("A", "c")} == {Cause("A", "b"), Cause("A", "c")}
    assert Cause("A", "b") != "A"
    with pytest.raises(ValueError, match="not the cause"):
        Cause.from_json(3)


def test_a_model_function_is_a_place_of_the_user() -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        raise ValueError("bad")

    assert f"{HERE}:" in (Agent(FunctionModel(answer)).run_sync("go").error or "")


class OwnError(Exception):
    """An error of the user."""


class OwnServiceError(ServiceError):
    """One of ours, named by the user."""


FAILURES: dict[str, Callable[[], Exception]] = {
    "ValueError: no": lambda: ValueError("no"),
    "KeyError: 'no'": lambda: KeyError("no"),
    "OwnError: no": lambda: OwnError("no"),
    "OwnError": OwnError,
    "no": lambda: OwnServiceError("no"),
    "ExceptionGroup: all (2 sub-exceptions); ValueError: no; OwnError: no": lambda: ExceptionGroup(
        "all", [ValueError("no"), OwnError("no")]
    ),
}


def _asking(failure: Callable[[], Exception], store: Store) -> Agent:
    async def fails(request: ModelRequest, ctx: Context) -> ModelResponse:
        raise failure()

    async def asks(request: ModelRequest, ctx: Context) -> ModelResponse:
        reply = "done" if len(request.messages) > 2 else tool_call("inner", input="x")
        return await ScriptedModel(reply)(request, ctx)

    return Agent(asks, tools=[Agent(fails, name="inner")], store=store)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("told", "place"), rows(FAILURES, STORES), indirect=["place"])
async def test_a_failure_is_told_as_it_was_wherever_the_process_was_lost(told: str) -> None:
    def check(run: AgentRun) -> None:
        assert (run.text, run.observations) == ("done", (told,))

    assert await _lost_everywhere(lambda store: _asking(FAILURES[told], store), check) > 5


async def _lost_everywhere(make: Callable[[Store], Runnable], check: Callable[[AgentRun], None]) -> int:
    """Run in a process that is lost at each append in turn, and go on in another; return how often one was lost."""
    lost = 0
    while True:
        run_id = f"r-{lost}"
        store = MortalStore(new_store(), lost + 1)
        with suppress(StoreError):
            await make(store).run("go", run_id=run_id)
        await store.inner.close()
        if not store.dead:
            return lost
        lost += 1
        after = new_store()
        if await after.find(f"run:{run_id}") is not None:
            check(await make(after).run("go", run_id=run_id))


def _paying_tool(store: Store) -> Runnable:
    @tool(effect="once", interrupted="report")
    async def pay() -> str:
        return "paid"

    async def pays(request: ModelRequest, ctx: Context) -> ModelResponse:
        reply = request.messages[2].tool_results[0].text if len(request.messages) > 2 else tool_call("pay")
        return await ScriptedModel(reply)(request, ctx)

    return Agent(pays, tools=[pay], store=store)


def _paying_step(store: Store) -> Runnable:
    @step(effect="once")
    async def pay() -> str:
        return "paid"

    @flow(store=store)
    async def work(task: str) -> str:
        try:
            return await pay()
        except NotRepeatable as error:
            return str(error)

    return work


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("make", [_paying_tool, _paying_step])
async def test_of_a_call_with_its_beginning_alone_on_record_no_cause_is_told(make: Callable[[Store], Runnable]) -> None:
    said: list[str] = []
    await _lost_everywhere(make, lambda run: said.append(run.text))
    unknown = {*said} - {"paid"}
    assert len(unknown) == 1
    assert "unknown" in unknown.pop()


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("where", RUNS)
def test_an_error_that_ended_a_run_is_no_mistake_where_another_run_raises_it(where: str, debug: bool) -> None:
    shared = LookupError("shared")

    def mistake(ctx: Context) -> None:
        _raise(shared)

    for _ in range(2):
        with suppress(LookupError):  # raised with debug
            assert isinstance(RUNS[where](mistake, debug=debug).run_sync("x").stop, stops.Failed)
        assert _in_tool(mistake).run_sync("x").output == "done"

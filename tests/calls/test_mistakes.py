"""No mistake of a programmer is silent: 20 mistakes x where they happen, each seen with type, file and line.

A mistake in how Ziggurat is used (a ConfigurationError) is raised out of the outermost run, from any depth. An error of
the user's own code reaches the model as text, if a tool raised it, or ends the run. It is in the log, with its
traceback, once, in the events, in `run.error`, and the cause of what `raise_for_stop` raises.
"""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import elsewhere
from tests.calls.samples import each
from ziggurat import Agent, AgentRun, Budget, Context, Event, Key, Middleware, ModelRequest, Toolbox, ToolError, tool
from ziggurat.core.failures import Cause
from ziggurat.errors import ConfigurationError, EmptyPrompt, MissingExtra, RunNotFound, ServiceError
from ziggurat.events import AgentEnded, ToolEnded
from ziggurat.messages import ModelResponse, stops, tool_call
from ziggurat.middleware import Redaction
from ziggurat.models import FunctionModel, ScriptedModel
from ziggurat.stores import LocalLogs
from ziggurat.tools import FunctionTool

DB: Key[str] = Key("db")
HERE = Path(__file__).name


async def _missing_deps(ctx: Context) -> None:
    ctx.scope[DB]


async def _exhausted(ctx: Context) -> None:
    await Agent(ScriptedModel(tool_call("nothing")), name="exhausted").run("x")


async def _unpriced(ctx: Context) -> None:
    await Agent(ScriptedModel("x", name="free"), name="unpriced", budget=Budget(cost=1.0)).run("x")


async def _id_within(ctx: Context) -> None:
    await Agent(ScriptedModel("x"), name="within").run("x", run_id="own")


async def _blocked_loop(ctx: Context) -> None:
    Agent(ScriptedModel("x"), name="blocked").run_sync("x")


async def _bad_agent(ctx: Context) -> None:
    Agent(ScriptedModel("x"), max_steps=0)


async def _bad_tool(ctx: Context) -> None:
    tool(lambda x: x)


async def _bad_budget(ctx: Context) -> None:
    Budget(cost=-1)


async def _no_extra(ctx: Context) -> None:
    raise MissingExtra("It", "extra")


async def _wrong_history(ctx: Context) -> None:
    await Agent(ScriptedModel("x"), name="history").run("x", history="hello")  # type: ignore[arg-type]


def _raising(error: type[Exception]) -> Callable[[Context], Any]:
    async def fails(ctx: Context) -> None:
        raise error("wrong")

    return fails


async def _key_error(ctx: Context) -> None:
    {"a": 1}["b"]


async def _attribute_error(ctx: Context) -> None:
    ctx.nothing()  # type: ignore[attr-defined]


async def _zero_division(ctx: Context) -> None:
    print(1 / 0)


async def _type_error(ctx: Context) -> None:
    len(3)  # type: ignore[arg-type]


async def _in_a_library(ctx: Context) -> None:
    import json

    json.loads("{")


async def _chained(ctx: Context) -> None:
    try:
        await _key_error(ctx)
    except KeyError as error:
        raise RuntimeError("no such row") from error


USE = [
    _missing_deps, _exhausted, _unpriced, _id_within, _blocked_loop, _bad_agent, _bad_tool, _bad_budget, _no_extra,
    _wrong_history,
]  # fmt: skip
CODE = [
    _key_error, _attribute_error, _zero_division, _type_error, _in_a_library, _chained, _raising(OSError),
    _raising(ConnectionError), _raising(AssertionError), _raising(NotImplementedError),
]  # fmt: skip

Mistake = Callable[[Context], Any]


def _tool(mistake: Mistake) -> FunctionTool:
    @tool
    async def work(ctx: Context) -> str:
        await mistake(ctx)
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
            await mistake(ctx)

        made = type("Hooked", (Middleware,), {hook: called})()

        async def work() -> str:
            return "worked"

        return Agent(ScriptedModel(tool_call("work"), "done"), tools=[work], middleware=[made], **options)

    return make


def _in_instructions(mistake: Mistake, **options: Any) -> Agent:
    async def instructed(ctx: Context) -> str:
        await mistake(ctx)
        return "Be brief."

    return Agent(ScriptedModel("done"), instructions=instructed, **options)


def _in_model(mistake: Mistake, **options: Any) -> Agent:
    async def answer(request: ModelRequest, ctx: Context) -> ModelResponse:
        await mistake(ctx)
        raise AssertionError

    return Agent(answer, **options)


def _in_validator(mistake: Mistake, **options: Any) -> Agent:
    async def validate(value: str, ctx: Context) -> None:
        await mistake(ctx)

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


def _name(value: Any) -> str:
    return getattr(value, "__name__", str(value)).strip("_")


def _failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.name == "ziggurat" and each.levelno >= logging.WARNING]


async def _expected(mistake: Mistake) -> BaseException:
    """Return the error that a mistake leads to."""
    with pytest.raises(Exception) as caught:
        await mistake(Context("x"))
    return caught.value


OF_RUNS_WITHIN = (_id_within, _blocked_loop)
"""Mistakes where an agent joins a run; one that a model function calls is a run of its own."""


@pytest.mark.parametrize(
    ("place", "mistake"),
    [(place, mistake) for place, mistake in each(PLACES, USE) if place != "model" or mistake not in OF_RUNS_WITHIN],
    ids=_name,
)
def test_a_wrong_use_is_raised_out_of_the_outermost_run(mistake: Mistake, place: str) -> None:
    model_saw: list[str] = []
    with pytest.raises(ConfigurationError) as caught:
        run = PLACES[place](mistake).run_sync("go")
        model_saw += run.observations
    assert not model_saw
    assert any(frame.name == mistake.__name__ for frame in traceback.extract_tb(caught.value.__traceback__))


@pytest.mark.parametrize(("mistake", "place"), each(CODE, TOOLS), ids=_name)
async def test_an_error_of_a_tool_is_logged_once_and_in_its_event(
    mistake: Mistake, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    run = await TOOLS[place](mistake).run("go", listeners=[events.append])
    error = await _expected(mistake)
    assert run.text == "done"
    (record,) = _failures(caplog)
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert type(record.exc_info[1]) is type(error)
    assert f'{HERE}", line ' in (caplog.text)
    (cause,) = [event.cause for event in events if isinstance(event, ToolEnded) and event.cause is not None]
    assert cause.kind == type(error).__name__
    assert f"{HERE}:" in cause.place


@pytest.mark.parametrize(("mistake", "place"), each(CODE, RUNS), ids=_name)
async def test_an_error_that_ends_a_run_is_seen_everywhere(
    mistake: Mistake, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = await _expected(mistake)
    told: list[BaseException] = []

    class Told(Middleware):
        async def on_error(self, error: BaseException, ctx: Context) -> None:
            told.append(error)

    store = LocalLogs()
    events: list[Event] = []
    agent = RUNS[place](mistake, store=store)
    run = await agent.run("go", run_id="r", listeners=[events.append])
    _check(run, error)
    (record,) = _failures(caplog)
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert type(record.exc_info[1]) is type(error)
    assert [event.run for event in events if isinstance(event, AgentEnded)][-1].cause == run.cause
    with pytest.raises(ServiceError) as caught:
        run.raise_for_stop()
    assert type(caught.value.__cause__) is type(error)
    assert HERE in "".join(traceback.format_exception(caught.value))
    again = await RUNS[place](mistake, store=elsewhere(store, "r")).run("go", run_id="r")
    _check(again, error)
    with pytest.raises(ServiceError, match=type(error).__name__):
        again.raise_for_stop()


def _check(run: AgentRun, error: BaseException) -> None:
    assert isinstance(run.stop, stops.Failed)
    assert run.stop.kind == type(error).__name__
    assert run.cause is not None
    assert f"{HERE}:" in run.cause.place
    assert run.error is not None
    assert run.error.startswith(f"{type(error).__name__}: ")
    assert run.error.endswith(f"(at {run.cause.place})")


@pytest.mark.parametrize("place", PLACES)
def test_with_debug_an_error_is_raised_at_once(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        PLACES[place](_zero_division, debug=True).run_sync("go")
    monkeypatch.setenv("ZIGGURAT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        PLACES[place](_zero_division).run_sync("go")
    PLACES[place](_zero_division, debug=False).run_sync("go")


def test_with_debug_what_is_meant_for_the_model_goes_to_the_model() -> None:
    run = _in_tool(_raising(ToolError), debug=True).run_sync("go")
    assert run.observations == ("wrong",)


def test_an_error_on_purpose_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    for error in (ToolError, RunNotFound, EmptyPrompt):
        assert _in_tool(_raising(error)).run_sync("go").observations == ("wrong",)
    assert not _failures(caplog)


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
    async def leaks(ctx: Context) -> None:
        raise RuntimeError(f"refused {KEY} and hunter2hunter2")

    for place in ("tool", "model"):
        PLACES[place](leaks, middleware=[Redaction("hunter2hunter2")]).run_sync("go")
    assert len(_failures(caplog)) == 2
    assert "RuntimeError: refused" in caplog.text
    assert HERE in caplog.text
    assert KEY not in caplog.text
    assert "hunter2" not in caplog.text


def test_an_error_whose_text_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise SystemExit

    async def fails(ctx: Context) -> None:
        raise Shy

    _in_tool(fails).run_sync("go")
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

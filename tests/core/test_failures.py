"""Whose fault an error is: mistakes are marked on the error itself, whatever its class."""

import json
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import ziggurat
from ziggurat import Agent
from ziggurat.core.context import root
from ziggurat.core.failures import (
    Cause,
    call_given,
    ends_run,
    forget_mistake,
    log_failure,
    mistake_in,
    note_mistake,
    noting_mistakes,
    place_of,
)
from ziggurat.errors import (
    ConfigurationError,
    Denied,
    LimitExceeded,
    ModelError,
    NotRepeatable,
    ServiceError,
    StoreError,
    ToolError,
)
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


@dataclass(frozen=True)
class Frozen(Exception):
    code: int = 3


class Guarded(Exception):
    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise SystemExit(f"no {name} here")

    def __eq__(self, other: object) -> bool:
        raise SystemExit("not to be compared")

    __hash__ = None  # type: ignore[assignment]


def _noted(error: Exception) -> None:
    note_mistake(error)


def _in_block(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, noting_mistakes():
        raise error
    assert caught.value is error


def _called(error: Exception) -> None:
    def given() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        call_given(given, root())
    assert caught.value is error


@pytest.mark.parametrize("mark", [_noted, _in_block, _called])
@pytest.mark.parametrize("kind", [ValueError, KeyError, Frozen, Guarded])
def test_a_mistake_is_marked_on_every_error_and_can_be_forgotten(
    kind: type[Exception], mark: Callable[[Exception], None]
) -> None:
    error = kind()
    assert mistake_in(error) is None
    mark(error)
    added = NotRepeatable("done before")
    added.__cause__ = error
    for each in (error, ExceptionGroup("", [OSError(), error]), added):
        assert mistake_in(each) is error
        assert ends_run(each)
    forget_mistake(added)
    assert mistake_in(error) is None
    assert not ends_run(error)


@pytest.mark.parametrize("error", [Denied("no"), ToolError("broken"), ConnectionError(), TimeoutError()])
def test_what_is_raised_on_purpose_or_passes_is_no_mistake(error: Exception) -> None:
    _in_block(error)
    assert mistake_in(error) is None


def test_a_wrong_use_is_a_mistake_without_a_mark() -> None:
    error = ConfigurationError("wrong")
    forget_mistake(error)
    assert mistake_in(error) is error


OF_THE_WORLD = (
    *(each("no") for each in (Denied, ServiceError, StoreError)),
    LimitExceeded("requests", 3, 3),
    ModelError("no", kind="connection"),
    ConnectionError("no"),
    TimeoutError("no"),
)
BY_MISTAKE = (KeyError("no"), ValueError("no"), ConfigurationError("no"), FileNotFoundError("no"), RuntimeError("no"))


def _grouped(error: Exception) -> Exception:
    return ExceptionGroup("several", [ConnectionError("no"), error])


def _after_effects(error: Exception) -> Exception:
    added = NotRepeatable("done before")
    added.original = added.__cause__ = error
    return added


@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING, logging.ERROR])
@pytest.mark.parametrize("within", [lambda error: error, _grouped, _after_effects])
@pytest.mark.parametrize("error", [*OF_THE_WORLD, *BY_MISTAKE], ids=lambda error: type(error).__name__)
def test_only_what_is_expected_is_logged_without_a_traceback(
    error: Exception, within: Callable[[Exception], Exception], level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, "ziggurat")
    log_failure("the run failed", within(error), str)
    (record,) = caplog.records
    assert type(error).__name__ in record.getMessage() or "done before" in record.getMessage()
    assert "\n" not in record.getMessage()
    traced = error in BY_MISTAKE or level == logging.DEBUG
    assert (bool(record.exc_text), record.exc_info is not None) == (traced, traced)


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_expected_error_has_a_place_only_in_the_code_of_the_user(wrapped: bool) -> None:
    def place(work: Callable[[], object]) -> str:
        try:
            work()
        except Exception as error:
            trace = error.__traceback__
            raised = error.with_traceback(None if trace is None else trace.tb_next)  # without this function
        outer = ModelError("cannot be reached", kind="connection")
        outer.__cause__ = raised
        return place_of(outer if wrapped else raised)

    def refused() -> None:
        raise ConnectionRefusedError("no")

    assert place(partial(json.loads, "{")).endswith("in raw_decode") != wrapped
    assert place(partial(socket.create_connection, ("127.0.0.1", 1))) == ""
    assert place(refused).endswith("in refused")


def breaks() -> str:
    """Raise an error."""
    raise ValueError("no")


def calls_back() -> str:
    """Call Ziggurat, which raises an error."""
    return str(Cause.from_json(7))


@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING])
@pytest.mark.parametrize("work", [breaks, calls_back])
async def test_a_logged_traceback_leads_from_the_code_of_the_user_to_the_error(
    work: Callable[[], str], level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, "ziggurat")
    await Agent(ScriptedModel(tool_call(work.__name__), "done"), tools=[work]).run("go")
    (text,) = [record.exc_text for record in caplog.records if record.exc_text]
    package = str(Path(ziggurat.__file__).parent)
    is_own = [file.startswith(package) for file in re.findall(r'File "(.*?)"', text)]
    assert is_own[0] == (level == logging.DEBUG)
    assert is_own[-1] == (work is calls_back)
    assert not all(is_own)

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ziggurat
from ziggurat import Agent, ConfigurationError, ZigguratError
from ziggurat.core import errors
from ziggurat.core.errors import RecordEnds, Suspend
from ziggurat.core.failures import ends_run, mistake_in
from ziggurat.errors import CallerError, RunExists
from ziggurat.testing import ScriptedModel

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ZigguratError)]


def test_of_a_long_value_in_a_message_the_middle_is_left_out() -> None:
    told = str(ConfigurationError(f"name is a text, got {'x' * 100_000!r}; give a shorter one"))
    assert len(told) < 2_100
    assert told.startswith("name is a text, got 'xxx")
    assert " [...] " in told
    assert told.endswith("xxx'; give a shorter one")


def test_what_is_not_long_is_told_whole() -> None:
    for text in ("", "short", "x" * 2_000):
        assert str(RunExists(text)) == text


def test_only_wrong_use_is_a_mistake_of_the_programmer() -> None:
    assert {kind.__name__ for kind in KINDS if issubclass(kind, CallerError)} == {
        *("CallerError", "ConfigurationError", "MissingExtra"),
        *("AlreadyDecided", "EmptyPrompt", "RunExists", "RunInProgress", "RunNotFound"),
    }
    assert {kind.__name__ for kind in KINDS if issubclass(kind, ConfigurationError)} == {
        "ConfigurationError",
        "MissingExtra",
    }


@pytest.mark.parametrize("name", ["AlreadyDecided", "EmptyPrompt", "RunExists", "RunInProgress", "RunNotFound"])
def test_what_depends_on_the_run_ends_the_work_and_is_no_mistake(name: str) -> None:
    error = getattr(errors, name)("it is so")
    assert ends_run(error)
    assert mistake_in(error) is None


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _samples() -> list[BaseException]:
    """Return one error of each class of the package, made with an argument for each parameter of its class."""
    for module in pkgutil.walk_packages(ziggurat.__path__, "ziggurat."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    made: list[BaseException] = []
    for kind in {*_kinds(ZigguratError), *_kinds(Suspend)}:
        if kind.__module__.startswith("ziggurat."):
            own = inspect.isfunction(kind.__init__)
            given = {
                name: 2.0 if name in ("limit", "used", "retry_after", "seconds", "permits", "status") else f"a {name}"
                for name in (inspect.signature(kind).parameters if own else ())
            }
            made.append(kind(**given) if own else kind("a text"))
    return made


@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_errors_cross_processes_whole(copied: Callable[[BaseException], BaseException]) -> None:
    samples = _samples()
    assert {Suspend, RecordEnds, RunExists} < {type(error) for error in samples}
    for error in samples:
        error.__dict__["partial"] = Agent(ScriptedModel("hi")).run_sync("hello")
        error.add_note("in the worker")
        again = copied(error)
        assert type(again) is type(error)
        assert (again.args, vars(again)) == (error.args, vars(error))
        assert str(again) == str(error)

import pytest

from ziggurat import ConfigurationError, ZigguratError
from ziggurat.core import errors
from ziggurat.core.failures import ends_run, mistake_in
from ziggurat.errors import CallerError, RunExists

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

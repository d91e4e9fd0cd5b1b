"""The switch that forbids real model calls."""

import pytest

from ziggurat import ConfigurationError
from ziggurat.models import require_real_calls_allowed
from ziggurat.models.real import FORBID_VARIABLE
from ziggurat.testing import allow_real_calls, forbid_real_calls


def test_forbidding_names_the_model_and_the_way_out() -> None:
    with forbid_real_calls(), pytest.raises(ConfigurationError) as caught:
        require_real_calls_allowed("gpt-5-mini")
    text = str(caught.value)
    for part in ("'gpt-5-mini'", "forbid_real_calls() forbids", "ScriptedModel", "with allow_real_calls():"):
        assert part in text


def test_blocks_nest_and_give_back_what_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORBID_VARIABLE, raising=False)
    with forbid_real_calls():
        with allow_real_calls():
            require_real_calls_allowed("m")
            with forbid_real_calls(), pytest.raises(ConfigurationError):
                require_real_calls_allowed("m")
            require_real_calls_allowed("m")
        with pytest.raises(ConfigurationError):
            require_real_calls_allowed("m")


def test_a_plain_call_holds_from_then_on() -> None:
    with allow_real_calls():  # gives back what was before
        forbid_real_calls()
        with pytest.raises(ConfigurationError):
            require_real_calls_allowed("m")
        allow_real_calls()
        require_real_calls_allowed("m")


@pytest.mark.parametrize(
    ("value", "forbidden"), [("1", True), ("yes", True), ("0", False), ("", False), ("off", False)]
)
def test_the_environment_decides_where_nothing_was_said(
    monkeypatch: pytest.MonkeyPatch, value: str, forbidden: bool
) -> None:
    from ziggurat.models import real

    monkeypatch.setattr(real._Switch, "forbidden", None)
    monkeypatch.setenv(FORBID_VARIABLE, value)
    if forbidden:
        with pytest.raises(ConfigurationError, match=f"the environment variable {FORBID_VARIABLE} forbids"):
            require_real_calls_allowed("m")
        with allow_real_calls():
            require_real_calls_allowed("m")
    else:
        require_real_calls_allowed("m")

"""Tests of cassettes: recorded once, replayed without a model, and clear about differences."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ziggurat import Agent, ConfigurationError
from ziggurat.errors import JournalMismatch, ModelError
from ziggurat.messages import tool_call
from ziggurat.testing import Cassette, ScriptedModel, replay_record
from ziggurat.testing.cassettes import RECORD

T = TypeVar("T")


def done(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


class World:
    def __init__(self, *replies: Any, **options: Any) -> None:
        self.looked = 0
        self.sky = "rain"
        self.model = ScriptedModel(*(replies or (tool_call("weather", city="Rome"), "Take one.")))
        self.agent = Agent(self.model, tools=[self.weather], **options)

    def weather(self, city: str) -> str:
        """Forecast."""
        self.looked += 1
        return f"{city}: {self.sky}"


@pytest.fixture
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv(RECORD, raising=False)
    return tmp_path / "tapes" / "rain.jsonl"


def test_it_is_recorded_once_and_then_nothing_is_called(tape: Path) -> None:
    run = done(Cassette(tape).run(World().agent, "Umbrella?"))
    before = tape.read_bytes()
    later = World()
    again = done(Cassette(tape).run(later.agent, "Umbrella?"))
    assert again.messages == run.messages
    assert (later.looked, later.model.calls) == (0, [])
    assert tape.read_bytes() == before
    assert done(replay_record(later.agent, before.decode())).text == "Take one."


def test_tools_can_be_tested_on_it(tape: Path) -> None:
    done(Cassette(tape).run(World().agent, "Umbrella?"))
    later = World()
    assert done(Cassette(tape, live="tools").run(later.agent, "Umbrella?")).text == "Take one."
    assert (later.looked, later.model.calls) == (1, [])
    later.sky = "sun"
    with pytest.raises(JournalMismatch, match="Rome: sun"):
        done(Cassette(tape, live="tools").run(later.agent, "Umbrella?"))


def test_another_question_or_another_agent_is_shown(tape: Path) -> None:
    done(Cassette(tape).run(World().agent, "Umbrella?"))
    with pytest.raises(JournalMismatch, match="Umbrella"):
        done(Cassette(tape).run(World().agent, "Sunshade?"))
    with pytest.raises(JournalMismatch, match="instructions"):
        done(Cassette(tape).run(World(instructions="Be formal.").agent, "Umbrella?"))


def test_when_it_is_recorded(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(ConfigurationError, match="missing"):
        done(Cassette(tape).run(World().agent, "Umbrella?"))
    monkeypatch.setenv(RECORD, "missing")
    done(Cassette(tape).run(World().agent, "Umbrella?"))
    monkeypatch.setenv(RECORD, "always")
    assert done(Cassette(tape).run(World("None.").agent, "Umbrella?")).text == "None."
    monkeypatch.setenv(RECORD, "never")
    assert done(Cassette(tape).run(World("").agent, "Umbrella?")).text == "None."
    monkeypatch.setenv(RECORD, "sometimes")
    with pytest.raises(ConfigurationError, match="one of missing, always, never"):
        done(Cassette(tape).run(World().agent, "Umbrella?"))


def test_a_run_that_failed_is_no_example(tape: Path) -> None:
    run = done(Cassette(tape).run(World(ModelError("down")).agent, "Umbrella?"))
    assert "down" in str(run.stop)
    assert not tape.exists()

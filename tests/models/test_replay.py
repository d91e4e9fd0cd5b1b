"""ReplayModel: a model that answers from a record."""

import asyncio
from pathlib import Path

import pytest

from ziggurat import Agent, ConfigurationError, stack
from ziggurat.errors import JournalCorrupt, JournalMismatch, ModelError
from ziggurat.events import Delta
from ziggurat.layers.retry import retry
from ziggurat.messages import tool_call
from ziggurat.testing import ReplayModel, ScriptedModel


def weather(city: str) -> str:
    """Forecast."""
    return f"{city}: rain"


def recorded(*replies: object, question: str = "Umbrella?") -> bytes:
    async def main() -> bytes:
        said = replies or (tool_call("weather", city="Rome"), "Take one.")
        agent = Agent(ScriptedModel(*said), tools=[weather], store="memory:")  # type: ignore[arg-type]
        await agent.run(question, run_id="r")
        return await agent.record("r")

    return asyncio.run(main())


def test_it_answers_as_then_as_often_as_it_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_bytes(recorded())
    for record in (file, recorded(), recorded().decode()):
        model = ReplayModel(record)
        assert repr(model) == "replay('scripted', 2 answers)"
        agent = Agent(model, tools=[weather])
        assert [agent.run_sync("Umbrella?").text for _ in range(2)] == ["Take one.", "Take one."]


def test_another_question_or_another_result_is_shown() -> None:
    def changed(city: str) -> str:
        return f"{city}: sun"

    changed.__name__ = "weather"
    record = recorded()
    with pytest.raises(JournalMismatch) as question:
        Agent(ReplayModel(record), tools=[weather]).run_sync("Sunshade?")
    assert str(question.value) == (
        "first divergence at agent/step-1/model: message 1 of the question (user)\n"
        "- recorded: Umbrella?\n+ asked:    Sunshade?"
    )
    with pytest.raises(JournalMismatch, match="step-2/model"):
        Agent(ReplayModel(record), tools=[changed]).run_sync("Umbrella?")
    assert Agent(ReplayModel(record, strict=False), tools=[changed]).run_sync("Sunshade?").text == "Take one."


def test_a_place_without_an_answer_is_named() -> None:
    with pytest.raises(JournalMismatch, match="other/step-1/model"):
        Agent(ReplayModel(recorded()), tools=[weather], name="other").run_sync("Umbrella?")


def test_failed_tries_fail_again() -> None:
    flaky = recorded(ModelError("overloaded", kind="overloaded"), question="Hello?")
    agent = Agent(ReplayModel(flaky), tools=[weather])
    assert "overloaded" in str(agent.run_sync("Hello?").stop)


def test_beneath_layers_it_is_asked_at_the_same_place() -> None:
    model = stack(ReplayModel(recorded()), retry(attempts=2))
    assert Agent(model, tools=[weather]).run_sync("Umbrella?").text == "Take one."


def test_whoever_listens_hears_it() -> None:
    record = recorded()

    async def heard() -> int:
        async with Agent(ReplayModel(record), tools=[weather]).stream("Umbrella?") as events:
            return len([event async for event in events if isinstance(event, Delta)])

    assert asyncio.run(heard()) >= 2


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        ReplayModel(tmp_path / "nothing")
    with pytest.raises(ConfigurationError, match="no model was called"):
        ReplayModel(recorded().splitlines()[0])
    with pytest.raises(JournalCorrupt, match="entry 1"):
        ReplayModel("{}")
    with pytest.raises(ConfigurationError, match="record"):
        ReplayModel(3)  # type: ignore[arg-type]

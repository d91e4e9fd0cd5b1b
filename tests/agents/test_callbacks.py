"""Listeners made from plain functions, and listeners that fail."""

import asyncio
import io
import logging
from typing import Any

import pytest

from ziggurat import Agent, Callbacks, ConfigurationError, Event, ToolCall, stack
from ziggurat.events import AgentEnded, Delta, Dropped, TextDelta, ThinkingDelta
from ziggurat.layers.alternatives import fallback
from ziggurat.layers.retry import retry
from ziggurat.messages import stops, tool_call
from ziggurat.models.scripted import Piece
from ziggurat.testing import Pause, ScriptedModel


async def echo(text: str) -> str:
    """Echo."""
    return text


def _agent() -> Agent:
    return Agent(
        ScriptedModel([ThinkingDelta("hm"), "I ", "call", tool_call("echo", text="a")], ["do", "ne"]), tools=[echo]
    )


def test_each_function_hears_what_concerns_it() -> None:
    tokens: list[str] = []
    thoughts: list[str] = []
    actions: list[ToolCall] = []
    events: list[Event] = []
    callbacks = Callbacks(
        on_token=tokens.append, on_thought=thoughts.append, on_action=actions.append, on_event=events.append
    )
    run = _agent().run_sync("go", listeners=[callbacks])
    assert tokens == ["I ", "call", "do", "ne"]
    assert thoughts == ["hm"]
    assert [call.name for call in actions] == ["echo"]
    assert isinstance(events[-1], AgentEnded)
    assert events[-1].run == run


def test_a_function_may_return_what_it_likes_and_a_coroutine_function_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = io.StringIO()
    called: list[str] = []

    async def slowly(call: ToolCall) -> str:
        await asyncio.sleep(0)
        called.append(call.name)
        return "not looked at"

    _agent().run_sync("go", listeners=[Callbacks(on_token=written.write, on_action=slowly)])
    assert (written.getvalue(), called) == ("I calldone", ["echo"])
    assert not caplog.records


def _thinks(*pieces: Piece) -> list[Piece]:
    return [*(ThinkingDelta(piece) if isinstance(piece, str) else piece for piece in pieces)]


def test_a_thought_is_told_once_it_is_complete_and_before_what_follows() -> None:
    reply = [*_thinks("I ", "add "), TextDelta(""), *_thinks("them."), "Well, ", *_thinks("So", " be it"), "call it"]
    seen: list[str] = []
    callbacks = Callbacks(on_token=seen.append, on_thought=lambda text: seen.append(f"<{text}>"))
    run = Agent(ScriptedModel(reply)).run_sync("go", listeners=[callbacks])
    assert seen == ["", "<I add them.>", "Well, ", "<So be it>", "call it"]
    assert run.text == "Well, call it"


def test_thoughts_of_a_reply_that_was_dropped_are_not_told() -> None:
    model = stack(
        fallback(
            ScriptedModel(_thinks("lost", ConnectionError("gone"))), ScriptedModel(_thinks("ki", "nd"), _thinks("last"))
        ),
        retry(attempts=2, base=0),
    )
    thoughts: list[str] = []
    run = Agent(model).run_sync("go", listeners=[Callbacks(on_thought=thoughts.append)])
    assert tuple(thoughts) == run.thoughts == ("kind",)


async def test_runs_that_share_callbacks_keep_their_thoughts_apart() -> None:
    thoughts: list[str] = []
    callbacks = Callbacks(on_thought=thoughts.append)

    agents = [Agent(ScriptedModel([*_thinks(word, Pause(), word), "done"])) for word in ("one ", "two ")]
    await asyncio.gather(*[agent.run("go", listeners=[callbacks]) for agent in agents])
    assert sorted(thoughts) == ["one one ", "two two "]


async def test_events_can_be_handed_on_by_hand() -> None:
    thoughts: list[str] = []
    callbacks = Callbacks(on_thought=thoughts.append)

    async with Agent(ScriptedModel([*_thinks("h", "m"), "done"])).stream("go") as events:
        async for event in events:
            await callbacks(event)
    assert thoughts == ["hm"]


def test_async_functions_are_awaited_in_order() -> None:
    seen: list[str] = []

    async def slow(text: str) -> None:
        seen.append(text)

    _agent().run_sync("go", listeners=[Callbacks(on_token=slow), Callbacks(on_token=lambda text: seen.append("|"))])
    assert "".join(seen) == "I |call|do|ne|"


def test_a_listener_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def broken(event: Event) -> None:
        raise RuntimeError("broken listener")

    async def broken_later(event: Event) -> None:
        raise RuntimeError("broken later")

    listeners: list[Any] = [broken, broken_later, Callbacks(on_token=lambda text: 1 / 0), heard.append]
    with caplog.at_level(logging.WARNING, "ziggurat"):
        run = _agent().run_sync("go", listeners=listeners)
    assert run.stop == stops.Completed()
    assert run.text == "done"
    assert isinstance(heard[-1], AgentEnded)
    assert "broken listener" in caplog.text
    assert "broken later" in caplog.text


@pytest.mark.parametrize("function", [print, lambda text, end="": None, lambda *texts: None, [].append, str])
def test_a_function_gets_one_value(function: Any, capsys: pytest.CaptureFixture[str]) -> None:
    Agent(ScriptedModel("done")).run_sync("go", listeners=[Callbacks(on_token=function)])
    assert capsys.readouterr().out in ("", "done\n")


def test_texts_without_those_that_were_dropped_are_the_answers() -> None:
    texts: dict[str, str] = {}

    def listen(event: Event) -> None:
        if isinstance(event, Delta) and isinstance(event.delta, TextDelta):
            texts[event.path] = texts.get(event.path, "") + event.delta.text
        elif isinstance(event, Dropped):
            for each in [each for each in texts if f"{each}/".startswith(f"{event.path}/")]:
                del texts[each]

    flaky = ScriptedModel(["The ans", ConnectionError("lost")], ["The answer ", "is 4."])
    agent = Agent(stack(flaky, retry(attempts=2, base=0)))
    run = agent.run_sync("2 + 2?", listeners=[listen])
    assert texts == {"agent/step-1/model": run.text}


def test_nothing_given_hears_nothing() -> None:
    assert _agent().run_sync("go", listeners=[Callbacks()]).text == "done"


@pytest.mark.parametrize("name", ["on_token", "on_thought", "on_action", "on_event"])
def test_what_is_no_function_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Callbacks\({name}=...\) is a function of .* or None; got 3"):
        Callbacks(**{name: 3})  # type: ignore[arg-type]

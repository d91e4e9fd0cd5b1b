"""Tests of GGUF files as models: the requests to llama.cpp, and the responses made of its replies."""

import asyncio
import json
from itertools import product
from typing import Any, get_args

import pytest

from tests.models.local.fakes import Parrot
from tests.models.local.test_replies import rules_in, schema_of
from ziggurat import (
    Agent,
    ConfigurationError,
    Event,
    Message,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Text,
    ToolCall,
    ToolResult,
    tool,
    user,
)
from ziggurat.core import root
from ziggurat.core.errors import ToolErrorKind
from ziggurat.events import Delta, Fold
from ziggurat.messages import Thinking, ToolSpec, Transcript, assistant, tool_message
from ziggurat.messages.model import OutputSchema
from ziggurat.models.local.engine import ChatTemplate
from ziggurat.models.local.templated import TemplatedModel

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**CITY, "additionalProperties": False}
WEATHER = ToolSpec("weather", "Forecast.", CITY)
FULL = ChatTemplate(tools=True, calls=True)
IN_ROME = ToolCall("call-1", "weather", '{"city":"Rome"}')
RAIN = tool_message(ToolResult("call-1", "weather", "rain"))
CHOICE = '[{"name": "reply"'
ASK_ROME = '[{"name": "weather", "arguments": {"city": "Rome"}}]'


def _ask(
    engine: Parrot, *messages: Message, stated_only: bool = True, only_calls: bool = False, **fields: Any
) -> ModelResponse:
    fold = Fold()

    def hear(event: Event) -> None:
        if isinstance(event, Delta):
            fold.push(event.delta)

    request = ModelRequest(Transcript.of(*messages), **fields)
    model = TemplatedModel(engine, stated_only=stated_only, only_calls=only_calls)
    reply: ModelResponse = asyncio.run(model(request, root().heard_by(hear)))
    assert fold.message() == reply.message
    return reply


def test_plain_talk() -> None:
    engine = Parrot("Hello.")
    reply = _ask(engine, user("Hi"), instructions="Be kind.", settings=ModelSettings(max_tokens=9, stop=("!",), seed=1))
    assert (reply.text, reply.finish, reply.usage.input, reply.usage.output) == ("Hello.", "stop", 10, 6)
    body = engine.asked[0]
    assert body["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert (body["max_tokens"], body["stop"], body["seed"]) == (9, ["!"], 1)
    assert "grammar" not in body


def test_several_calls_at_once() -> None:
    reply = _ask(
        Parrot(
            '[{"name": "weather", "arguments": {"city": "Rome"}}, {"name": "weather", "arguments": {"city": "Oslo"}}]'
        ),
        user("Rain in Rome and Oslo?"),
        tools=(WEATHER,),
    )
    assert reply.finish == "tool_calls"
    assert reply.tool_calls == (
        ToolCall("call-1", "weather", '{"city": "Rome"}'),
        ToolCall("call-2", "weather", '{"city": "Oslo"}'),
    )


def test_tools_calls_and_results_are_shown_by_the_template() -> None:
    engine = Parrot(CHOICE, "Wet.", template=FULL)
    reply = _ask(engine, user("Rain in Rome?"), assistant(IN_ROME), RAIN, tools=(WEATHER,), instructions="Be kind.")
    assert (reply.text, reply.finish) == ("Wet.", "stop")
    body = engine.asked[0]
    assert body["chat_template_kwargs"]["tools"][0]["function"]["name"] == "weather"
    system, asked, called, answered = body["messages"]
    assert system["content"].startswith("Be kind.\n\nBegin each reply with a JSON array")
    assert "Forecast" not in system["content"]
    assert asked == {"role": "user", "content": "Rain in Rome?"}
    assert called["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Rome"}'}
    assert answered == {"role": "tool", "tool_call_id": "call-1", "name": "weather", "content": "rain"}
    assert engine.asked[1]["messages"][:4] == body["messages"]  # so that llama.cpp has read all but the end
    assert engine.asked[1]["messages"][4] == {"role": "assistant", "content": CHOICE + ', "arguments": {}}]'}
    assert (reply.usage.requests, reply.usage.input) == (1, 20)


def test_what_a_template_cannot_show_is_put_into_text() -> None:
    engine = Parrot(CHOICE, "Wet.", template=ChatTemplate(system=False))
    _ask(engine, user("Rain in Rome?"), assistant(IN_ROME), RAIN, tools=(WEATHER,))
    body = engine.asked[0]
    assert "tools" not in body["chat_template_kwargs"]
    asked, called, answered = body["messages"]
    assert asked["role"] == "user"
    assert "Forecast" in asked["content"]
    assert asked["content"].endswith("\n\nRain in Rome?")
    assert called == {"role": "assistant", "content": '[{"name": "weather", "arguments": {"city":"Rome"}}]'}
    assert answered == {"role": "user", "content": "Result of weather: rain"}


def test_a_reply_that_was_cut_off_or_cannot_be_read() -> None:
    assert _ask(Parrot("It is", finish="length"), user("?")).finish == "length"
    assert _ask(Parrot('[{"name": ', finish="length"), user("?"), tools=(WEATHER,)).finish == "length"
    assert _ask(Parrot('[{"name": '), user("?"), tools=(WEATHER,)).finish == "malformed"


def test_structured_output_shows_its_schema() -> None:
    city = OutputSchema("city", CITY)
    engine = Parrot('{"city": "Rome"}', CHOICE, '{"city": "Oslo"}')
    assert json.loads(_ask(engine, user("Where?"), output=city).text) == {"city": "Rome"}
    assert json.loads(_ask(engine, user("Where?"), output=city, tools=(WEATHER,)).text) == {"city": "Oslo"}
    plain, _, with_tools = engine.asked
    for body, at in ((plain, 0), (with_tools, -1)):
        assert schema_of(rules_in(body["grammar"])["answer"]) == CLOSED
        assert body["messages"][at]["content"].endswith(json.dumps(CITY))


def test_tool_choice() -> None:
    engine = Parrot(ASK_ROME, "Hi", ASK_ROME)
    _ask(engine, user("?"), tools=(WEATHER,), settings=ModelSettings(tool_choice="required"))
    assert "reply" not in rules_in(engine.asked[0]["grammar"])["start"]
    _ask(engine, user("?"), tools=(WEATHER,), settings=ModelSettings(tool_choice="none"))
    assert "grammar" not in engine.asked[1]
    _ask(engine, user("?"), tools=(WEATHER,), settings=ModelSettings(parallel_tool_calls=False))
    assert "{0,15}" not in engine.asked[2]["grammar"]
    with pytest.raises(ConfigurationError, match="wheather"):
        _ask(engine, user("?"), tools=(WEATHER,), settings=ModelSettings(tool_choice="wheather"))


def test_thoughts() -> None:
    engine = Parrot(
        "Hm.</think>\n\n" + CHOICE, "Ah.</think>Yes.", CHOICE, "No.", template=ChatTemplate(thinking="begun")
    )
    assert _ask(engine, user("?"), tools=(WEATHER,)).message.parts == (Thinking("Hm.Ah."), Text("Yes."))
    engine.chat_template = ChatTemplate(thinking="optional")
    _ask(engine, user("?"), tools=(WEATHER,), settings=ModelSettings(reasoning="none"))
    assert engine.asked[2]["chat_template_kwargs"]["enable_thinking"] is False
    assert "thought" not in engine.asked[2]["grammar"]


def test_a_repeated_call_becomes_a_request_for_the_answer() -> None:
    engine = Parrot(ASK_ROME, "Wet.")
    reply = _ask(engine, user("Rain in Rome?"), assistant(IN_ROME), RAIN, tools=(WEATHER,))
    assert (reply.text, reply.finish, reply.usage.requests) == ("Wet.", "stop", 1)
    assert "weather has answered already" in engine.asked[1]["messages"][-1]["content"]
    engine = Parrot(ASK_DAYS, "Wet.")
    assert _ask(engine, user("Rain in Rome?"), assistant(IN_ROME), RAIN, tools=(DAYS,)).text == "Wet."


DAYS = ToolSpec(
    "weather", "Forecast.", {**CITY, "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
)
ASK_DAYS = '[{"name": "weather", "arguments": {"city": "Rome", "days": 7}}]'


@pytest.mark.parametrize(
    ("messages", "fields", "days"),
    [
        ([user("Rain in Rome?")], {}, False),
        ([user("Rain in Rome?")], {"stated_only": False}, True),
        ([user("Rain in Rome for 7 days?")], {}, True),
        ([user("For 7 days."), assistant("Where?"), user("In Rome.")], {}, True),
        ([user("Rain in Rome?")], {"instructions": "Forecasts are for 7 days."}, True),
        ([user("Shall I go?"), assistant(ToolCall("call-1", "trips", "{}")),
          tool_message(ToolResult("call-1", "trips", "7 days in Rome"))], {}, True),
        ([user("Rain?"), assistant("In Rome, for 7 days?"), user("No, in Rome today.")], {}, False),
    ],
)  # fmt: skip
def test_optional_arguments_that_nobody_stated_are_left_out(
    messages: list[Message], fields: dict[str, Any], days: bool
) -> None:
    (call,) = _ask(Parrot(ASK_DAYS), *messages, tools=(DAYS,), **fields).tool_calls
    assert call.parsed() == {"city": "Rome", **({"days": 7} if days else {})}


@pytest.mark.parametrize(
    ("before", "settings"),
    [
        pytest.param([assistant(IN_ROME), RAIN, user("Look again.")], {}, id="a new turn"),
        pytest.param(
            [assistant(IN_ROME), tool_message(ToolResult("call-1", "weather", "", "timeout"))], {}, id="timeout"
        ),
        pytest.param([assistant(IN_ROME), RAIN], {"tool_choice": "required"}, id="required"),
    ],
)
def test_calls_that_may_be_repeated(before: list[Message], settings: dict[str, Any]) -> None:
    engine = Parrot(ASK_ROME)
    reply = _ask(engine, user("Rain?"), *before, tools=(WEATHER,), settings=ModelSettings(**settings))
    assert [call.id for call in reply.tool_calls] == ["call-2"]


async def test_an_agent_whose_model_repeats_itself_ends() -> None:
    calls = 0

    @tool
    async def weather(city: str) -> str:
        nonlocal calls
        calls += 1
        return "rain"

    agent = Agent(TemplatedModel(Parrot(ASK_ROME, ASK_ROME, "It rains.")), tools=[weather])
    run = await agent.run("Rain in Rome?")
    assert (run.text, calls, run.steps) == ("It rains.", 1, 2)


@pytest.mark.parametrize("errors", list(product((None, "permanent", "timeout", "denied"), repeat=2)))
def test_an_answer_after_a_failed_call_is_what_the_calls_returned(errors: tuple[ToolErrorKind | None, ...]) -> None:
    calls = [ToolCall(f"call-{city}", "weather", json.dumps({"city": city})) for city in ("Rome", "Oslo")]
    texts = ["rain" if error is None else f"no {error}" for error in errors]
    results = [
        ToolResult(call.id, "weather", text, error) for call, text, error in zip(calls, texts, errors, strict=True)
    ]
    engine = Parrot(CHOICE, "Both are sunny.")
    reply = _ask(engine, user("Rain?"), assistant(*calls), *map(tool_message, results), tools=(WEATHER,))
    failed = errors != (None, None)
    assert reply.text == ("\n".join(f"weather: {text}" for text in texts) if failed else "Both are sunny.")
    assert (reply.finish, len(engine.asked)) == ("stop", 1 if failed else 2)


@pytest.mark.parametrize("error", get_args(ToolErrorKind))
def test_only_the_last_outcome_of_equal_calls_of_this_turn_counts(error: ToolErrorKind) -> None:
    failure = tool_message(ToolResult("call-1", "weather", "", error))
    again = [assistant(ToolCall("call-2", "weather", IN_ROME.arguments)), tool_message(ToolResult("call-2", "weather"))]
    turn = [user("Rain?"), assistant(IN_ROME), failure]
    for messages, text in (
        (turn, f"weather: {error}"),
        ([*turn, *again], "Sun."),
        ([*turn, user("Why?")], "Sun."),
        ([*turn, *again, assistant(IN_ROME), failure], f"weather: {error}"),
    ):
        assert _ask(Parrot(CHOICE, "Sun."), *messages, tools=(WEATHER,)).text == text


def test_structured_output_after_a_failed_call_is_that_of_the_model() -> None:
    failure = tool_message(ToolResult("call-1", "weather", "", "permanent"))
    messages = (user("Rain?"), assistant(IN_ROME), failure)
    output = OutputSchema("place", CLOSED)
    assert _ask(Parrot(CHOICE, "{}"), *messages, tools=(WEATHER,), output=output).text == "{}"


NOTHING = "I only call tools, and have called none for this request. There are: weather."


@pytest.mark.parametrize(
    ("messages", "fields", "text"),
    [
        pytest.param([user("Hi")], {}, NOTHING, id="nothing was called"),
        pytest.param([user("Rain?"), assistant(IN_ROME), RAIN], {}, "weather: rain", id="a result"),
        pytest.param([user("Rain?"), assistant(IN_ROME), RAIN, user("Why?")], {}, NOTHING, id="in an earlier turn"),
        pytest.param(
            [user("Rain?"), assistant(IN_ROME), RAIN],
            {"settings": ModelSettings(tool_choice="none")},
            "weather: rain",
            id="no tool may be called",
        ),
        pytest.param(
            [user("Rain?"), assistant(IN_ROME), RAIN], {"output": OutputSchema("place", CLOSED)}, "Done.", id="output"
        ),
        pytest.param([user("Hi")], {"tools": ()}, "Done.", id="without tools"),
    ],
)
def test_a_model_that_only_calls_tools_says_nothing_else_of_them(
    messages: list[Message], fields: dict[str, Any], text: str
) -> None:
    calls_first = "tools" not in fields and "settings" not in fields
    engine = Parrot(*([CHOICE] if calls_first else []), "Done.")
    reply = _ask(engine, *messages, only_calls=True, **{"tools": (WEATHER,), **fields})
    assert (reply.text, reply.finish) == (text, "stop")


def test_a_model_that_only_calls_tools_says_what_they_returned_when_it_repeats_itself() -> None:
    engine = Parrot(ASK_ROME, "I have called it a hundred times.")
    messages = (user("Rain?"), assistant(IN_ROME), RAIN)
    assert _ask(engine, *messages, tools=(WEATHER,), only_calls=True).text == "weather: rain"
    assert len(engine.asked) == 1

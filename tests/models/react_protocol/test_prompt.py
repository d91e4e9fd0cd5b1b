"""The prompt of a text model, made from a request with tools."""

import pytest

from ziggurat import Image, Message, ModelRequest, ModelSettings, Text, ToolCall, ToolResult, user
from ziggurat.messages import Thinking, ToolSpec, Transcript, assistant, system, tool_message
from ziggurat.messages.message import Part
from ziggurat.messages.model import OutputSchema
from ziggurat.models.react_protocol.protocol import observation, prompt_of

ADD = ToolSpec("add", "Adds\n  two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def shown(*messages: Message, settings: ModelSettings | None = None, **more: object) -> ModelRequest:
    request = ModelRequest(
        Transcript.of(*messages),
        tools=(ADD,),
        settings=settings or ModelSettings(),
        **more,  # type: ignore[arg-type]
    )
    return prompt_of(request, 100)


def conversation(*messages: Message) -> str:
    return shown(*messages).messages[0].text


def test_instructions_hold_rules_tools_and_schemas() -> None:
    asked = shown(user("1 + 2?"), instructions="You are brief.")
    text = asked.instructions or ""
    assert text.startswith("You are brief.\n\nYou can use these tools:\n- add: Adds two numbers.\n")
    assert '  arguments: {"type":"object","properties":{"a":{"type":"integer"}}}' in text
    for part in ("Thought:", 'Action: tool {"argument": "value"}', "Observation:", "Action: FINAL_ANSWER"):
        assert part in text
    assert asked.tools == ()
    assert asked.output is None
    assert [message.role for message in asked.messages] == ["user"]


def test_settings_are_kept_but_for_those_of_tools() -> None:
    settings = ModelSettings(temperature=0.5, stop=("END",), tool_choice="required", parallel_tool_calls=False)
    asked = prompt_of(ModelRequest(Transcript.of(user("x")), tools=(ADD,), settings=settings), 10)
    assert asked.settings == ModelSettings(temperature=0.5, stop=("END", "\nObservation:"))
    assert "In this reply you must call a tool." in (asked.instructions or "")


@pytest.mark.parametrize(
    ("choice", "present", "absent"),
    [
        ("add", "In this reply you must call the tool add.", "nothing"),
        ("none", "Action: FINAL_ANSWER", "You can use these tools"),
        ("auto", "You can use these tools", "In this reply"),
        (None, "You can use these tools", "In this reply"),
    ],
)
def test_tool_choice_is_put_in_words(choice: str | None, present: str, absent: str) -> None:
    text = shown(user("x"), settings=ModelSettings(tool_choice=choice)).instructions or ""
    assert present in text
    assert absent not in text


def test_an_output_schema_is_asked_for_in_words() -> None:
    text = shown(user("x"), output=OutputSchema("City", {"type": "object"})).instructions or ""
    assert text.endswith('The answer after FINAL_ANSWER must be JSON that fits this schema: {"type":"object"}')


def test_turns() -> None:
    text = conversation(
        system("It is late."),
        user("1 + 2?", name="Ann"),
        assistant(Thinking("add"), ToolCall("1", "add", '{"a": 1}')),
        tool_message(ToolResult("1", "add", "3")),
        assistant("It is 3."),
        user("sure?"),
    )
    assert text == (
        'System: It is late.\nUser (Ann): 1 + 2?\nThought: add\nAction: add {"a": 1}\n'
        'Observation: {"ok":true,"data":3}\nAction: FINAL_ANSWER It is 3.\nUser: sure?'
    )


def test_calls_of_one_turn_stand_each_before_its_observation() -> None:
    text = conversation(
        user("x"),
        assistant("Both.", ToolCall("1", "f"), ToolCall("2", "g")),
        tool_message(ToolResult("1", "f", "one")),
        tool_message(ToolResult("2", "g", "two")),
    )
    assert text == (
        'User: x\nThought: Both.\nAction: f {}\nObservation: {"ok":true,"data":"one"}\n'
        'Action: g {}\nObservation: {"ok":true,"data":"two"}'
    )


def test_calls_without_results_are_shown_all_the_same() -> None:
    assert conversation(user("x"), assistant(ToolCall("1", "f")), user("go on")).endswith(
        "User: x\nAction: f {}\nUser: go on"
    )
    assert conversation(user("x"), assistant(ToolCall("1", "f"))).endswith("Action: f {}")


def test_a_reply_that_could_not_be_read_is_shown_as_it_was() -> None:
    complaint = Message("user", (Text("There was no Action."),), origin="runtime")
    assert conversation(user("x"), assistant("no idea"), complaint) == (
        "User: x\nno idea\nSystem: There was no Action."
    )
    assert conversation(user("x"), assistant('{"a": 1}'), complaint) == (
        'User: x\nAction: FINAL_ANSWER {"a": 1}\nSystem: There was no Action.'
    )


def test_pictures_stay_where_they_were() -> None:
    one, two = Image(url="http://one"), Image(url="http://two")
    result: tuple[Text | Image, ...] = (Text("see"), two)
    asked = shown(
        user("what is", one), assistant(ToolCall("1", "f")), tool_message(ToolResult("1", "f", result)), user("so?")
    )
    expected: tuple[Part, ...] = (
        Text("User: what is"),
        one,
        Text('Action: f {}\nObservation: {"ok":true,"data":"see"}'),
        two,
        Text("User: so?"),
    )
    assert asked.messages[0].parts == expected


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (ToolResult("1", "f", '{ "a": [1,\n 2] }'), '{"ok":true,"data":{"a":[1,2]}}'),
        (ToolResult("1", "f", "123456789012345678901234567890"), '{"ok":true,"data":123456789012345678901234567890}'),
        (ToolResult("1", "f", "two\nObservation: x"), '{"ok":true,"data":"two\\nObservation: x"}'),
        (ToolResult("1", "f", ""), '{"ok":true,"data":""}'),
        (ToolResult("1", "f", "no such tool", "not_found"), '{"ok":false,"error":"no such tool","kind":"not_found"}'),
        (
            ToolResult("1", "f", "x" * 45, "transient"),
            '{"ok":false,"error":"' + "x" * 40 + '","kind":"transient","truncated":5}',
        ),
        (ToolResult("1", "f", "[" + "1" * 45), '{"ok":true,"data":"[' + "1" * 39 + '","truncated":6}'),
    ],
)
def test_observations(result: ToolResult, line: str) -> None:
    assert observation(result, 40) == f"Observation: {line}"

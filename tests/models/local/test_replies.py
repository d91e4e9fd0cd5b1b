"""Tests of the grammar of replies, and of reading them while they are generated."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat import Message, Text, ToolCall
from ziggurat.events import Fold
from ziggurat.messages import Thinking, ToolSpec
from ziggurat.messages.message import PartDelta
from ziggurat.models.local.replies import (
    ReplyReader,
    answer_grammar,
    answer_prompt,
    calls_grammar,
    choice_of,
    reply_tool,
)

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "Forecast.", CITY)
TIME = ToolSpec("time", "Time.", {**CITY, "$defs": {"C": {"type": "object", "properties": {"a": {"type": "string"}}}}})
ARGUMENTS = st.dictionaries(st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=4))


def rules_in(grammar: str) -> dict[str, str]:
    """Return the rules of a grammar by name."""
    return dict(line.split(": ", 1) for line in grammar.splitlines()[1:])


def schema_of(rule: str) -> Any:
    schema = json.loads(rule.removeprefix("%json "))
    schema.pop("x-guidance")
    return schema


def read(reply: str, size: int = 0, **options: Any) -> tuple[Message, ReplyReader]:
    """Read a reply in pieces of a size, by default at once."""
    reader, fold = ReplyReader(**options), Fold()
    deltas: list[PartDelta] = []
    for at in range(0, len(reply), size or len(reply) or 1):
        deltas += reader.push(reply[at : at + (size or len(reply))])
    for delta in [*deltas, *reader.end()]:
        fold.push(delta)
    return fold.message(), reader


def test_the_grammar_of_calls_and_of_an_answer() -> None:
    rules = rules_in(calls_grammar([WEATHER, TIME], "reply"))
    assert rules["start"] == '"[" (call (", " call){0,15} "]" | "{\\"name\\": \\"reply\\"")'
    assert rules["call"] == "call_0 | call_1"
    assert rules["call_0"] == '"{\\"name\\": \\"weather\\", \\"arguments\\": " arguments_0 "}"'
    assert schema_of(rules["arguments_0"]) == {**CITY, "additionalProperties": False}
    assert schema_of(rules["arguments_1"])["$defs"]["C"]["additionalProperties"] is False
    assert reply_tool([WEATHER]).name == "reply"
    assert reply_tool([WEATHER, ToolSpec("reply"), ToolSpec("reply_")]).name == "reply__"
    assert schema_of(rules_in(answer_grammar({"enum": ["a"]}))["answer"]) == {"enum": ["a"]}
    assert rules_in(answer_grammar())["answer"].startswith("/[^")
    assert rules_in(answer_grammar(thinking="begun"))["start"] == "thought blank (answer)"


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, '"[" (call (", " call){0,15} "]")'),
        ({"parallel": False}, '"[" (call "]")'),
        ({"parallel": False, "thinking": "begun"}, 'thought blank ("[" (call "]"))'),
        ({"parallel": False, "thinking": "optional"}, '("<think>" thought blank)? ("[" (call "]"))'),
    ],
)
def test_what_an_array_of_calls_may_be(options: dict[str, Any], start: str) -> None:
    rules = rules_in(calls_grammar([WEATHER], None, **options))
    assert rules["start"] == start
    assert ("thought[lazy]" in rules) == ("thought" in start)


def test_an_answer_is_asked_for_with_what_is_known() -> None:
    assert "nothing was done" in answer_prompt([], False, None)
    assert "returned" in answer_prompt([], True, None)
    assert "a, b has answered already" in answer_prompt(["a", "b", "a"], True, None)
    assert answer_prompt([], False, CITY).endswith(json.dumps(CITY))


@given(
    st.text(),
    st.lists(st.tuples(st.text(min_size=1), ARGUMENTS), max_size=3),
    st.text(alphabet='ab\n "[]{}\\').filter(str.strip),
    st.integers(1, 9),
    st.booleans(),
)
def test_a_reply_is_read_the_same_in_pieces(
    thought: str, calls: list[tuple[str, dict[str, Any]]], text: str, size: int, ascii_only: bool
) -> None:
    if "</think>" in thought:
        return
    written = json.dumps([{"name": name, "arguments": each} for name, each in calls], ensure_ascii=ascii_only)
    reply = f"<think>{thought}</think>\n{written}" if thought else written
    message, reader = read(reply, size)
    expected: list[Any] = [Thinking(thought)] if thought else []
    for number, (name, arguments) in enumerate(calls, 1):
        expected.append(ToolCall(f"call-{number}", name, json.dumps(arguments, ensure_ascii=ascii_only)))
    assert list(message.parts) == expected
    assert reader.complete
    assert reader.count == len(calls)
    told = f"<think>{thought}</think>\n{text}" if thought else text
    assert read(told, size, calls=False)[0].parts == (*expected[: bool(thought)], Text(text.lstrip()))


@given(st.text(alphabet='ab\n "[]{}\\<>/thinkname:,'), st.integers(1, 9))
def test_any_text_is_read_the_same_in_pieces(text: str, size: int) -> None:
    assert read(text, size)[0] == read(text)[0]


def test_a_thought_that_the_template_begins() -> None:
    assert read("Hm.</think>\n\nYes.", 2, thinking=True)[0].parts == (Thinking("Hm."), Text("Yes."))
    assert read("Hm.</thi", 2, thinking=True)[0].parts == (Thinking("Hm.</thi"),)


def test_calls_that_were_cut_off() -> None:
    message, reader = read('[{"name": "a", "arguments": {}}, {"name": "b", "argu')
    assert not message.parts, "no call is made of a reply that is not whole"
    assert not reader.complete
    assert not read("[]")[0].parts
    assert not read("[")[0].parts
    message, reader = read(choice_of("reply"), choice=choice_of("reply"))
    assert (message.parts, reader.count, reader.complete) == ((), 0, True)
    assert read("[]", calls=False)[0].text == "[]"


def test_calls_that_were_answered_are_left_out() -> None:
    known = ToolCall("call-1", "a", '{"x":1,"y":2}').fingerprint()
    reply = '[{"name": "a", "arguments": {"y": 2, "x": 1}}, {"name": "a", "arguments": {"x": 2}}]'
    message, reader = read(reply, first=5, answered={known})
    assert message.tool_calls == (ToolCall("call-5", "a", '{"x": 2}'),)
    assert reader.repeated == ["a"]

import json

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError, Image, Text, ToolCall, ToolResult
from ziggurat.core.codec import decode, encode
from ziggurat.errors import InvalidArguments
from ziggurat.messages import Audio, Thinking, tool_call
from ziggurat.messages.message import Part

from .strategies import json_objects, json_values, parts, words


@given(parts)
def test_every_part_comes_back_through_json(part: Part) -> None:
    assert decode(encode(part), Part) == part


def test_parts_are_told_apart_by_type_and_defaults_are_not_written() -> None:
    assert encode(Text("x")) == b'{"type":"text","text":"x"}'
    assert encode(Thinking("x")) == b'{"type":"thinking","text":"x"}'
    assert encode(Image(data=b"\x00\xff")) == b'{"type":"image","data":"AP8="}'
    assert encode(ToolCall("id", "add")) == b'{"type":"tool_call","id":"id","name":"add","arguments":"{}"}'


@given(st.text(max_size=20), st.text(max_size=20))
def test_thoughts_are_kept_byte_for_byte(signature: str, redacted: str) -> None:
    thought = Thinking("t", signature, redacted, "id")
    assert decode(encode(thought), Thinking) == thought


@given(words, json_objects)
def test_arguments_are_read_as_written(name: str, arguments: dict[str, object]) -> None:
    assert ToolCall("id", name, json.dumps(arguments)).parsed() == arguments


@given(words, json_objects, words, words)
def test_a_fingerprint_is_blind_to_ids_spaces_and_the_order_of_keys(
    name: str, arguments: dict[str, object], one: str, other: str
) -> None:
    turned = dict(reversed(arguments.items()))
    first = ToolCall(one, name, json.dumps(arguments))
    second = ToolCall(other, name, json.dumps(turned, indent=2, ensure_ascii=False))
    assert first.canonical() == second.canonical()
    assert first.fingerprint() == second.fingerprint()
    assert json.loads(first.canonical()) == arguments


@given(json_objects, json_objects)
def test_fingerprints_differ_as_arguments_do(one: dict[str, object], other: dict[str, object]) -> None:
    first, second = tool_call("x", v=one), tool_call("x", v=other)
    assert (first.fingerprint() == second.fingerprint()) == (first.canonical() == second.canonical())
    assert first.fingerprint() != ToolCall("call", "y", first.arguments).fingerprint()


def test_a_fingerprint_tells_name_from_arguments() -> None:
    assert ToolCall("", "ab", "c").fingerprint() != ToolCall("", "a", "bc").fingerprint()
    assert ToolCall("id", "now", "").parsed() == {}
    assert ToolCall("id", "now", "").fingerprint() == ToolCall("id", "now", "{}").fingerprint()
    call = tool_call("add", a=2**70 + 1)
    assert call.parsed() == {"a": 2**70 + 1}
    assert call.fingerprint() != tool_call("add", a=2**70).fingerprint()


@pytest.mark.parametrize(
    "arguments", ["{", "[1]", "3", "null", '"x"', "{'a': 1}", '{"a": NaN}', '{"a":' + "[" * 100_000, '{"a": "\\ud800"}']
)
def test_what_is_no_object_is_said_to_the_model_and_compared_as_it_is(arguments: str) -> None:
    call = ToolCall("id", "add", arguments)
    with pytest.raises(InvalidArguments, match="JSON"):
        call.parsed()
    assert call.canonical() == arguments
    assert call.fingerprint() == ToolCall("other", "add", arguments).fingerprint()


def test_a_call_made_from_values() -> None:
    call = tool_call("add", id="c1", a=1, b="zwei")
    assert call == ToolCall("c1", "add", '{"a":1,"b":"zwei"}')
    assert tool_call("now") == ToolCall("call", "now", "{}")


@given(json_values)
def test_a_result_is_read_as_the_value_it_tells(value: object) -> None:
    assert ToolResult("id", "x", encode(value).decode()).value() == value


@pytest.mark.parametrize("text", ["sunny", "", "{", "[" * 100_000])
def test_a_result_that_is_no_json_is_its_text(text: str) -> None:
    assert ToolResult("id", "x", text).value() == text


def test_the_text_of_a_result_of_parts() -> None:
    result = ToolResult("id", "x", (Text("a"), Image(url="u"), Audio(url="u"), Text("b")))
    assert result.text == "ab"


@pytest.mark.parametrize("name", [None, 3, b"x"])
def test_a_call_by_hand_names_its_tool(name: object) -> None:
    with pytest.raises(ConfigurationError, match="takes the name of a tool"):
        tool_call(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}, complex(1, 2)])
def test_a_call_by_hand_is_of_json_values(value: object) -> None:
    with pytest.raises(ConfigurationError, match="'add'"):
        tool_call("add", value=value)

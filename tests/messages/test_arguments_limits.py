import json
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from ziggurat import Agent, Message, ToolCall, ToolResult, ZigguratError, tool
from ziggurat.agents.output import AnswerReader
from ziggurat.core import codec
from ziggurat.core.codec import MAX_DEPTH, check_depth
from ziggurat.errors import InvalidArguments
from ziggurat.messages import messages_to_items
from ziggurat.messages.arguments import (
    MAX_ARGUMENTS,
    MAX_CALLS,
    MAX_LONG_NUMBERS,
    SHORT,
    canonical,
    check_size,
    unique_object,
)
from ziggurat.models.anthropic.from_wire import from_wire as from_messages
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.http.failures import failure
from ziggurat.models.http.fitting import is_object
from ziggurat.models.openai.from_wire import from_wire as from_chat
from ziggurat.models.openai_responses.from_wire import from_wire as from_responses
from ziggurat.testing import ScriptedModel
from ziggurat.tools.arguments import MAX_DEPTH as MAX_ARGUMENT_DEPTH, read


@tool
async def echo(x: str = "") -> str:
    return x


def test_an_object_with_unique_keys_is_returned_and_the_first_repeated_key_is_named() -> None:
    assert unique_object([("b", 1), ("a", 2)]) == {"b": 1, "a": 2}
    with pytest.raises(InvalidArguments, match=r"^b: "):
        unique_object([("a", 1), ("b", 2), ("b", 3), ("a", 4)])


@pytest.mark.parametrize("reader", [read, canonical])
@pytest.mark.parametrize("key", ["a", "k" * 10_000])
def test_a_key_given_twice_is_refused_and_named(reader: type, key: str) -> None:
    with pytest.raises(InvalidArguments, match=f"{key[:60]}(\\.\\.\\.)?: given more than once") as refused:
        reader(f'{{"b": {{"{key}": 1, "c": 2, "{key}": 3}}}}')
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("text", ["x" * (MAX_ARGUMENTS + 1), b"x" * (MAX_ARGUMENTS + 1)])
def test_a_text_over_the_limit_is_refused_before_it_is_read(text: str | bytes) -> None:
    check_size(text[:-1])
    with pytest.raises(InvalidArguments, match="4,000,000"):
        check_size(text)


def test_arguments_over_the_limit_are_an_error_result_for_the_model() -> None:
    model = ScriptedModel(ToolCall("c", "echo", json.dumps({"x": "y" * MAX_ARGUMENTS})), "done")
    run = Agent(model, tools=[echo]).run_sync("go")
    assert run.text == "done"
    assert "at most 4,000,000 are read" in run.observations[0]


def test_a_reply_with_too_many_calls_is_asked_again_and_none_of_them_is_made() -> None:
    many = [ToolCall(f"c{number}", "echo", "{}") for number in range(MAX_CALLS + 1)]
    run = Agent(ScriptedModel(many, "done"), tools=[echo]).run_sync("go")
    assert run.text == "done"
    assert run.usage.requests == 2
    assert set(run.observations) == {"your reply makes 1,025 tool calls, and one reply may make 1,024: make fewer"}


def test_hostile_keys_and_ids_do_not_hold_up_a_run() -> None:
    keys = "".join(f'"k{number}":1,' for number in range(40_000))
    calls = [ToolCall(name, "echo", f'{{{keys}"k9":1}}') for name in ("", "c", "c")]
    begun = time.process_time()
    run = Agent(ScriptedModel(calls, "done"), tools=[echo]).run_sync("go")
    assert time.process_time() - begun < 5, "it took 20 s and more when each key was compared with all others"
    assert all("k9: given more than once" in told for told in run.observations)


@tool
async def take(numbers: set[int], names: dict[int, str], days: list[int]) -> str:
    return "taken"


@pytest.mark.parametrize("field", ["numbers", "names", "days"])
@pytest.mark.parametrize("count", [MAX_LONG_NUMBERS, MAX_LONG_NUMBERS + 1, 100_000])
def test_numbers_with_equal_hashes_take_no_time(field: str, count: int) -> None:
    chosen = [str(number * sys.hash_info.modulus) for number in range(10, count + 10)]
    value = "{" + ",".join(f'"{each}":"x"' for each in chosen) + "}" if field == "names" else f"[{','.join(chosen)}]"
    rest = {"numbers": "[]", "names": "{}", "days": "[]"} | {field: value}
    text = "{" + ",".join(f'"{name}":{each}' for name, each in rest.items()) + "}"
    began = time.process_time()
    assert accepts(take.arguments.decode, text) == (count <= MAX_LONG_NUMBERS)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("between", [",", ", ", "-", '":'])
def test_a_short_text_has_too_few_numbers_to_be_refused(between: str) -> None:
    check_size((f"{10**19}{between}" * SHORT)[:SHORT])


def test_long_digits_within_words_and_short_numbers_are_not_counted() -> None:
    accounts = [f"DE{number:020}" for number in range(5_000)]
    check_size(json.dumps({"accounts": accounts, "numbers": list(range(2**63 - 5_000, 2**63))}))


def nested(depth: int, inner: str = "1") -> str:
    return '{"value":' + "[" * (depth - 1) + inner + "]" * (depth - 1) + "}"


def depth_of(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


values = st.recursive(
    st.text('[]{}"\\a', max_size=6) | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[]{}"\\', max_size=3), inner, max_size=4),
)


@given(values, st.integers(0, 8), st.booleans())
def test_the_depth_is_that_of_the_decoded_value(value: object, extra: int, as_bytes: bool) -> None:
    """Brackets within strings do not count, and those after one another count once."""
    depth = MAX_DEPTH - 4 + extra
    text = json.dumps([[[value]] * 3, "[" * 500 + "\\", json.loads("[" * (depth - 1) + "]" * (depth - 1))])
    if depth_of(json.loads(text)) <= MAX_DEPTH:
        check_depth(text.encode() if as_bytes else text)
    else:
        with pytest.raises(msgspec.DecodeError, match=f"more than {MAX_DEPTH} levels"):
            check_depth(text.encode() if as_bytes else text)


def accepts(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except (ZigguratError, ValueError):
        return False
    return True


CHAT = DIALECTS["openai"]
DECODERS: dict[str, tuple[int, Callable[[str], object]]] = {
    "output": (MAX_ARGUMENT_DEPTH, AnswerReader.of(dict[str, Any], ScriptedModel("x")).read),
    "wrapped output": (MAX_ARGUMENT_DEPTH, AnswerReader.of(list[Any], ScriptedModel("x")).read),
    "parsed arguments": (MAX_DEPTH, lambda text: ToolCall("c", "f", text).parsed()),
    "an edit": (MAX_DEPTH, canonical),
    "arguments of a tool": (MAX_ARGUMENT_DEPTH, read),
    "reply of chat": (MAX_DEPTH, lambda text: from_chat(whole("chat", text), CHAT)),
    "reply of messages": (MAX_DEPTH, lambda text: from_messages(whole("messages", text), DIALECTS["anthropic"])),
    "reply of responses": (MAX_DEPTH, lambda text: from_responses(whole("responses", text), CHAT)),
}


def whole(wire: str, extra: str) -> bytes:
    """Return a reply with a field of its own that is nested as deeply as `extra`, which is an object."""
    bodies: dict[str, str] = {
        "chat": '{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]',
        "messages": '{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"',
        "responses": '{"status":"completed","output":[{"type":"message","id":"m","content":[]}]',
    }
    return f"{bodies[wire]},{extra[1:]}".encode()


@pytest.mark.parametrize("name", DECODERS)
def test_every_decoder_accepts_the_same_depth_on_every_python(name: str) -> None:
    most, read = DECODERS[name]
    assert accepts(read, nested(most))
    for depth in (most + 1, 500, 1_500, 5_000, 150_000):
        assert not accepts(read, nested(depth)), depth


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_500, 5_000])
def test_what_is_nested_too_deeply_is_handled_as_text(depth: int) -> None:
    text = nested(depth)
    assert ToolResult("c", "f", text).value() == text
    assert ToolCall("c", "f", text).canonical() == text
    assert not is_object(text)
    assert failure(None, {}, text, CHAT).args == failure(None, {}, " " + text, CHAT).args
    items = messages_to_items([Message("assistant", (ToolCall("c", "f", text),))])
    assert text in str(items)


@given(st.permutations(list(range(40))), st.integers(1, 60))
def test_the_order_of_keys_does_not_matter_at_any_size(order: list[int], length: int) -> None:
    """Small and large values are sorted in different ways."""
    made = {f"k{number}": {"b": "é" * length, "a": [1.5, None, {"z": 1, "y": "x" * length}]} for number in order}
    expected = json.dumps(made, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert codec.canonical(made) == expected

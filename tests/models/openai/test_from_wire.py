import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.models.openai.streams import usage
from ziggurat import ModelResponse, Text, ToolCall, Usage
from ziggurat.errors import ModelError
from ziggurat.messages import Thinking
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.openai import from_wire

OPENAI = DIALECTS["openai"]


def reply(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> ModelResponse:
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    return from_wire(json.dumps({"id": "r1", "model": "m1", "choices": choices, **more}).encode(), OPENAI)


def function(name: str, arguments: object, identity: object = "a") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_plain_reply() -> None:
    response = reply({"role": "assistant", "content": "hi"}, usage=usage(9, 5))
    assert response.message.parts == (Text("hi"),)
    assert (response.finish, response.model, response.id, response.raw) == ("stop", "m1", "r1", None)
    assert response.usage == Usage(9, 5, requests=1)
    assert from_wire(b'\n   \n{"choices": [{"message": {"content": "hi"}}]}', OPENAI).text == "hi"


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"content": None}, ()),
        ({"content": ""}, ()),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, (Text("ab"),)),
        ({"content": [{"type": "thinking", "thinking": [{"text": "h"}, {"text": "m"}]}]}, (Thinking("hm"),)),
        ({"content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}, (Thinking("hm", "s"),)),
        ({"content": [{"type": "thinking", "thinking": 1}, 2, {"text": 3}, "a"]}, (Text("a"),)),
        ({"content": {"a": 1}}, (Text('{"a":1}'),)),
        ({"content": "a", "reasoning_content": "hm"}, (Thinking("hm"), Text("a"))),
        ({"content": "a", "reasoning": "hm"}, (Thinking("hm"), Text("a"))),
        ({"content": "", "tool_calls": [function("f", '{"x":')]}, (ToolCall("a", "f", '{"x":'),)),
        ({"tool_calls": [function("f", {"x": 1})]}, (ToolCall("a", "f", '{"x":1}'),)),
        ({"tool_calls": [function("f", None)]}, (ToolCall("a", "f", ""),)),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, (ToolCall("", "f", "{}"),)),
        ({"tool_calls": [function("f", "{}", 7)]}, (ToolCall("7", "f", "{}"),)),
    ],
)
def test_parts(message: dict[str, Any], parts: tuple[object, ...]) -> None:
    assert reply(message).message.parts == parts


@pytest.mark.parametrize(
    ("native", "calls", "finish"),
    [
        ("stop", False, "stop"), ("stop", True, "tool_calls"), ("tool_calls", True, "tool_calls"),
        ("tool_calls", False, "stop"), ("length", True, "length"), ("model_length", False, "length"),
        ("content_filter", False, "content_filter"), ("SAFETY", False, "content_filter"), ("eos", False, "stop"),
        ("", False, "stop"), (None, True, "tool_calls"), ("brand_new", False, "other"),
    ],
)  # fmt: skip
def test_finishes(native: str | None, calls: bool, finish: str) -> None:
    response = reply({"content": "x", "tool_calls": [function("f", "{}")] if calls else None}, native)
    assert response.finish == finish
    assert (response.raw or {}).get("finish_reason", response.finish) == (native or None)


def test_a_refusal() -> None:
    response = reply({"content": None, "refusal": "No."})
    assert (response.text, response.finish) == ("No.", "refusal")
    assert response.raw == {"finish_reason": "stop", "refusal": "No."}


@pytest.mark.parametrize(
    ("given_usage", "expected"),
    [
        (None, Usage(requests=1)),
        (
            usage(
                9,
                5,
                prompt_tokens_details={"cached_tokens": 4, "cache_write_tokens": 2},
                completion_tokens_details={"reasoning_tokens": 3},
            ),
            Usage(9, 5, 4, 2, 3, 1),
        ),
        (usage(9, 5, prompt_cache_hit_tokens=4), Usage(9, 5, 4, requests=1)),
        (usage(9, 5, num_cached_tokens=4), Usage(9, 5, 4, requests=1)),
        (usage(-9, 5), Usage(None, 5, requests=1)),
        (usage(float("inf"), 5), Usage(None, 5, requests=1)),
        (usage(float("nan"), 5, cached_tokens=float("-inf")), Usage(None, 5, requests=1)),
        (usage(-1, -1), Usage(requests=1)),
        ({"prompt_tokens": 9.0, "completion_tokens": 5.0}, Usage(9, 5, requests=1)),
    ],
)
def test_usage(given_usage: dict[str, Any] | None, expected: Usage) -> None:
    assert reply({"content": "x"}, usage=given_usage).usage == expected


def test_what_a_provider_counts_beside_the_whole_is_counted_into_it() -> None:
    beside = usage(12, 1, completion_tokens_details={"reasoning_tokens": 228}) | {"total_tokens": 241}
    response = reply({"content": "x"}, usage=beside)
    assert response.usage == Usage(12, 229, reasoning=228, requests=1)
    assert response.raw == {"usage": {"input": 12, "output": 1, "reasoning": 228}}
    beside = usage(9, 201, prompt_tokens_details={"audio_tokens": 375}) | {"total_tokens": 585}
    assert reply({"content": "x"}, usage=beside).usage == Usage(384, 201, requests=1)


def test_fields_worth_keeping() -> None:
    response = reply(
        {"content": "x", "annotations": [{"type": "url_citation"}]},
        service_tier="flex",
        system_fingerprint="fp",
        citations=["https://x.example"],
        usage=usage(1, 1, cost=0.5),
        created=1,
    )
    assert response.raw == {
        "service_tier": "flex",
        "system_fingerprint": "fp",
        "citations": ["https://x.example"],
        "cost": 0.5,
        "annotations": [{"type": "url_citation"}],
    }


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"<html>busy</html>", b"{}", b'{"choices": []}', b'{"choices": null}', b'{"choices": [1]}',
        b'{"choices": [{"message": {"content": "x"}}', b"\xff\xfe", b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_malformed(body: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        from_wire(body, OPENAI)
    assert caught.value.kind == "malformed"
    assert caught.value.transient


def test_an_error_in_place_of_a_reply_shows_no_key() -> None:
    with pytest.raises(ModelError) as caught:
        from_wire(b'{"error": {"code": "content_filter", "message": "no"}}', OPENAI)
    assert (caught.value.kind, caught.value.status) == ("content_filter", 200)
    with pytest.raises(ModelError) as caught:
        from_wire(b"bad key sk-abcdefghijklmnop", OPENAI)
    assert "abcdefgh" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "tool_calls", "function", "usage", "index", "name"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_no_json_crashes_it(value: object) -> None:
    for body in ({"choices": [{"message": value}]}, value):
        with contextlib.suppress(ModelError):  # and nothing else
            from_wire(json.dumps(body).encode(), OPENAI)

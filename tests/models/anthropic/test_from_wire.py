"""Plain replies of the Messages API."""

import json
from typing import Any

import pytest

from tests.models.anthropic.support import (
    CALL,
    CITED,
    DIALECT,
    FOUND,
    OTHER_CALL,
    REDACTED,
    SEARCH,
    TEXT,
    THINKING,
    reply,
    written,
)
from ziggurat import ModelResponse, Text, ToolCall, Usage
from ziggurat.errors import ContextOverflow, ModelError
from ziggurat.messages import Thinking
from ziggurat.models.anthropic import from_wire


def read(made: dict[str, Any]) -> ModelResponse:
    return from_wire(written(made), DIALECT)


def test_texts_in_a_row_are_one_part() -> None:
    response = read(reply(TEXT))
    assert response.text == TEXT["text"]
    assert (response.finish, response.model, response.id, response.raw) == ("stop", "claude-sonnet-4-5", "msg_1", None)
    assert read(reply(TEXT, {"type": "text", "text": ""}, TEXT)).message.parts == (Text(TEXT["text"] * 2),)


def test_calls_keep_their_arguments_as_they_were_written() -> None:
    body = written(reply(stop="tool_use")).replace(
        b'"content":[]', b'"content":[{"type": "tool_use", "id": "a", "name": "f", "input": {"x" : 1.50}}]'
    )
    assert from_wire(body, DIALECT).tool_calls == (ToolCall("a", "f", '{"x" : 1.50}'),)
    calls = read(reply({"type": "tool_use", "id": "a", "name": "f"}, OTHER_CALL, stop="tool_use")).tool_calls
    assert [call.arguments for call in calls] == ["{}", "{}"]


def test_thoughts_keep_text_signature_and_order() -> None:
    parts = read(reply(THINKING, REDACTED, CALL, stop="tool_use")).message.parts
    assert parts[0] == Thinking(THINKING["thinking"], THINKING["signature"])
    assert parts[1] == Thinking(redacted=REDACTED["data"])
    assert isinstance(parts[2], ToolCall)


def test_blocks_of_any_kind_are_kept_whole() -> None:
    parts = read(reply(SEARCH, FOUND, TEXT)).message.parts
    kept = [part for part in parts if isinstance(part, Thinking)]
    assert [part.id for part in kept] == ["anthropic:server_tool_use", "anthropic:web_search_tool_result"]
    assert [json.loads(part.redacted or "") for part in kept] == [SEARCH, FOUND]
    assert not read(reply(SEARCH, FOUND, TEXT)).message.thinking
    strange = {"type": "hologram", "text": {"deep": [1]}, "id": 7}
    parts = read(reply(strange, TEXT)).message.parts
    assert isinstance(parts[0], Thinking)
    assert json.loads(parts[0].redacted or "") == strange
    assert parts[1] == Text(TEXT["text"])


def test_citations_are_raw() -> None:
    assert read(reply(CITED)).raw == {"citations": CITED["citations"]}


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"), ("refusal", "refusal"), ("pause_turn", "paused"),
        ("something_new", "other"), (None, "other"),
    ],
)  # fmt: skip
def test_reasons_to_stop(stop: str, finish: str) -> None:
    response = read(reply(TEXT, stop=stop))
    assert response.finish == finish
    if stop not in ("end_turn", "max_tokens", None):
        assert response.raw is not None
        assert response.raw["stop_reason"] == stop


def test_a_call_that_was_cut_by_the_limit_is_not_to_be_run() -> None:
    response = read(reply(TEXT, CALL, stop="max_tokens"))
    assert response.finish == "malformed"
    assert response.raw is not None
    assert "cut" in response.raw["malformed"]
    assert response.raw["stop_reason"] == "max_tokens"


def test_details_of_the_end() -> None:
    details = {"type": "refusal", "category": "cyber"}
    made = reply(stop="refusal", stop_details=details, container={"id": "c"}, context_management=None)
    assert read(made).raw == {"stop_reason": "refusal", "stop_details": details, "container": {"id": "c"}}


def test_input_includes_what_was_cached_and_unknown_usage_is_unknown() -> None:
    usage = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1000,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert read(reply(TEXT, usage=usage)).usage == Usage(1105, 7, 1000, 100, 3, 1)
    made = reply(TEXT)
    del made["usage"]
    assert read(made).usage == Usage(requests=1)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>busy</html>", b"null", b"[]", b"{}", b'{"content": 5}', b'{"content": ["x"]}', b"\xff\xfe", b'{"a":',
     b'{"content": [{"type": "text", "text": 5}], "stop_reason": "end_turn"}', b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_reply_is_malformed(body: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        from_wire(body, DIALECT)
    assert caught.value.kind == "malformed"
    assert caught.value.transient


@pytest.mark.parametrize(
    ("kind", "expected", "transient"),
    [
        ("overloaded_error", "overloaded", True),
        ("rate_limit_error", "rate_limited", True),
        ("api_error", "server", True),
        ("authentication_error", "authentication", False),
        ("invalid_request_error", "invalid_request", False),
    ],
)
def test_an_error_with_a_good_status(kind: str, expected: str, transient: bool) -> None:
    with pytest.raises(ModelError) as caught:
        from_wire(written({"type": "error", "error": {"type": kind, "message": "sorry"}}), DIALECT)
    assert (caught.value.kind, caught.value.transient) == (expected, transient)


def test_an_overflow_with_a_good_status() -> None:
    fault = {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}
    with pytest.raises(ContextOverflow):
        from_wire(written({"type": "error", "error": fault}), DIALECT)

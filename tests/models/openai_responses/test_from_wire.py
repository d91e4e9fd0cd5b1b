"""Plain replies of the Responses API."""

import json

import pytest

from tests.models.openai_responses.support import DIALECT, Json, call, message, read, reasoning, reply
from ziggurat import Text, ToolCall, Usage
from ziggurat.errors import ContextOverflow, ModelError
from ziggurat.messages import Thinking, assistant
from ziggurat.models.openai_responses import from_wire


def test_text_and_usage() -> None:
    response = read(reply(message("Hello")))
    assert response.message == assistant("Hello")
    assert (response.finish, response.id, response.model, response.raw) == ("stop", "resp_1", "gpt-5-mini-2025", None)
    assert read(reply()).usage == Usage(20, 9, cache_read=8, reasoning=4, requests=1)


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": -1, "output_tokens": None}])
def test_unknown_usage_stays_unknown(usage: dict[str, int] | None) -> None:
    assert read(reply(message("Hi"), usage=usage)).usage == Usage(requests=1)


def test_calls_keep_their_id_order_and_arguments() -> None:
    response = read(reply(call("add", '{"a": 1}', "call_7")))
    assert response.message == assistant(ToolCall("call_7", "add", '{"a": 1}'))
    assert response.finish == "tool_calls"
    response = read(reply(call("a", "{}", "c1"), call("b", "{}", "c2"), call("a", "{}", "c3")))
    assert [each.id for each in response.tool_calls] == ["c1", "c2", "c3"]
    body = reply({**call("add", ""), "arguments": {"a": 1}})
    assert read(body).tool_calls[0].arguments == '{"a":1}'


def test_reasoning_keeps_id_summaries_and_proof() -> None:
    response = read(reply(reasoning("First."), message("Hi")))
    assert response.message.parts[0] == Thinking("First.", "gAAA==", None, "rs_1")
    assert (response.message.thinking, response.text) == ("First.", "Hi")
    first, second = read(reply(reasoning("One", "Two"))).message.parts
    assert first == Thinking("One", None, None, "rs_1")
    assert second == Thinking("Two", "gAAA==", None, "rs_1#1")
    thought = {"type": "reasoning_text", "text": "2 and 2"}
    assert read(reply(reasoning(encrypted=None, content=[thought]))).message.parts == (
        Thinking("2 and 2", None, None, "rs_1#content-0"),
    )


def test_a_refusal_is_text_and_a_finish() -> None:
    refused = {**message(""), "content": [{"type": "refusal", "refusal": "I will not."}]}
    response = read(reply(refused))
    assert (response.text, response.finish, response.raw) == ("I will not.", "refusal", {"refusal": "I will not."})


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("new_reason", "other"), (None, "other")],
)
def test_incomplete(reason: str | None, finish: str) -> None:
    response = read(reply(message("Hel"), status="incomplete", incomplete_details={"reason": reason}))
    assert (response.text, response.finish) == ("Hel", finish)
    assert response.raw is not None
    assert response.raw["status"] == "incomplete"


@pytest.mark.parametrize("arguments", ["", '{"a": 1', '{"a": 1}'])
@pytest.mark.parametrize("status", ["incomplete", "in_progress", "completed", None])
def test_a_reply_cut_within_a_call_must_not_be_acted_upon(arguments: str, status: str | None) -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    response = read(reply(call("wipe", arguments, status=status), **cut))
    assert response.finish == "malformed"
    assert response.raw is not None
    assert set(response.raw) == {"status", "incomplete_reason", "malformed"}


def test_a_reply_cut_after_a_whole_call_is_only_short() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert read(reply(call("add", "{}"), message("And"), **cut)).finish == "length"


def test_items_of_the_providers_own_are_no_calls_of_ours() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    response = read(reply(search, message("Found.")))
    assert response.tool_calls == ()
    assert response.raw == {"items": [search]}


def test_annotations_and_tier_are_in_raw() -> None:
    cited = message("Found.")
    cited["content"][0]["annotations"] = [{"type": "url_citation", "url": "https://example.org"}]
    response = read(reply(cited, service_tier="flex"))
    assert response.raw == {"service_tier": "flex", "annotations": cited["content"][0]["annotations"]}


def test_the_phase_of_a_message_stands_beside_its_text() -> None:
    parts = read(
        reply(message("Let me see.", phase="commentary"), message("Done.", "msg_2", phase="final"))
    ).message.parts
    assert [type(part) for part in parts] == [Thinking, Text, Thinking, Text]


def test_a_background_reply_that_waits_is_no_answer() -> None:
    response = read(reply(status="queued", usage=None))
    assert (response.finish, response.raw) == ("other", {"status": "queued"})


def test_unknown_items_and_broken_characters_are_no_harm() -> None:
    response = read(reply({"type": "brand_new", "content": 3}, {"no": "type"}, message("Hi"), new_field=[1]))
    assert response.text == "Hi"
    body = json.dumps(reply(message("A\ud83d"))).encode()
    assert read(json.loads(body)).text == "A?"


@pytest.mark.parametrize(
    "item", [{**call("add", ""), "arguments": [1]}, {**message(""), "content": [3]}, {**reasoning(), "summary": "x"}, 3]
)
def test_an_item_that_cannot_be_read_is_not_passed_over(item: Json) -> None:
    with pytest.raises(ModelError) as caught:
        read(reply(item))
    assert caught.value.kind == "malformed"


def test_a_failed_reply_is_an_error() -> None:
    with pytest.raises(ModelError) as caught:
        read(reply(status="failed", error={"code": "server_error", "message": "It broke."}))
    assert (caught.value.kind, caught.value.transient) == ("server", True)
    assert "It broke." in str(caught.value)
    with pytest.raises(ContextOverflow):
        read(reply(status="failed", error={"code": "context_length_exceeded", "message": "Too long."}))
    with pytest.raises(ModelError, match="slow down") as caught:
        read({"error": {"code": "rate_limit_exceeded", "message": "slow down"}})
    assert caught.value.kind == "rate_limited"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{}", b'{"output": 3}', b'{"output": null, "status": "completed"}', b"<html>", b'"text"',
        b'{"id": "resp_1"', b"\xff\xfe", b"[" * 9999,
    ],
)  # fmt: skip
def test_what_is_no_reply(body: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        from_wire(body, DIALECT)
    assert (caught.value.kind, caught.value.transient) == ("malformed", True)

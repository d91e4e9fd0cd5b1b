import json
from typing import cast

import pytest

from tests.models.openai.streams import DONE, STREAMS, call, chunk, events, said, told, usage
from ziggurat import Message, ModelResponse, Text, ToolCall, Usage
from ziggurat.errors import ContextOverflow, ModelError, StreamInterrupted
from ziggurat.events import Fold
from ziggurat.http.sse import ServerEvent
from ziggurat.messages import Thinking
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.openai import Reader

END = chunk({}, "stop") + DONE


@pytest.mark.parametrize("name", STREAMS)
def test_streams_say_what_they_say(name: str) -> None:
    dialect, text, parts = STREAMS[name]
    response, deltas = told(text, dialect)
    assert response.message.parts == parts
    assert (response.id, response.model) == ("r1", "m1")
    fold = Fold()
    for delta in deltas:
        fold.push(delta)
    assert fold.message() == response.message


def cut(body: bytes, dialect: str) -> ModelResponse | Message:
    """Return the response of a stream that ends there, or the partial message if it is cut off."""
    reader = Reader(DIALECTS[dialect])
    for event in events(body):
        reader.push(event)
    try:
        return reader.finish()
    except StreamInterrupted as error:
        return cast("Message", error.partial)


@pytest.mark.parametrize("name", STREAMS)
def test_cut_anywhere_they_never_pass_for_finished(name: str) -> None:
    dialect, text, parts = STREAMS[name]
    body = text.encode()
    for length in range(len(body)):
        come = cut(body[:length], dialect)
        if isinstance(come, ModelResponse):  # only usage or the mark of the end is missing
            assert come.message.parts == parts
            assert b'"finish_reason": "' in body[:length]
        else:
            assert set(come.tool_calls) <= set(parts)


def test_what_had_come_is_kept() -> None:
    reader = Reader(DIALECTS["openai"])
    for event in events(chunk({"content": "Hel"}) + chunk(call(index=0, id="a", name="add", arguments='{"x": 1'))):
        reader.push(event)
    with pytest.raises(StreamInterrupted) as caught:
        reader.finish()
    assert caught.value.partial == Message("assistant", (Text("Hel"),))
    assert caught.value.transient


def test_a_stream_may_end_in_other_ways() -> None:
    response, _ = told(chunk({"content": "4"}) + DONE)
    assert (response.text, response.finish, response.raw) == ("4", "other", {"finish_reason": None})
    assert said(chunk(call(index=0, id="a", name="f", arguments="{}")) + DONE) == (ToolCall("a", "f", "{}"),)
    with pytest.raises(StreamInterrupted, match="arguments"):
        told(chunk(call(index=0, id="a", name="f", arguments='{"x')) + DONE)
    assert told(chunk({"content": "4"}, "stop"))[0].finish == "stop"
    assert told((chunk({"content": "4"}) + chunk({}, "stop")).rstrip("\n"))[0].text == "4"


def test_choices_may_be_missing_or_several() -> None:
    odd = 'data: {"choices": null}\n\ndata: {"choices": []}\n\ndata: {"choices": [{"index": 0}]}\n\ndata:\n\n'
    assert said(odd + chunk({"content": "4"}) + odd + END) == (Text("4"),)
    other = 'data: {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}\n\n'
    response, _ = told(other + chunk({"content": "yes"}) + other + END)
    assert (response.text, response.finish) == ("yes", "stop")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([usage(9, 5)], Usage(9, 5, requests=1)),
        ([usage(9, 1), usage(9, 2), usage(9, 3)], Usage(9, 3, requests=1)),
        ([{"prompt_tokens": 9, "completion_tokens": None}, {"completion_tokens": 4}], Usage(9, 4, requests=1)),
        ([None], Usage(requests=1)),
    ],
)
def test_usage_is_the_last_word_and_never_a_sum(pieces: list[object], expected: Usage) -> None:
    text = "".join(chunk({"content": "x"}, usage=piece) for piece in pieces) + END
    assert told(text)[0].usage == expected


def test_a_refusal_is_said_and_marked() -> None:
    response, deltas = told(chunk({"refusal": "I "}) + chunk({"refusal": "won't."}) + END)
    assert (response.text, response.finish) == ("I won't.", "refusal")
    assert response.raw == {"finish_reason": "stop", "refusal": "I won't."}
    assert len(deltas) == 2


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thoughts(field: str) -> None:
    text = chunk({field: "hm", "content": ""}) + chunk({field: "m", "content": None}) + chunk({"content": "4"}) + END
    assert said(text) == (Thinking("hmm"), Text("4"))


def test_thoughts_are_kept_once_and_in_order() -> None:
    assert said(chunk({"reasoning": "hm", "reasoning_content": "hm"}) + END) == (Thinking("hm"),)
    one = {"type": "reasoning.encrypted", "data": "AAA", "index": 0}
    two = {"type": "reasoning.encrypted", "data": "BBB", "index": 1}
    parts = said(chunk({"reasoning_details": [one]}) + chunk({"reasoning_details": [two]}) + END)
    assert [part.redacted for part in parts if isinstance(part, Thinking)] == ["AAA", "BBB"]


def test_googles_signature_stands_before_its_call() -> None:
    signed = call(index=0, id="a", name="f", arguments="{}")
    signed["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "S1"}}
    assert said(chunk(signed) + END) == (Thinking("", "S1", None, "google"), ToolCall("a", "f", "{}"))


@pytest.mark.parametrize(
    "event",
    [
        'event: error\ndata: {"error": {"message": "no", "code": "rate_limit_exceeded"}}\n\n',
        'data: {"error": {"message": "no", "code": 429}}\n\n',
        'data: {"id": "x", "choices": [{"index": 0, "delta": {}, "error": {"code": 429, "message": "no"}}]}\n\n',
        "event: error\ndata: rate limit\n\n",
    ],
)
def test_an_error_in_midstream_is_an_error(event: str) -> None:
    with pytest.raises(ModelError) as caught:
        told(chunk({"content": "Hel"}) + event)
    assert caught.value.kind == "rate_limited"
    assert not isinstance(caught.value, StreamInterrupted)


def test_an_overflow_in_midstream() -> None:
    with pytest.raises(ContextOverflow):
        told('data: {"error": {"message": "x", "code": "context_length_exceeded"}}\n\n')


def test_an_event_that_cannot_be_read_is_malformed_before_the_end_and_a_cut_at_it() -> None:
    with pytest.raises(ModelError) as caught:
        told('data: {"choices": [{\n\n' + END)
    assert caught.value.kind == "malformed"
    with pytest.raises(StreamInterrupted):
        told(chunk({"content": "x"}, "stop") + 'data: {"choices": [{\n\n')


def test_loose_json_is_read() -> None:
    loose = 'data: {"choices": [{"index": 0, "delta": {"content": "a\\ud83d"}, "logprobs": NaN}]}\n\n'
    assert said(loose + END) == (Text("a?"),)


@pytest.mark.parametrize("data", ["1", '"x"', "[1]", "[" * 100_000, '{"choices": {}}', '{"choices": [1]}', "{" * 9])
def test_nonsense_is_a_typed_error(data: str) -> None:
    reader = Reader(DIALECTS["openai"])
    reader.push(ServerEvent("message", data))
    with pytest.raises(StreamInterrupted):
        reader.finish()


def test_a_call_cut_by_length_before_its_arguments_is_no_call_without_arguments() -> None:
    [made] = said(chunk(call(index=0, id="a", name="wipe", arguments="")) + chunk({}, "length") + DONE)
    assert isinstance(made, ToolCall)
    with pytest.raises(json.JSONDecodeError):
        json.loads(made.arguments)

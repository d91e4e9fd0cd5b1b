"""The readers, filters and folds of `models`, `middleware` and `memory`."""

import json
from collections.abc import Callable, Iterable, Sequence
from math import cos, sin
from typing import Any

from msgspec.structs import replace

from tests.growth.measure import Case, Make
from tests.growth.room_messages import CONVERSATIONS, DELTAS, MESSAGES, given, over
from tests.growth.shapes import JSON, SHAPES, TEXT, pieces
from ziggurat import Message, ToolResult, user
from ziggurat.core import root
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.http.sse import EventParser, ServerEvent
from ziggurat.memory import MemoryRecord, TfIdf
from ziggurat.memory.search import pieces as query_pieces
from ziggurat.memory.similar import find_same, tfidf, wording
from ziggurat.memory.words import indexed_words, query_words, terms
from ziggurat.messages import ModelRequest, ToolSpec, Transcript
from ziggurat.messages.arguments import text_left_out
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.message import DeltaFilter, PartDelta
from ziggurat.messages.model import pack
from ziggurat.middleware import Redaction, Trim
from ziggurat.middleware.secrets import Secrets, StreamMask
from ziggurat.models.anthropic.from_wire import Reader as AnthropicReader, from_wire as from_anthropic
from ziggurat.models.anthropic.to_wire import encode_message as to_anthropic
from ziggurat.models.brackets import Brackets
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.http.failures import duration, failure, failure_of, readable, redacted, retry_after
from ziggurat.models.http.fitting import encoded as encoded_anew, fitted, is_object, object_text
from ziggurat.models.local.demo import answer
from ziggurat.models.local.minilm import pieces as wordpieces
from ziggurat.models.local.replies import ReplyReader
from ziggurat.models.local.spans import Statements
from ziggurat.models.openai.from_wire import Reader as ChatReader, from_wire as from_chat
from ziggurat.models.openai.to_wire import encode_message as to_chat, encode_pictures
from ziggurat.models.openai_responses.from_wire import Reader as ResponsesReader, from_wire as from_responses
from ziggurat.models.openai_responses.to_wire import encode_message as to_responses
from ziggurat.models.react_protocol.protocol import ReactParser, observation, prompt_of

CHAT, ANTHROPIC, RESPONSES = DIALECTS["openai"], DIALECTS["anthropic"], DIALECTS["openai"]

FEWER = {"least": 250, "most": 16_000}
LOOKED_AT = {"least": 4_600, "most": 50_000, "span": 10}
"""Sizes of errors up to those of which only the beginning is read; smaller ones may be JSON, which is quicker."""

SECRETS = Secrets(("correct horse", "hunter22"), (r"\bACC-[0-9]{6,10}\b",), True, True, "[REDACTED]")
NOTE = ToolSpec("note", "Write.", {"type": "object", "properties": {"note": {"type": "string"}}})
REDACTION = Redaction("correct horse", patterns=[r"\bACC-[0-9]{6,10}\b"], emails=True)


def events(*kinds: Any) -> Make:
    """Return a stream that begins with some events and repeats the last."""

    def made(size: int) -> list[ServerEvent]:
        head = [*kinds[:-1], *[kinds[-1]] * size]
        return [ServerEvent(str(each.get("type", "message")), json.dumps(each)) for each in head]

    return made


def chat(**delta: Any) -> dict[str, Any]:
    return {"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta}]}


def called(**fields: Any) -> dict[str, Any]:
    name, arguments = fields.pop("name", None), fields.pop("arguments", None)
    return chat(tool_calls=[{**fields, "function": {"name": name, "arguments": arguments}}])


CHAT_STREAMS = {
    "letters": events(chat(content="x")),
    "refusals": events(chat(refusal="x")),
    "thoughts": events(chat(reasoning_content="x")),
    "details": events(chat(reasoning_details=[{"type": "reasoning.text", "text": "x", "index": 0}])),
    "arguments": events(called(index=0, id="c", name="f", arguments="{"), called(index=0, arguments="1")),
    "the name with each piece": events(
        called(index=0, id="c", name="f", arguments='{"a": "'), called(index=0, id="d", name="f", arguments="x")
    ),
    "closed with each piece": events(called(name="f", arguments='{"a": "'), called(name="f", arguments="}")),
    "calls without index": events(called(id="c", name="f", arguments="{}")),
    "calls without id": events(called(name="f", arguments="{}")),
    "blank arguments": events(called(index=0, name="f", arguments="{}"), called(index=0, name="f", arguments=" ")),
    "usage": events({"usage": {"prompt_tokens": 1}}),
    "nothing": events({"choices": []}),
}

BLOCK = {"type": "content_block_start", "index": 0}


def block(**delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


ANTHROPIC_STREAMS = {
    "letters": events(BLOCK | {"content_block": {"type": "text"}}, block(type="text_delta", text="x")),
    "thoughts": events(BLOCK | {"content_block": {"type": "thinking"}}, block(type="thinking_delta", thinking="x")),
    "signatures": events(BLOCK | {"content_block": {"type": "thinking"}}, block(type="signature_delta", signature="x")),
    "arguments": events(
        BLOCK | {"content_block": {"type": "tool_use", "id": "c", "name": "f"}},
        block(type="input_json_delta", partial_json="1"),
    ),
    "a block of its own": events(BLOCK | {"content_block": {"type": "web", "text": "a"}}, block(type="x", text="x")),
    "JSON of its own": events(BLOCK | {"content_block": {"type": "web"}}, block(type="x", partial_json="1")),
    "citations": events(BLOCK | {"content_block": {"type": "text"}}, block(type="citations_delta", citation={"a": 1})),
    "blocks without end": events(BLOCK | {"content_block": {"type": "web"}}),
    "calls": events(BLOCK | {"content_block": {"type": "tool_use", "id": "c", "name": "f"}}),
    "strange events": events({"type": "new"}),
}

ITEM = {"type": "message", "id": "m", "content": []}
RESPONSES_STREAMS = {
    "letters": events({"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": "x"}),
    "letters of two": lambda size: [
        ServerEvent("x", json.dumps({"type": "response.output_text.delta", "item_id": f"m{number % 2}",
                                     "output_index": number % 2, "content_index": 0, "delta": "x"}))
        for number in range(size)
    ],
    "ends": lambda size: [
        ServerEvent("x", json.dumps({"type": kind, "item_id": "m", "content_index": 0, field: "x"}))
        for number in range(size // 2)
        for kind, field in (("response.output_text.delta", "delta"), ("response.output_text.done", "text"))
    ],
    "items": events({"type": "response.output_item.added", "output_index": 0, "item": ITEM}),
    "items that end": events({"type": "response.output_item.done", "output_index": 0, "item": ITEM}),
    "arguments": events({"type": "response.function_call_arguments.delta", "item_id": "c", "delta": "1"}),
    "arguments that end": events(
        {"type": "response.function_call_arguments.delta", "item_id": "c", "delta": "1"},
        {"type": "response.function_call_arguments.done", "item_id": "c", "arguments": "1"},
    ),
    "thoughts": events({"type": "response.reasoning_summary_text.delta", "item_id": "r", "delta": "1"}),
}  # fmt: skip


def reading(reader: Callable[[Any], Any], dialect: Any) -> Callable[[Sequence[ServerEvent]], None]:
    def run(stream: Sequence[ServerEvent]) -> None:
        made = reader(dialect)
        for event in stream:
            made.push(event)
        made.finish()

    return run


def replies(wire: str) -> dict[str, Make]:
    """Return whole replies with hostile contents."""
    return {shape: around(wire, shape) for shape in JSON} | {
        "calls": lambda size: whole(wire, "x", calls=size // 50),
        "parts": lambda size: whole(wire, "x", parts=size // 30),
    }


def around(wire: str, shape: str) -> Make:
    return lambda size: whole(wire, SHAPES[shape](size))


def whole(wire: str, text: str, *, calls: int = 0, parts: int = 1) -> bytes:
    text = text.encode("utf-8", "replace").decode()
    body: dict[str, Any]
    if wire == "chat":
        called = [{"id": "c", "function": {"name": "f", "arguments": text}}] * calls
        content = [{"type": "text", "text": text}] * parts
        body = {"choices": [{"message": {"content": content, "tool_calls": called}, "finish_reason": "stop"}]}
    elif wire == "anthropic":
        blocks = [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": text}}] * calls
        body = {"type": "message", "content": [{"type": "text", "text": text}] * parts + blocks, "stop_reason": "x"}
    else:
        items = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": text}] * calls
        said = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": text}] * parts}
        body = {"status": "completed", "output": [said, *items]}
    return json.dumps(body).encode()


def parsed(chunks: Iterable[str | bytes]) -> None:
    parser = EventParser()
    for chunk in chunks:
        parser.feed(chunk if isinstance(chunk, bytes) else chunk.encode("utf-8", "replace"))
    parser.close()


def chunks(text: str) -> Make:
    return lambda size: [bytes([each]) for each in (text * (1 + size // len(text)))[:size].encode()]


SSE: dict[str, Make] = {
    "one line in bytes": chunks("x"),
    "line feeds in bytes": chunks("\n"),
    "carriage returns in bytes": chunks("\r"),
    "both in bytes": chunks("\r\n"),
    "data lines in bytes": chunks("data: x\n"),
    "events in bytes": chunks("data: x\n\n"),
    "comments in bytes": chunks(": x\n"),
    "empty data": lambda size: [b"data:\n" * size],
    "one chunk": lambda size: [b"data: x\n\n" * (size // 9)],
    "no line end": lambda size: [b"data: " + b"x" * size],
    "types": lambda size: [b"event: x\n" * (size // 9)],
    "ids": lambda size: [b"id: x\n" * (size // 6)],
}


def reacted(letters: Iterable[str]) -> None:
    parser = ReactParser("c")
    for letter in letters:
        parser.feed(letter)
    parser.finish()


def filtered(deltas: Iterable[PartDelta]) -> None:
    each: DeltaFilter = REDACTION.deltas(root())
    for delta in deltas:
        list(each.push(delta))
    list(each.flush())


def masked_pieces(letters: Iterable[str]) -> None:
    incoming = StreamMask(SECRETS)
    for letter in letters:
        incoming.push(letter)
    incoming.flush()


def bracketed(letters: Iterable[str]) -> None:
    brackets = Brackets()
    for letter in letters:
        brackets.end_in(letter)


def answered(letters: Iterable[str]) -> None:
    reader = ReplyReader()
    for letter in ('[{"name": "say", "arguments": {"text": "', *letters):
        reader.push(letter)
    reader.end()


def record(text: str) -> MemoryRecord:
    return MemoryRecord(id="a", owner="o", content=text)


def records_of(text: str) -> Make:
    """Make memories of a text with the number of each, modulo 1, 2 and so on in place of the fields."""
    return lambda count: [record(text.format(each, each % 2, ("", "not")[each % 2])) for each in range(count)]


def turned(count: int) -> list[MemoryRecord]:
    """Make memories of the same words with vectors of many directions."""
    return [replace(record("same words"), embedding=pack([cos(each), sin(each)])) for each in range(count)]


MEMORIES: dict[str, Make] = {
    "equal": records_of("The user lives in Rome."),
    "turned": turned,
    "numbered": records_of("The rent of the user is {0} euros."),
    "one answer": records_of("The user lives in City{0}."),
    "denied": records_of("The user is {2} well."),
    "denied, numbered": records_of("The user is {2} in room a{0} of the house."),
    "same subject": records_of("The a the {1} so."),
}


def weighted(text: str) -> None:
    index: TfIdf[str] = TfIdf()
    index.add("a", text)
    index.search(text)


IN_PIECES = [
    "one_word", "blanks", "stars", "words", "labels", "fences", "actions", "action_gap", "action_arguments", "tokens",
    "private_keys", "addresses", "newlines", "controls", "keys",
]  # fmt: skip


def in_letters(name: str, run: Any, shapes: Iterable[str] = IN_PIECES) -> list[Case]:
    return [Case(name, f"{shape} in letters", pieces(shape), run, reach=32_000) for shape in shapes]


def in_deltas(shape: str) -> Make:
    return lambda size: [kind(letter) for letter in SHAPES[shape](size) for kind in (TextDelta, ThinkingDelta)]


def encoded(encode: Callable[..., bytes], *more: Any) -> Callable[[Sequence[Message]], None]:
    def run(messages: Sequence[Message]) -> None:
        for message in messages:
            encode(message, *more)

    return run


def steps(messages: Sequence[Message]) -> None:
    """Encode a conversation after each message, as the requests of a run do."""
    conversation = Conversation()
    for message in messages:
        conversation.log.append(message)
        encoded_anew(conversation.view(), "chat", lambda each: to_chat(each, CHAT))


def result(text: str) -> ToolResult:
    return ToolResult("c", "f", text)


CASES = [
    *given("models.openai.from_wire.Reader", reading(ChatReader, CHAT), CHAT_STREAMS, reach=32_000),
    *given("models.anthropic.from_wire.Reader", reading(AnthropicReader, ANTHROPIC), ANTHROPIC_STREAMS, reach=32_000),
    *given("models.openai_responses.from_wire.Reader", reading(ResponsesReader, RESPONSES), RESPONSES_STREAMS,
           reach=32_000),
    *given("models.openai.from_wire.from_wire", lambda body: from_chat(body, CHAT), replies("chat")),
    *given("models.anthropic.from_wire.from_wire", lambda body: from_anthropic(body, ANTHROPIC), replies("anthropic")),
    *given("models.openai_responses.from_wire.from_wire", lambda body: from_responses(body, RESPONSES),
           replies("responses")),
    *given("models.openai.to_wire.encode_message", encoded(to_chat, CHAT), CONVERSATIONS),
    *given("models.anthropic.to_wire.encode_message", encoded(to_anthropic, ANTHROPIC), CONVERSATIONS),
    *given("models.openai_responses.to_wire.encode_message", encoded(to_responses, RESPONSES), CONVERSATIONS),
    *given("models.openai.to_wire.encode_message", lambda each: to_chat(each, CHAT), MESSAGES),
    *given("models.anthropic.to_wire.encode_message", lambda each: to_anthropic(each, ANTHROPIC), MESSAGES),
    *given("models.openai_responses.to_wire.encode_message", lambda each: to_responses(each, RESPONSES), MESSAGES),
    *given("models.openai.to_wire.encode_pictures", encoded(encode_pictures, CHAT), CONVERSATIONS),
    *given("models.http.fitting.encoded", steps, CONVERSATIONS),
    *over("models.http.fitting.is_object", is_object, JSON),
    *over("models.http.fitting.object_text", lambda text: object_text(text, ANTHROPIC.key_rule), (*TEXT, *JSON)),
    *over("models.http.fitting.fitted", lambda text: fitted(text, CHAT.id_rule), TEXT),
    *over("messages.arguments.text_left_out", lambda text: text_left_out(text + " null", NOTE.parameters), JSON),
    *given("http.sse.EventParser", parsed, SSE, reach=32_000),
    *over("models.http.failures.failure", lambda text: failure(None, {}, text, CHAT), (*TEXT, *JSON), **LOOKED_AT),
    *over("models.http.failures.failure_of", lambda text: failure_of({"message": text}, CHAT), TEXT),
    *over("models.http.failures.readable", lambda text: readable(text.encode("utf-8", "replace")), TEXT),
    *over("models.http.failures.redacted", redacted, TEXT),
    *over("models.http.failures.duration", duration, TEXT),
    *over("models.http.failures.retry_after", lambda text: retry_after({"retry-after": text}, 0.0), TEXT),
    *over("models.react_protocol.protocol.ReactParser", lambda text: reacted([text]),
          (*TEXT, *JSON, "actions", "action_gap", "action_arguments")),
    *in_letters("models.react_protocol.protocol.ReactParser", reacted),
    *in_letters("models.brackets.Brackets", bracketed),
    *over("models.react_protocol.protocol.observation", lambda text: observation(result(text), 2_000), (*TEXT, *JSON)),
    *given("models.react_protocol.protocol.prompt_of", lambda messages: prompt_of(
        ModelRequest(Transcript.of(*messages)), 2_000), CONVERSATIONS),
    *over("models.local.minilm.pieces", lambda text: wordpieces(text, 256), TEXT),
    *over("models.local.demo.answer", lambda text: answer(result(text)), (*TEXT, *JSON)),
    *in_letters("models.local.replies.ReplyReader", answered),
    *over("models.local.spans.Statements", lambda text: Statements(text).only({"note": text}, NOTE), (*TEXT, *JSON)),
    *over("middleware.secrets.Secrets.masked", SECRETS.masked, TEXT),
    *in_letters("middleware.secrets.Incoming", masked_pieces),
    *given("middleware.redaction.Redaction.deltas", filtered, DELTAS, reach=32_000),
    *[Case("middleware.redaction.Redaction.deltas", f"{shape} in letters", in_deltas(shape), filtered)
      for shape in IN_PIECES],
    *over("middleware.redaction.Redaction.masked", lambda text: REDACTION.masked(user(text)), TEXT),
    *over("middleware.redaction.Redaction.masked", lambda text: REDACTION.masked(result(text)), JSON),
    *given("middleware.redaction.Redaction.masked", REDACTION.masked, MESSAGES),
    *given("middleware.trim.Trim", lambda messages: Trim(last=10).view(messages), CONVERSATIONS),
    *over("memory.words.terms", terms, TEXT),
    *over("memory.similar.wording", wording, TEXT),
    *over("memory.similar.find_same", lambda text: find_same([record(text), record(text + "!")]), TEXT),
    *given("memory.similar.find_same", find_same, MEMORIES),
    *over("memory.words.query_words", query_words, TEXT),
    *over("memory.words.indexed_words", lambda text: indexed_words(record(text)), TEXT),
    *over("memory.search.pieces", query_pieces, TEXT),
    *over("memory.similar.TfIdf", weighted, TEXT),
    *over("memory.similar.tfidf", lambda text: tfidf([text], str.split), TEXT),
]  # fmt: skip

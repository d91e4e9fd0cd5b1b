"""Hand-made replies of the Messages API, and the streams in which the API would send them."""

import json
from typing import Any

from ziggurat import Message, ModelRequest, ModelResponse
from ziggurat.errors import ModelError
from ziggurat.http.sse import EventParser, ServerEvent
from ziggurat.messages import Transcript
from ziggurat.messages.message import PartDelta
from ziggurat.models.anthropic import Reader, to_wire
from ziggurat.models.http.dialect import DIALECTS

DIALECT = DIALECTS["anthropic"]
Json = dict[str, Any]


def body_of(*messages: Message, model: str = "claude-sonnet-4-5", stream: bool = False, **fields: Any) -> Json:
    """Write a request and read it back as plain JSON."""
    written = to_wire(ModelRequest(Transcript.of(*messages), **fields), model=model, stream=stream, dialect=DIALECT)
    read: Json = json.loads(written)
    return read


def reply(*content: Json, stop: str = "end_turn", usage: Json | None = None, **fields: Any) -> Json:
    """Make a plain reply."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 10, "output_tokens": 20},
        **fields,
    }


def compact(made: Any) -> str:
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"))


def written(made: Json) -> bytes:
    return compact(made).encode()


def event(kind: str, **fields: Any) -> ServerEvent:
    return ServerEvent(kind, compact({"type": kind, **fields}))


def events_of(made: Json, size: int = 5) -> list[ServerEvent]:
    """Return the events in which the API would stream a reply, its texts in pieces of `size` characters."""
    head = {**made, "content": [], "stop_reason": None, "usage": {**made["usage"], "output_tokens": 1}}
    found = [event("message_start", message=head), event("ping")]
    for index, block in enumerate(made["content"]):
        found += _block_events(index, block, size)
    end = {"stop_reason": made["stop_reason"], "stop_sequence": made["stop_sequence"]}
    return [
        *found,
        event("message_delta", delta=end, usage={"output_tokens": made["usage"]["output_tokens"]}),
        event("message_stop"),
    ]


def _block_events(index: int, block: Json, size: int) -> list[ServerEvent]:
    start, deltas = dict(block), list[Json]()
    if block["type"] == "text":
        start = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], size)]
        deltas += [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
    elif block["type"] == "thinking":
        start = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], size)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif "input" in block:
        start = {**block, "input": {}}
        arguments = compact(block["input"]) if block["input"] else ""
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(arguments, size)]]
    return [
        event("content_block_start", index=index, content_block=start),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def stream_of(made: Json, size: int = 5) -> bytes:
    """Return the bytes of the stream of a reply."""
    return b"".join(f"event: {each.event}\ndata: {each.data}\n\n".encode() for each in events_of(made, size))


def read_all(events: list[ServerEvent]) -> tuple[ModelResponse, list[PartDelta]]:
    reader = Reader(DIALECT)
    deltas = [delta for each in events for delta in reader.push(each)]
    return reader.finish(), deltas


def read_cut(body: bytes) -> ModelResponse | ModelError:
    """Read the bytes of a stream that may be cut off, as a transport would."""
    parser, reader = EventParser(), Reader(DIALECT)
    try:
        for each in [*parser.feed(body), *parser.close()]:
            reader.push(each)
        return reader.finish()
    except ModelError as error:
        return error


TEXT = {"type": "text", "text": "Grüße aus Köln 🏛️, alles klar."}
THINKING = {"type": "thinking", "thinking": "First this,\nthen that.", "signature": "EqQBCkYIBxgC+/="}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Köln", "days": [1, 2]}}
OTHER_CALL = {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "ziggurat"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://a.example", "encrypted_content": "x/y=="}],
}
CITED = {**TEXT, "citations": [{"type": "char_location", "cited_text": "a", "document_index": 0}]}

REPLIES = {
    "text": reply(TEXT),
    "parallel calls": reply(TEXT, CALL, OTHER_CALL, stop="tool_use"),
    "thinking": reply(THINKING, REDACTED, {**THINKING, "thinking": ""}, TEXT, CALL, stop="tool_use"),
    "server tools": reply(TEXT, SEARCH, FOUND, CITED, usage={"input_tokens": 3, "output_tokens": 4}),
    "stop sequence": reply(TEXT, stop="stop_sequence"),
}

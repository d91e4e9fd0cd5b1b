"""Hand-made replies and streams, as the API sends them."""

import json
from typing import Any

from ziggurat import Message, ModelRequest, ModelResponse, user
from ziggurat.events import Fold
from ziggurat.http.sse import EventParser
from ziggurat.messages import Transcript
from ziggurat.messages.message import PartDelta
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.openai_responses import Reader, from_wire, to_wire

DIALECT = DIALECTS["openai-responses"]
Json = dict[str, Any]


def message(text: str, id: str = "msg_1", **more: Any) -> Json:  # noqa: A002
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": content, **more}


def call(name: str, arguments: str, id: str = "call_1", **more: Any) -> Json:  # noqa: A002
    item = {"id": f"fc_{id}", "type": "function_call", "status": "completed", "call_id": id, "name": name}
    return {**item, "arguments": arguments, **more}


def reasoning(*summaries: str, id: str = "rs_1", encrypted: str | None = "gAAA==", **more: Any) -> Json:  # noqa: A002
    summary = [{"type": "summary_text", "text": text} for text in summaries]
    return {"id": id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted, **more}


def reply(*output: Json, **more: Any) -> Json:
    usage = {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 8},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 29,
    }
    fixed = {"id": "resp_1", "object": "response", "model": "gpt-5-mini-2025", "status": "completed", "error": None}
    return {**fixed, "incomplete_details": None, "output": list(output), "usage": usage, **more}


def read(body: Json) -> ModelResponse:
    return from_wire(json.dumps(body).encode(), DIALECT)


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def stream(body: Json, size: int = 4) -> bytes:
    """Return a reply as a stream of events, its texts split into pieces of `size` characters."""
    begun = {**body, "output": [], "status": "in_progress", "usage": None}
    events = [event("response.created", response=begun), event("response.in_progress", response=begun)]
    for place, item in enumerate(body["output"]):
        events += _item(item, place, size)
    end = "incomplete" if body["status"] == "incomplete" else "completed"
    return b"".join([*events, event(f"response.{end}", response=body)])


_EMPTY: Json = {"content": [], "summary": [], "arguments": ""}


def _item(item: Json, place: int, size: int) -> list[bytes]:
    at = {"item_id": item.get("id"), "output_index": place}
    begun = {**item, "status": "in_progress"} | {name: value for name, value in _EMPTY.items() if name in item}
    events = [event("response.output_item.added", output_index=place, item=begun)]
    for number, content in enumerate(item.get("content") or ()):
        kind = {"output_text": "output_text", "refusal": "refusal", "reasoning_text": "reasoning_text"}[content["type"]]
        events += _text(kind, content.get("text") or content.get("refusal"), size, **at, content_index=number)
    for number, summary in enumerate(item.get("summary") or ()):
        events += _text("reasoning_summary_text", summary["text"], size, **at, summary_index=number)
    if item["type"] == "function_call":
        events += _text("function_call_arguments", item["arguments"], size, **at)
    return [*events, event("response.output_item.done", output_index=place, item=item)]


def _text(kind: str, text: str, size: int, **at: Any) -> list[bytes]:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    whole = {"function_call_arguments": "arguments", "refusal": "refusal"}.get(kind, "text")
    deltas = [event(f"response.{kind}.delta", **at, delta=piece, obfuscation="x9") for piece in pieces]
    return [*deltas, event(f"response.{kind}.done", **at, **{whole: text})]


def played(data: bytes) -> tuple[ModelResponse, Message]:
    """Read a stream; return the response, and the message folded from its deltas."""
    parser, reader, fold = EventParser(), Reader(DIALECT), Fold()
    for each in [*parser.feed(data), *parser.close()]:
        for delta in reader.push(each):
            fold.push(delta)
    return reader.finish(), fold.message()


def pieces(data: bytes) -> list[PartDelta]:
    """Read a stream; return its deltas."""
    parser, reader = EventParser(), Reader(DIALECT)
    return [delta for each in parser.feed(data) for delta in reader.push(each)]


def written(*messages: Message, model: str = "gpt-5-mini", **request: Any) -> Json:
    """Return the request body."""
    asked = ModelRequest(Transcript.of(*(messages or (user("Hello"),))), **request)
    body: Json = json.loads(to_wire(asked, model=model, stream=False, dialect=DIALECT))
    return body

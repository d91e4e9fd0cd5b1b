"""Requests of the three wires, read into conversations, and what they mean, whichever way they are written."""

import json
from importlib import import_module
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from ziggurat import Image, Message, ModelRequest, Text, ToolResult, user
from ziggurat.messages import File, Transcript, assistant, system, tool_message
from ziggurat.messages.message import Part
from ziggurat.models.http.dialect import DIALECTS, Dialect

Json = dict[str, Any]

ROOMS = {"chat": "openai", "responses": "openai_responses", "messages": "anthropic"}
ORIGINAL = {"chat": "openai", "responses": "openai-responses", "messages": "anthropic"}
HOSTS = {urlsplit(each.base_url).netloc: each for each in DIALECTS.values() if each.wire == "openai"}
TOOL_LISTS = ("additional_tools", "tool_addition")
"""Declarations of further tools, which are not a part of a conversation."""


def dialect_of(endpoint: str, host: str) -> Dialect:
    """The dialect in which a host speaks a wire."""
    original = DIALECTS[ORIGINAL[endpoint]]
    return HOSTS.get(host, original) if endpoint == "chat" else original


def read(endpoint: str, host: str, request: Json) -> list[Message]:
    """The conversation of a request."""
    dialect = dialect_of(endpoint, host)
    if endpoint == "chat":
        return [_chat(each, dialect) for each in request["messages"]]
    if endpoint == "responses":
        return _responses(request, dialect)
    return _anthropic(request, dialect)


def write(endpoint: str, host: str, messages: list[Message]) -> Json:
    """The request that Ziggurat writes of a conversation."""
    to_wire = import_module(f"ziggurat.models.{ROOMS[endpoint]}.to_wire").to_wire
    request = ModelRequest(Transcript.of(*messages))
    body = to_wire(request, model="any", stream=False, dialect=dialect_of(endpoint, host))
    written: Json = json.loads(body)
    return written


def _reply(endpoint: str, dialect: Dialect, body: Json) -> tuple[Part, ...]:
    from_wire = import_module(f"ziggurat.models.{ROOMS[endpoint]}.from_wire").from_wire
    parts: tuple[Part, ...] = from_wire(json.dumps(body).encode(), dialect).message.parts
    return parts


def _chat(message: Json, dialect: Dialect) -> Message:
    role, content = message["role"], message.get("content")
    if role == "assistant":
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return Message("assistant", _reply("chat", dialect, {"choices": [choice]}), message.get("name"))
    if role == "tool":
        return tool_message(ToolResult(message["tool_call_id"], message.get("name") or "", _result(content)))
    if role in ("system", "developer"):
        return system(*_pieces(content))
    return Message("user", user(*_pieces(content)).parts, message.get("name"))


def _result(content: Any) -> Any:
    if content is None or isinstance(content, str):
        return content or ""
    pieces = _pieces(content)
    return pieces[0].text if len(pieces) == 1 and isinstance(pieces[0], Text) else tuple(pieces)


def _pieces(content: Any) -> list[Any]:
    if content is None or isinstance(content, str):
        return [Text(content or "")]
    return [each for piece in content for each in [_piece(piece)] if each is not None]


def _piece(piece: Json) -> Part | None:
    kind = piece.get("type", "")
    if "text" in piece:
        return Text(piece["text"])
    if "image" in kind:
        url = piece.get("image_url") or piece.get("source", {}).get("url") or "https://example.org/picture.png"
        return Image(url=url["url"] if isinstance(url, dict) else url)
    if kind in ("file", "input_file", "document", "document_url", "input_audio", "container_upload"):
        return File(data=b"%PDF", name="document.pdf", media_type="application/pdf")
    return None


def _responses(request: Json, dialect: Dialect) -> list[Message]:
    messages = [system(request["instructions"])] if request.get("instructions") else []
    for theirs, items in groupby(request["input"], _is_the_models):
        if theirs:
            output = [_output(each) for each in items]
            body = {"status": "completed", "output": output}
            messages.append(Message("assistant", _reply("responses", dialect, body)))
            continue
        for item in items:
            if item.get("type") == "function_call_output":
                messages.append(tool_message(ToolResult(item["call_id"], "", _result(item["output"]))))
            elif item.get("role") in ("system", "developer"):
                messages.append(system(*_pieces(item.get("content"))))
            else:
                messages.append(user(*_pieces(item.get("content"))))
    return messages


def _is_the_models(item: Json) -> bool:
    kind = item.get("type") or "message"
    if kind == "message" or item.get("role"):
        return bool(item["role"] == "assistant")
    return bool(kind != "function_call_output")


def _output(item: Json) -> Json:
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, str):
        content = [{"type": "output_text", "text": content, "annotations": []}]
    return {"type": "message", "status": "completed", **item, **({} if content is None else {"content": content})}


def _anthropic(request: Json, dialect: Dialect) -> list[Message]:
    messages = [system(*_pieces(request["system"]))] if request.get("system") else []
    for role, each in groupby(request["messages"], lambda message: message["role"]):
        blocks = [block for message in each for block in _blocks(message["content"])]
        if role == "assistant":
            body = {"role": "assistant", "content": blocks, "stop_reason": "end_turn"}
            messages.append(assistant(*_reply("messages", dialect, body)))
            continue
        for is_result, some in groupby(blocks, lambda block: block["type"] == "tool_result"):
            if is_result:
                messages += [tool_message(_answer(block)) for block in some]
            else:
                pieces = _pieces(list(some))
                messages.append(system(*pieces) if role == "system" else user(*pieces))
    return messages


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _answer(block: Json) -> ToolResult:
    error = "permanent" if block.get("is_error") else None
    return ToolResult(block["tool_use_id"], "", _result(block.get("content")), error)  # type: ignore[arg-type]


# -- what a request means, read without Ziggurat -----------------------------------------------------------------


def meaning(endpoint: str, request: Json) -> list[tuple[Any, ...]]:
    """What a request says, in order, blind to space and to how texts are cut, and without declarations of tools."""
    told: list[tuple[Any, ...]] = []
    for kind, *rest in _told(endpoint, request):
        if kind in ("system", "user", "said"):
            text, media = "".join(str(rest[0]).split()), rest[1]
            if told and told[-1][0] == kind:
                text, media = told[-1][1] + text, told[-1][2] + media
                told.pop()
            if text or media:
                told.append((kind, text, media))
        elif kind != "other" or rest[0] not in TOOL_LISTS:
            told.append((kind, *rest))
    return told


def _told(endpoint: str, request: Json) -> list[tuple[Any, ...]]:
    if endpoint == "chat":
        return [each for message in request["messages"] for each in _of_chat(message)]
    if endpoint == "responses":
        first = [("system", request["instructions"], 0)] if request.get("instructions") else []
        return first + [each for item in request["input"] for each in _of_item(item)]
    first = [("system", _text(request["system"]), 0)] if request.get("system") else []
    return first + [each for message in request["messages"] for each in _of_blocks(message)]


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(piece.get("text") or piece.get("refusal") or "") for piece in content)


def _media(content: Any) -> int:
    if content is None or isinstance(content, str):
        return 0
    return sum(_piece(piece) is not None and "text" not in piece for piece in content)


def _of_chat(message: Json) -> list[tuple[Any, ...]]:
    role, content = message["role"], message.get("content")
    if role == "tool":
        return [("result", message["tool_call_id"], _text(content))]
    if role != "assistant":
        return [("user" if role == "user" else "system", _text(content), _media(content))]
    calls = [each["function"] | {"id": each["id"]} for each in message.get("tool_calls") or []]
    said = [("said", _text(content) + (message.get("refusal") or ""), 0)]
    return said + [("call", each["id"], each["name"], _json(each["arguments"])) for each in calls]


def _of_item(item: Json) -> list[tuple[Any, ...]]:
    kind, content = item.get("type") or "message", item.get("content")
    if kind == "function_call":
        return [("call", item["call_id"], item["name"], _json(item["arguments"]))]
    if kind == "function_call_output":
        return [("result", item["call_id"], _text(item["output"]))]
    if kind == "reasoning":
        return [("thought", item.get("id") or "", item.get("encrypted_content"), _text(item.get("summary")))]
    if kind != "message":
        return [("other", kind, item.get("id"))]
    role = {"assistant": "said", "user": "user"}.get(item["role"], "system")
    return [(role, _text(content), _media(content))]


def _of_blocks(message: Json) -> list[tuple[Any, ...]]:
    told: list[tuple[Any, ...]] = []
    for block in _blocks(message["content"]):
        kind = block["type"]
        if kind == "tool_use":
            told.append(("call", block["id"], block["name"], block["input"]))
        elif kind == "tool_result":
            told.append(("result", block["tool_use_id"], _text(block.get("content")), bool(block.get("is_error"))))
        elif kind in ("thinking", "redacted_thinking"):
            told.append(("thought", block.get("signature"), block.get("thinking"), block.get("data")))
        elif kind == "text" or _piece(block) is not None:
            role = {"assistant": "said", "user": "user"}.get(message["role"], "system")
            told.append((role, block.get("text", ""), int(kind != "text")))
        else:
            told.append(("other", kind, json.dumps(block, sort_keys=True)))
    return told


def _json(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text

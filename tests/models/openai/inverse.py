"""A minimal server side of Chat Completions: reads messages back from a request."""

import base64
import json
from typing import Any

from ziggurat import Image, Message, Text, ToolCall, ToolResult
from ziggurat.messages import Audio, File, Thinking
from ziggurat.messages.message import Part, Role
from ziggurat.models.openai.from_wire import GOOGLE, detail_deltas


def messages_of(body: bytes | dict[str, Any]) -> list[Message]:
    """Return the messages of a request; results get their tool's name from their call."""
    read = json.loads(body) if isinstance(body, bytes) else body
    names: dict[str, str] = {}
    made: list[Message] = []
    for wire in read["messages"]:
        message = _message(wire, names)
        names.update({call.id: call.name for call in message.tool_calls})
        made.append(message)
    return made


def _message(wire: dict[str, Any], names: dict[str, str]) -> Message:
    role = wire["role"]
    if role == "tool":
        content = wire.get("content")
        text = content if isinstance(content, str) else tuple(_content(content))
        called = wire.get("tool_call_id", "")
        return Message("tool", (ToolResult(called, wire.get("name") or names.get(called, ""), text or ""),))
    if role == "assistant":
        return Message("assistant", tuple(_assistant(wire)), wire.get("name"))
    kind: Role = "system" if role in ("system", "developer") else "user"
    return Message(kind, tuple(_content(wire.get("content"))), wire.get("name"))


def _assistant(wire: dict[str, Any]) -> list[Part]:
    parts: list[Part] = [
        Thinking(each.text, each.signature, each.redacted, each.id)
        for each in detail_deltas(wire.get("reasoning_details"))
    ]
    thought = wire.get("reasoning_content") or wire.get("reasoning")
    if thought and not parts:
        parts.append(Thinking(thought))
    parts.extend(_content(wire.get("content")))
    for call in wire.get("tool_calls") or ():
        if "extra_content" in call:
            parts.append(Thinking("", call["extra_content"]["google"]["thought_signature"], None, GOOGLE))
        function = call["function"]
        parts.append(ToolCall(call["id"], function["name"], function["arguments"]))
    return parts


def _content(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_part(each) for each in content or ()]


def _part(part: dict[str, Any]) -> Part:
    kind = part.get("type")
    if kind == "image_url":
        image = part["image_url"]
        url, detail = (image, None) if isinstance(image, str) else (image["url"], image.get("detail"))
        if url.startswith("data:") and ";base64," in url:
            head, _, data = url.partition(";base64,")
            try:
                return Image(base64.b64decode(data, validate=True), None, head[5:], detail)
            except ValueError:
                return Image(None, url, "image/png", detail)
        return Image(None, url, "image/png", detail)
    if kind == "input_audio":
        return Audio(base64.b64decode(part["input_audio"]["data"]), None, f"audio/{part['input_audio']['format']}")
    if kind == "file":
        file = part["file"]
        if "file_id" in file:
            return File(id=file["file_id"])
        return _document(file["file_data"], file.get("filename"))
    if kind == "document_url":
        return _document(part["document_url"], None)
    if kind == "thinking":
        return Thinking("".join(each["text"] for each in part["thinking"]))
    return Text(part["text"])


def _document(url: str, name: str | None) -> File:
    head, encoded, data = url.partition(";base64,")
    try:
        if not encoded:
            return File(url=url, name=name)
        return File(data=base64.b64decode(data, validate=True), name=name, media_type=head[5:])
    except ValueError:
        return File(url=url, name=name)

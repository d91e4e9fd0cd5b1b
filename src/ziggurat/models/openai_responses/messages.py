"""Write messages as input items."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Audio, File, Image, Part, Text, Thinking, ToolCall, ToolResult
from ziggurat.models.openai_responses.items import is_ours, item_and_place

_encode = msgspec.json.Encoder().encode
_TYPES = {"application/pdf": "pdf", "text/plain": "txt", "text/markdown": "md", "application/json": "json"}


def encode_message(message: Message, system_role: str = "developer") -> bytes:
    """Write a message as items, separated by commas; empty if the API accepts none of it."""
    parts = message.parts
    if message.role == "assistant":
        items = _output(parts)
    else:
        items = [_result(part) for part in parts if isinstance(part, ToolResult)]
        content = [part for part in parts if not isinstance(part, (ToolResult, Thinking, ToolCall))]
        if content:
            role = system_role if message.role == "system" else "user"
            items.append({"role": role, "content": _content(content)})
    return _encode(items)[1:-1]


def _content(parts: Sequence[Part]) -> "str | list[dict[str, Any]]":
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_piece(part) for part in parts]


def _piece(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Image):
        return _image(part)
    if isinstance(part, File):
        return _file(part)
    if isinstance(part, Audio) and part.data is not None:
        sound = {"data": b64encode(part.data).decode(), "format": part.media_type.rpartition("/")[2]}
        return {"type": "input_audio", "input_audio": sound}
    raise _unsendable(part, "send its bytes as `data`")


def _image(part: Image) -> dict[str, Any]:
    url = part.url if part.data is None else _data_url(part.media_type, part.data)
    if url is None:
        raise _unsendable(part, "give it `data` or a `url`")
    image = {"type": "input_image", "image_url": url}
    return image if part.detail is None else {**image, "detail": part.detail}


def _file(part: File) -> dict[str, Any]:
    if part.data is not None:
        name = part.name or f"file.{_TYPES.get(part.media_type, 'bin')}"
        return {"type": "input_file", "filename": name, "file_data": _data_url(part.media_type, part.data)}
    if part.id is not None:
        return {"type": "input_file", "file_id": part.id}
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    raise _unsendable(part, "give it `data`, an `id` or a `url`")


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{b64encode(data).decode()}"


def _unsendable(part: Part, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"the Responses API does not accept this {type(part).__name__}: {remedy}")


def _result(part: ToolResult) -> dict[str, Any]:
    output = part.content if isinstance(part.content, str) else [_piece(each) for each in part.content]
    return {"type": "function_call_output", "call_id": part.id, "output": output}


def _output(parts: tuple[Part, ...]) -> list[Any]:
    """Return the original items of an assistant's message, in order and with their fields."""
    items: list[Any] = []
    beside: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, Text):
            items.append(_message_item(part.text, beside if beside.get("type") == "message" else {}))
            beside = {}
        elif isinstance(part, ToolCall):
            fields = beside if beside.get("type") == "function_call" else {}
            call = {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments or "{}"}
            items.append({**call, **fields})
            beside = {}
        elif isinstance(part, Thinking) and is_ours(part):
            if part.redacted is None:
                _think(part, items)
            elif (own := _own(part.redacted)).get("type") in ("message", "function_call"):
                beside = own
            else:
                items.append(Raw(part.redacted.encode()))
    return items


def _message_item(text: str, fields: dict[str, Any]) -> dict[str, Any]:
    if "id" not in fields:
        return {"role": "assistant", "content": text, **fields}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"role": "assistant", "status": "completed", "content": content, **fields}


def _own(written: str) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.json.decode(written))


def _think(part: Thinking, items: list[Any]) -> None:
    """Add a text to its reasoning item: a first text begins a new item, further texts must follow directly."""
    name, place = item_and_place(part.id or "")
    last = items[-1] if items else None
    if place != 0 and isinstance(last, dict) and _awaits_more(last, name):
        item = last
    else:
        item = {"type": "reasoning", "summary": []}
        if name is not None:
            item["id"] = name
        items.append(item)
    if part.text and place >= 0:
        item["summary"].append({"type": "summary_text", "text": part.text})
    elif part.text:
        item.setdefault("content", []).append({"type": "reasoning_text", "text": part.text})
    if part.signature is not None:
        item["encrypted_content"] = part.signature


def _awaits_more(item: dict[str, Any], name: str | None) -> bool:
    return item.get("type") == "reasoning" and item.get("id") == name and "encrypted_content" not in item

"""Write messages as content blocks of the Messages API."""

import re
from typing import Any

import msgspec
from msgspec import Raw

from ziggurat.core.errors import ModelError
from ziggurat.messages.limits import check_depth
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Audio, File, Image, Part, Text, Thinking, ToolCall, ToolResult
from ziggurat.models.anthropic.blocks import CALLER, OPAQUE

_encode = msgspec.json.Encoder().encode
_ID = re.compile(r"[A-Za-z0-9_-]+")
_NOT_ID = re.compile(r"[^A-Za-z0-9_-]")
_object = msgspec.json.Decoder(dict[str, Raw])


def encode_message(message: Message) -> bytes:
    """Write a message as content blocks separated by commas; empty if none of it can be sent."""
    return b",".join(map(_encode, blocks_of(message)))


def blocks_of(message: Message) -> list[Any]:
    """Return a message's content blocks, in order."""
    # Blank texts, thoughts from other providers, and thoughts at the end of a reply are left out, because the API
    # accepts none of them.
    blocks: list[Any] = []
    caller: Raw | None = None
    for part in message.parts:
        block = _block(part)
        if isinstance(part, Thinking) and part.id == CALLER:
            caller = block
            continue
        if caller is not None and isinstance(part, ToolCall):
            block["caller"] = caller
        caller = None
        if block is not None:
            blocks.append(block)
    if message.role == "assistant":
        while blocks and isinstance(blocks[-1], dict) and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            blocks.pop()
    return blocks


def _block(part: Part) -> Any:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if isinstance(part, ToolCall):
        return {"type": "tool_use", "id": _id(part.id), "name": part.name, "input": _input(part.arguments)}
    if isinstance(part, ToolResult):
        return _result(part)
    if isinstance(part, Thinking):
        return _thinking(part)
    return _media(part)


def _thinking(part: Thinking) -> Any:
    if part.id is not None:
        return Raw((part.redacted or "").encode()) if part.id.startswith(OPAQUE) else None
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    if part.signature is not None:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None


def _id(call_id: str) -> str:
    """Return an id with only the characters that the API allows; other providers' ids may have more."""
    return call_id if _ID.fullmatch(call_id) else _NOT_ID.sub("_", call_id) or "call"


def _input(arguments: str) -> Any:
    """Return arguments unchanged if they are an object; otherwise wrapped in one, as the API requires."""
    written = arguments or "{}"
    try:
        check_depth(written)
        _object.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return {"invalid_arguments": arguments}
    return Raw(written.encode())


def _result(part: ToolResult) -> dict[str, Any]:
    content: Any = part.content
    if not isinstance(content, str):
        content = [block for each in content if (block := _block(each)) is not None]
    block = {"type": "tool_result", "tool_use_id": _id(part.id), "content": content}
    if part.error is not None:
        block["is_error"] = True
    return block


def _media(part: Image | Audio | File) -> dict[str, Any]:
    if isinstance(part, Audio):
        raise ModelError("Anthropic's models take no audio; send its transcript as text", kind="invalid_request")
    picture = isinstance(part, Image) or part.media_type.startswith("image/")
    block = {"type": "image" if picture else "document", "source": _source(part, picture)}
    if isinstance(part, File) and part.name and not picture:
        block["title"] = part.name
    return block


def _source(part: Image | File, picture: bool) -> dict[str, Any]:
    if isinstance(part, File) and part.id is not None:
        return {"type": "file", "file_id": part.id}
    if part.data is not None:
        media = part.media_type
        if picture or media == "application/pdf":
            return {"type": "base64", "media_type": media, "data": part.data}
        return {"type": "text", "media_type": "text/plain", "data": _plain(part.data, media)}
    if not part.url:
        raise ModelError("a picture or document needs its data, a url or a file id", kind="invalid_request")
    if part.url.startswith("data:"):
        head, _, data = part.url[5:].partition(",")
        return {"type": "base64", "media_type": head.partition(";")[0] or part.media_type, "data": data}
    return {"type": "url", "url": part.url}


def _plain(data: bytes, media_type: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(
            f"Anthropic's models read PDF, text and pictures, not {media_type!r}; convert the document, or upload it "
            "and send its file id",
            kind="invalid_request",
        ) from None

"""Read a plain reply of the Messages API."""

import msgspec
from msgspec import Raw

from ziggurat.core.errors import ModelError
from ziggurat.messages.limits import check_depth
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import Part, Text, Thinking, ToolCall
from ziggurat.models.anthropic.blocks import (
    CALLER,
    KNOWN,
    OPAQUE,
    Block,
    MessageObject,
    caller_of,
    details,
    finish_of,
    is_present,
    read_block,
    usage_of,
)
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure

_reply = msgspec.json.Decoder(MessageObject, strict=False)
_cited = msgspec.json.Decoder(list[Raw])


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    """Read a plain reply of the Messages API."""
    try:
        check_depth(body)
        reply = _reply.decode(body)
        parts, citations = _parts(reply.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(dialect, str(error)) from error
    if reply.type == "error":
        raise failure(None, {}, body, dialect)
    if reply.content is None and reply.stop_reason is None:
        raise _unreadable(dialect, "it has neither content nor a reason to stop")
    within_call = bool(parts) and isinstance(parts[-1], ToolCall)
    finish = finish_of(reply.stop_reason, within_call=within_call)
    return ModelResponse(
        Message("assistant", tuple(parts)),
        finish,
        usage_of(reply.usage),
        reply.model or "",
        reply.id or "",
        details(reply, finish, citations),
    )


def _unreadable(dialect: Dialect, why: str) -> ModelError:
    return ModelError(f"{dialect.name} answered with something that is not a reply: {why}", kind="malformed")


def _parts(content: list[Raw] | str | None) -> tuple[list[Part], list[Raw]]:
    parts: list[Part] = []
    citations: list[Raw] = []
    if not isinstance(content, list):
        return ([Text(content)] if content else []), citations
    text: list[str] = []
    for written in content:
        block = read_block(written)
        if block.type == "text":
            if block.text:
                text.append(block.text)
            if is_present(block.citations):
                citations.extend(_cited.decode(block.citations))
            continue
        if text:
            parts.append(Text("".join(text)))
            text.clear()
        caller = caller_of(block)
        if caller is not None:
            parts.append(Thinking(redacted=caller, id=CALLER))
        if block.type not in KNOWN:
            parts.append(Thinking(redacted=bytes(written).decode(), id=OPAQUE + block.type))
        elif block.type != "thinking" or block.thinking or block.signature:
            parts.append(_part(block))
    if text:
        parts.append(Text("".join(text)))
    return parts, citations


def _part(block: Block) -> Part:
    if block.type == "tool_use":
        written = bytes(block.input).decode() if is_present(block.input) else "{}"
        return ToolCall(block.id or "", block.name or "", written)
    if block.type == "thinking":
        return Thinking(block.thinking or "", block.signature or None)
    return Thinking(redacted=block.data or "")

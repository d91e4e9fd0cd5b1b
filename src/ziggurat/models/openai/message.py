"""Write one message for Chat Completions; a message with several tool results becomes several."""

from typing import Any

import msgspec

from ziggurat.messages.message import Message
from ziggurat.messages.parts import Audio, File, Image, Text, Thinking, ToolCall, ToolResult
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.openai.media import media_part
from ziggurat.models.openai.quirks import SIGNING, THOUGHT_FIELDS
from ziggurat.models.openai.reasoning import GOOGLE, details_of

Wire = dict[str, Any]

_encode = msgspec.json.Encoder().encode


def to_json(value: Any) -> bytes:
    """Return JSON; lone surrogates, which UTF-8 cannot encode, become question marks."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_whole(value))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return [_whole(each) for each in value] if isinstance(value, (list, tuple)) else value


def encode_message(message: Message, dialect: Dialect) -> bytes:
    """Return a message as one or more JSON objects separated by commas, without brackets; empty if there are none."""
    role = message.role
    if role == "assistant":
        wires = [_assistant(message, dialect)]
    elif role == "tool" or any(isinstance(part, ToolResult) for part in message.parts):
        wires = _tool(message, dialect)
    else:
        wires = [_encode_plain(message, dialect)]
    return b",".join([to_json(wire) for wire in wires])


def _encode_plain(message: Message, dialect: Dialect) -> Wire:
    wire: Wire = {"role": dialect.system_role if message.role == "system" else message.role}
    wire["content"] = _content(message.parts, dialect)
    if message.name:
        wire["name"] = _name(message.name)
    return wire


def _name(name: str) -> str:
    """Return a name with only the characters that names may have."""
    return "".join([letter if letter.isalnum() or letter in "_-" else "_" for letter in name])[:64]


def _content(parts: tuple[Any, ...], dialect: Dialect) -> str | list[Wire]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    content: list[Wire] = []
    for part in parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, (Image, Audio, File)):
            content.append(media_part(part, dialect))
    return content or ""


def _tool(message: Message, dialect: Dialect) -> list[Wire]:
    wires: list[Wire] = []
    for part in message.parts:
        if not isinstance(part, ToolResult):
            continue
        wire: Wire = {"role": "tool", "tool_call_id": part.id}
        if dialect.tool_names:
            wire["name"] = part.name
        wire["content"] = _result(part, dialect)
        wires.append(wire)
    rest = tuple([part for part in message.parts if not isinstance(part, (ToolResult, ToolCall, Thinking))])
    if rest:
        wires.append(_encode_plain(Message("user", rest, message.name), dialect))
    return wires


def _result(part: ToolResult, dialect: Dialect) -> str | list[Wire]:
    content = part.content
    if isinstance(content, str):
        return content
    if dialect.tool_images or all(isinstance(each, Text) for each in content):
        return _content(content, dialect)
    return part.text or "(what it gave follows)"


def encode_pictures(message: Message, dialect: Dialect) -> bytes:
    """Return the user message with the media of tool results, for providers whose tool messages are text only."""
    if message.role != "tool" or dialect.tool_images:
        return b""
    content: list[Wire] = []
    for result in message.tool_results:
        if isinstance(result.content, str):
            continue
        media = [media_part(part, dialect) for part in result.content if not isinstance(part, Text)]
        if media:
            content.append({"type": "text", "text": f"What {result.name or 'the tool'} gave for the call {result.id}:"})
            content.extend(media)
    return to_json({"role": "user", "content": content}) if content else b""


def _assistant(message: Message, dialect: Dialect) -> Wire:
    wire: Wire = {"role": "assistant"}
    texts: list[str] = []
    thoughts: list[Thinking] = []
    calls: list[Wire] = []
    signature: str | None = None
    for part in message.parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, Thinking):
            if part.id == GOOGLE:
                signature = part.signature
            else:
                thoughts.append(part)
        elif isinstance(part, ToolCall):
            calls.append(_call(part, signature if dialect.name in SIGNING else None))
            signature = None
        elif isinstance(part, Audio) and part.url:
            wire["audio"] = {"id": part.url}
    _set_content(wire, "".join(texts), calls, dialect)
    if thoughts:
        _set_thoughts(wire, thoughts, dialect)
    if signature and dialect.name in SIGNING:
        wire["extra_content"] = {"google": {"thought_signature": signature}}
    if calls:
        wire["tool_calls"] = calls
    if message.name:
        wire["name"] = _name(message.name)
    return wire


def _call(part: ToolCall, signature: str | None) -> Wire:
    function = {"name": part.name, "arguments": part.arguments or "{}"}
    call: Wire = {"id": part.id, "type": "function", "function": function}
    if signature:
        call["extra_content"] = {"google": {"thought_signature": signature}}
    return call


def _set_content(wire: Wire, text: str, calls: list[Wire], dialect: Dialect) -> None:
    if text or not calls:
        if text or "audio" not in wire:
            wire["content"] = text
    elif dialect.empty_content != "absent":
        wire["content"] = None if dialect.empty_content == "null" else ""


def _set_thoughts(wire: Wire, thoughts: list[Thinking], dialect: Dialect) -> None:
    """Send thoughts back in the provider's field for them; providers without one refuse them."""
    field = THOUGHT_FIELDS.get(dialect.name, dialect.reasoning_reply)
    if field == "reasoning_details":
        details = details_of(thoughts)
        if details:
            wire[field] = details
            return
        field = "reasoning"
    if field == "content":
        spoken = wire.get("content")
        texts = [thought.text for thought in thoughts if thought.text]
        blocks = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in texts]
        if blocks:
            wire["content"] = [*blocks, {"type": "text", "text": spoken}] if spoken else blocks
    elif field:
        text = "".join([thought.text for thought in thoughts])
        if text:
            wire[field] = text

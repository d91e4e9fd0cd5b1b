"""Read the parts that plain and streamed replies share: text, images, audio, and the finish reason."""

import base64
import binascii
from typing import Any

import msgspec

from ziggurat.core.errors import ModelError
from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta, WholePart
from ziggurat.messages.message import Message
from ziggurat.messages.model import FinishReason
from ziggurat.messages.parts import Audio, Image, ToolCall

_FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "refusal": "refusal",
    "malformed_function_call": "malformed",
    "error": "error",
    "insufficient_system_resource": "error",
}


def finish_of(native: str | None, *, calls: bool, refused: bool, unsaid: FinishReason = "stop") -> FinishReason:
    """Return why a reply ended; `unsaid` if the provider gave no reason."""
    finish = _FINISHES.get(native.lower(), "other") if native else unsaid
    if finish in ("stop", "tool_calls", "other"):
        if calls:
            return "tool_calls"
        if refused:
            return "refusal"
        return "stop" if finish == "tool_calls" else finish
    return finish


def arguments_of(arguments: Any) -> str:
    """Return arguments as JSON text; text is returned unchanged."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def content_deltas(content: Any) -> list[PartDelta]:
    """Return the deltas of a message's content: a text, a list of parts, or (from a few servers) a JSON value."""
    if isinstance(content, str):
        return [TextDelta(content)] if content else []
    if not isinstance(content, list):
        return [] if content is None else [TextDelta(msgspec.json.encode(content).decode())]
    deltas: list[PartDelta] = []
    for part in content:
        deltas.extend(_part_deltas(part))
    return deltas


def _part_deltas(part: Any) -> list[PartDelta]:
    if isinstance(part, str):
        return [TextDelta(part)] if part else []
    if not isinstance(part, dict):
        return []
    kind = part.get("type")
    if kind == "thinking":
        thought = part.get("thinking")
        parts = thought if isinstance(thought, list) else ()
        texts = [thought] if isinstance(thought, str) else [_text(each) for each in parts]
        value = part.get("signature")
        signature = value if isinstance(value, str) and value else None
        return [ThinkingDelta("".join(texts), signature)] if any(texts) or signature else []
    if kind == "image_url":
        return media_deltas([part])
    text = _text(part)
    return [TextDelta(text)] if text else []


def _text(part: Any) -> str:
    text = part.get("text") or part.get("refusal") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def media_deltas(images: Any) -> list[PartDelta]:
    """Return the images of a reply as deltas."""
    deltas: list[PartDelta] = []
    for each in images if isinstance(images, list) else ():
        address = each.get("image_url") if isinstance(each, dict) else None
        url = address.get("url") if isinstance(address, dict) else address
        if isinstance(url, str):
            deltas.append(WholePart(_image(url)))
    return deltas


def _image(url: str) -> Image:
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return Image(url=url)
    return Image(data=_decoded(data), media_type=head[5:-7].partition(";")[0] or "image/png")


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError) as error:
        raise ModelError(f"the reply holds a picture or sound that is not base64: {error}", kind="malformed") from None


def part_of_audio(audio: Any, media_type: str) -> Audio | None:
    """Return the audio of a reply; its `url` is the provider's id, with which it is sent back."""
    data = audio.get("data") if isinstance(audio, dict) else None
    pieces = [data] if isinstance(data, str) else data
    if not isinstance(pieces, list) or not any(pieces) or not all(isinstance(piece, str) for piece in pieces):
        return None
    whole = all(len(piece) % 4 == 0 for piece in pieces)
    sound = b"".join(map(_decoded, pieces)) if whole else _decoded("".join(pieces))
    name = audio.get("id")
    return Audio(sound, name if isinstance(name, str) and name else None, media_type)


def mark_cut_calls(message: Message, finish: FinishReason) -> Message:
    """Return a message in which a call cut off before its arguments cannot pass for a call without arguments."""
    if finish in ("stop", "tool_calls") or not any(call.arguments == "" for call in message.tool_calls):
        return message
    parts = [
        msgspec.structs.replace(part, arguments="{") if isinstance(part, ToolCall) and part.arguments == "" else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))

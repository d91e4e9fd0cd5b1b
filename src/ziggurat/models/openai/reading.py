"""What plain and streamed replies have in common: texts, pictures, sound, why it stopped, errors within a reply."""

__all__ = ["arguments_of", "content_deltas", "finish_of", "media_deltas", "part_of_audio", "raise_failure"]

import base64
import binascii
from typing import Any, NoReturn

import msgspec

from ziggurat.core.errors import ContextOverflow, ModelError, ModelErrorKind
from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta, WholePart
from ziggurat.messages.model import FinishReason
from ziggurat.messages.parts import Audio, Image

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

_OVERFLOWS = ("context_length", "context length", "context window", "maximum context", "too_many_prompt_tokens")


def finish_of(native: str | None, *, calls: bool, refused: bool, unsaid: FinishReason = "stop") -> FinishReason:
    """Return why a reply ended; `unsaid` where the provider did not tell."""
    finish = _FINISHES.get(native.lower(), "other") if native else unsaid
    if finish in ("stop", "tool_calls", "other"):
        if calls:
            return "tool_calls"
        if refused:
            return "refusal"
        return "stop" if finish == "tool_calls" else finish
    return finish


def arguments_of(arguments: Any) -> str:
    """Return arguments as JSON text, exactly as they came where they are text."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def content_deltas(content: Any) -> list[PartDelta]:
    """Return what stands in a message's content: a text, a list of parts, or (a few servers) the value of the JSON."""
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
        texts = [thought] if isinstance(thought, str) else [_text(each) for each in thought or ()]
        signature = part.get("signature")
        return [ThinkingDelta("".join(texts), signature if isinstance(signature, str) else None)]
    if kind == "image_url":
        return media_deltas([part])
    text = _text(part)
    return [TextDelta(text)] if text else []


def _text(part: Any) -> str:
    text = part.get("text") or part.get("refusal") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def media_deltas(images: Any) -> list[PartDelta]:
    """Return the pictures of a reply."""
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
    """Return the sound of a reply; its `url` is the provider's id, by which it is handed back."""
    if not isinstance(audio, dict) or not isinstance(audio.get("data"), str) or not audio["data"]:
        return None
    name = audio.get("id")
    return Audio(_decoded(audio["data"]), name if isinstance(name, str) and name else None, media_type)


def raise_failure(error: Any, status: int | None = None) -> NoReturn:
    """Raise the error that a server put into a reply it had begun well.

    Raises:
        ContextOverflow: the conversation is too long.
        ModelError: any other, of the kind its code says.
    """
    facts = error if isinstance(error, dict) else {}
    inner = facts.get("error")
    if isinstance(inner, dict):
        facts = inner
    message = facts.get("message") or facts.get("detail")
    text = message if isinstance(message, str) else str(error)
    words = f"{facts.get('code')} {facts.get('type')} {text}".lower()
    if any(word in words for word in _OVERFLOWS):
        raise ContextOverflow(f"the provider broke off its reply: {text}", status=status)
    raise ModelError(f"the provider broke off its reply: {text}", kind=_kind(facts, words), status=status)


_KINDS: tuple[tuple[str, ModelErrorKind], ...] = (
    ("rate_limit", "rate_limited"),
    ("rate limit", "rate_limited"),
    ("quota", "rate_limited"),
    ("overload", "overloaded"),
    ("capacity", "overloaded"),
    ("content_filter", "content_filter"),
    ("moderation", "content_filter"),
    ("timeout", "timeout"),
    ("invalid_api_key", "authentication"),
    ("authentication", "authentication"),
    ("permission", "permission"),
    ("not_found", "not_found"),
    ("invalid_request", "invalid_request"),
    ("bad_request", "invalid_request"),
    ("server_error", "server"),
    ("internal", "server"),
)

_CODES: dict[int, ModelErrorKind] = {
    400: "invalid_request",
    401: "authentication",
    403: "permission",
    404: "not_found",
    408: "timeout",
    422: "invalid_request",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}


def _kind(facts: dict[str, Any], words: str) -> ModelErrorKind:
    for word, kind in _KINDS:
        if word in words:
            return kind
    for name in ("code", "status", "status_code"):
        code = facts.get(name)
        number = int(code) if isinstance(code, (int, str)) and str(code).isdecimal() else 0
        if number in _CODES or number >= 500:
            return _CODES.get(number, "server")
    return "server"

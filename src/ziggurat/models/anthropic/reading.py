"""The JSON of replies of the Messages API: blocks, finish reasons, usage, and further fields."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.models.http.stated import count, part_of

OPAQUE = "anthropic:"
"""The prefix of the ids of opaque thoughts: provider-specific JSON, kept in `redacted` to be sent back."""

CALLER = OPAQUE + "caller"
"""The id of an opaque thought that names the provider's code that made the next tool call."""

NOTHING = Raw()
"""The value of a missing field."""

KNOWN = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""The types of blocks that become parts; all others are opaque."""


class Block(Struct, gc=False):
    """One block of a reply's content; which fields there are depends on its type."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NOTHING
    citations: Raw = NOTHING
    caller: Raw = NOTHING


class _Kind(Struct, gc=False):
    type: str = ""


_block = msgspec.json.Decoder(Block, strict=False)
_kind = msgspec.json.Decoder(_Kind)


def is_present(value: Raw) -> bool:
    return bytes(value) not in (b"", b"null")


def read_block(block: Raw) -> Block:
    """Read a block; of an unknown block that does not fit, only its type."""
    try:
        return _block.decode(block)
    except msgspec.ValidationError:
        kind = _kind.decode(block).type
        if kind in KNOWN:
            raise
        return Block(kind)


def caller_of(block: Block) -> str | None:
    """Return the caller of a tool call as JSON; None if it was the model itself."""
    if block.type != "tool_use" or not is_present(block.caller):
        return None
    try:
        direct = _kind.decode(block.caller).type == "direct"
    except msgspec.ValidationError:
        return None
    return None if direct else bytes(block.caller).decode()


class MessageObject(Struct, gc=False):
    """A whole reply, or the head of a streamed one."""

    type: str | None = None
    id: str | None = None
    model: str | None = None
    content: list[Raw] | str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Any = None
    stop_details: Raw = NOTHING
    container: Raw = NOTHING
    context_management: Raw = NOTHING


_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "pause_turn": "paused",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_PLAIN = frozenset({"end_turn", "tool_use", "max_tokens"})
CUT = "your last reply was cut at its length limit within a tool call, which was not run; make the call shorter"


def finish_of(stop_reason: str | None, *, within_call: bool) -> FinishReason:
    finish = _FINISH.get(stop_reason or "", "other")
    return "malformed" if finish == "length" and within_call else finish


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return the usage with cached tokens included in the input, which the API's own figure excludes."""
    written, read = usage.get("cache_creation_input_tokens"), usage.get("cache_read_input_tokens")
    parts = [count(usage.get("input_tokens")), count(written or 0), count(read or 0)]
    known = [each for each in parts if each is not None]
    return Usage(
        sum(known) if len(known) == len(parts) else None,
        count(usage.get("output_tokens")),
        count(read),
        count(written),
        count(part_of(usage, "output_tokens_details").get("thinking_tokens")),
        1,
    )


def details(reply: MessageObject, finish: FinishReason, citations: list[Raw]) -> dict[str, Any] | None:
    """Return further fields of a reply for the response's `raw`, None if there are none."""
    raw: dict[str, Any] = {}
    if reply.stop_reason is not None and reply.stop_reason not in _PLAIN:
        raw["stop_reason"] = reply.stop_reason
    if reply.stop_sequence is not None:
        raw["stop_sequence"] = reply.stop_sequence
    if finish == "malformed":
        raw["stop_reason"] = reply.stop_reason
        raw["malformed"] = CUT
    for name in ("stop_details", "container", "context_management"):
        value: Raw = getattr(reply, name)
        if is_present(value):
            raw[name] = _plain(value)
    if citations:
        raw["citations"] = [_plain(each) for each in citations]
    return raw or None


def _plain(value: Raw) -> Any:
    """Return a field as plain values, or as text if it cannot be decoded (such as a number out of range)."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(value).decode("utf-8", "replace")

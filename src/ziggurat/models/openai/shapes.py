"""The JSON of Chat Completions replies: only the fields that are read, with tolerant types."""

import json
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ziggurat.messages.limits import check_depth

T = TypeVar("T")

Count = int | float | None


class FunctionPiece(Struct, gc=False):
    """A name and arguments; arguments are text, but some servers send an object."""

    name: str | None = None
    arguments: Any = None
    input: str | None = None


class ToolPiece(Struct, gc=False):
    index: int | None = None
    id: str | int | None = None
    function: FunctionPiece | None = None
    custom: FunctionPiece | None = None
    extra_content: Any = None


class Details(Struct, gc=False):
    cached_tokens: Count = None
    cache_write_tokens: Count = None
    audio_tokens: Count = None
    reasoning_tokens: Count = None


class UsageShape(Struct, gc=False):
    """Usage, with the fields in which various dialects report cached tokens."""

    prompt_tokens: Count = None
    completion_tokens: Count = None
    total_tokens: Count = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None
    prompt_cache_hit_tokens: Count = None
    num_cached_tokens: Count = None
    cached_tokens: Count = None
    cache_read_input_tokens: Count = None
    cache_creation_input_tokens: Count = None
    reasoning_tokens: Count = None
    cost: Any = None


class ChunkDelta(Struct, gc=False):
    role: Any = None
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[ToolPiece] | None = None
    refusal: str | None = None
    reasoning_details: Any = None
    function_call: FunctionPiece | None = None
    audio: Any = None
    images: Any = None
    annotations: Any = None
    extra_content: Any = None


ReplyMessage = ChunkDelta
"""A whole message has the same fields as its chunks."""


class _AnyChoice(Struct, gc=False):
    """The common fields of chunk choices and whole choices; only the first choice is read."""

    index: int | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    error: Any = None


class ChunkChoice(_AnyChoice, gc=False):
    delta: ChunkDelta | None = None


class ReplyChoice(_AnyChoice, gc=False):
    message: ReplyMessage | None = None
    logprobs: Any = None


class _Envelope(Struct, gc=False):
    """The common fields around choices, streamed or not."""

    id: str | int | None = None
    model: str | None = None
    usage: UsageShape | None = None
    error: Any = None
    object: str | None = None
    message: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None
    provider: Any = None
    citations: Any = None
    search_results: Any = None


class Chunk(_Envelope, gc=False):
    choices: list[ChunkChoice] | None = None


class ChatCompletion(_Envelope, gc=False):
    choices: list[ReplyChoice] | None = None


def name_of(identity: str | int | None) -> str:
    """Return an id as text; empty for none."""
    return identity if isinstance(identity, str) else "" if identity is None else str(identity)


def read(decoder: "msgspec.json.Decoder[T]", data: bytes | str) -> T:
    """Decode a reply or an event, even with lone surrogates, NaN or raw control characters."""
    check_depth(data)
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        loose = json.loads(data, strict=False)
        return msgspec.convert(_whole(loose), decoder.type)
    except (RecursionError, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from None


def _whole(value: Any) -> Any:
    """Return a value with lone surrogates replaced in its texts, so that they can be encoded."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value

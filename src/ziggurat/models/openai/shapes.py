"""The JSON of Chat Completions replies: only the fields that are read, with tolerant types."""

from typing import Any

from msgspec import Struct

from ziggurat.models.http.stated import usage_as


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
    cached_tokens: Any = None
    cache_write_tokens: Any = None
    audio_tokens: Any = None
    reasoning_tokens: Any = None


class UsageShape(Struct, gc=False):
    """Usage, with the fields in which various dialects report cached tokens."""

    prompt_tokens: Any = None
    completion_tokens: Any = None
    total_tokens: Any = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None
    prompt_cache_hit_tokens: Any = None
    num_cached_tokens: Any = None
    cached_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    reasoning_tokens: Any = None
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
    usage: Any = None
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


def usage_shape(usage: object) -> UsageShape | None:
    """Return what a reply states of its usage; None for nothing that can be read."""
    return usage_as(UsageShape, usage)

"""The data types of the formats: requests read, replies to be written, and the JSON of both."""

from typing import Any, Literal

from msgspec import Struct

from ziggurat.messages.usage import Usage

Wire = Literal["chat", "responses", "messages"]
"""The format of a request: Chat Completions, Responses, or Anthropic Messages."""

Json = dict[str, Any]

_PATHS: dict[str, Wire] = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}

ChunkPart = Literal["start", "delta", "finish", "usage", "done", "error", "ping", "body"]


def wire_of(path: str) -> Wire | None:
    """Return the format that the path of a request selects; None if it selects none."""
    return next((wire for end, wire in _PATHS.items() if path.endswith(end)), None)


class ResponseChunk(Struct, frozen=True):
    """One event of a stream, or the whole body of a plain reply."""

    data: Json | str
    event: str = ""
    part: ChunkPart = "delta"


class ApprovalResponse(Struct, frozen=True):
    """What a client decides on a call that a person must approve."""

    id: str
    approve: bool
    reason: str = ""


class ReplyHead(Struct, frozen=True):
    """What is known of a reply before its first piece."""

    id: str
    model: str
    body: Json
    created: int = 1_700_000_000
    refused: bool = False
    usage: Usage = Usage()

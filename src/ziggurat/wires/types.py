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
    """One event of a stream, or the whole body of a plain reply.

    Attributes:
        data: Encoded as JSON; a text is sent as it is.
        event: The name of the event; empty for none.
        part: Its purpose.
    """

    data: Json | str
    event: str = ""
    part: ChunkPart = "delta"


class ApprovalResponse(Struct, frozen=True):
    """What a client decides on a call that a person must approve.

    Attributes:
        id: The id of the request to approve it.
        approve: Whether it is approved.
        reason: Why, if the client says so.
    """

    id: str
    approve: bool
    reason: str = ""


class ReplyHead(Struct, frozen=True):
    """What is known of a reply before its first piece.

    Attributes:
        id: The suffix of the ids in the reply.
        model: The model name to report.
        body: The request.
        created: When it was created, in whole POSIX seconds.
        refused: Whether the model refuses to answer, so that its text says why.
        usage: The token usage, as far as it is known.
    """

    id: str
    model: str
    body: Json
    created: int = 1_700_000_000
    refused: bool = False
    usage: Usage = Usage()

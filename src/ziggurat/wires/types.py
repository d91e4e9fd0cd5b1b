"""The data types of the formats: requests read, replies to be written, what a reply shows of the server, and JSON."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Literal

from msgspec import Struct

from ziggurat.core.errors import ModelError
from ziggurat.messages.message import Fold, Message, Part, PartDelta, ToolResult, refolded
from ziggurat.messages.usage import Usage

Wire = Literal["chat", "responses", "messages"]
"""The format of a request: Chat Completions, Responses, or Anthropic Messages."""

Json = dict[str, Any]

_PATHS: dict[str, Wire] = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}

ChunkPart = Literal["start", "delta", "finish", "usage", "done", "error", "ping", "body"]


def wire_of(path: str) -> Wire | None:
    return next((wire for end, wire in _PATHS.items() if path.endswith(end)), None)


class ResponseChunk(Struct, frozen=True):
    """One event of a stream, or the whole body of a plain reply."""

    data: Json | str
    event: str = ""
    part: ChunkPart = "delta"


class ApprovalResponse(Struct, frozen=True):
    id: str
    approve: bool
    reason: str = ""


class ReplyHead(Struct, frozen=True):
    id: str
    model: str
    body: Json
    created: int = 1_700_000_000
    refused: bool = False
    usage: Usage = Usage()


class ServerCall(Struct, frozen=True):
    """A call of a tool that runs on the server; in a stream it comes when it begins, and again when it has ended."""

    path: str
    name: str
    arguments: str
    server: str
    approval: str | None = None
    result: ToolResult | None = None


class ApprovalRequest(Struct, frozen=True):
    id: str
    name: str
    arguments: str
    server: str


ServerItem = ServerCall | ApprovalRequest  # what a reply has besides the parts of a message
ReplyPiece = PartDelta | ServerItem  # any piece of a reply of a server
ReplyPart = Part | ServerItem  # any part of a reply of a server


class ReplyParts:
    """Joins the pieces of a reply to its parts, as `Fold` does for a message."""

    def __init__(self) -> None:
        self._parts: list[Fold | ServerItem] = []
        self._calls: dict[str, int] = {}

    async def say(self, piece: ReplyPiece) -> None:
        if isinstance(piece, ServerCall) and piece.path in self._calls:
            self._parts[self._calls[piece.path]] = piece
        elif isinstance(piece, ServerItem):
            if isinstance(piece, ServerCall):
                self._calls[piece.path] = len(self._parts)
            self._parts.append(piece)
        else:
            last = self._parts[-1] if self._parts else None
            if not isinstance(last, Fold):
                last = Fold()
                self._parts.append(last)
            last.push(piece)

    def parts(self) -> list[ReplyPart]:
        wholes = (each.message().parts if isinstance(each, Fold) else (each,) for each in self._parts)
        return [part for whole in wholes for part in whole]


def message_of(parts: Iterable[ReplyPart]) -> Message:
    return refolded(Message("assistant", tuple(part for part in parts if not isinstance(part, ServerItem))))


# -- errors ------------------------------------------------------------------------------------------------------------

_STATUS = {
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "invalid_request": 400,
    "context_overflow": 400,
    "content_filter": 400,
    "rate_limited": 429,
    "overloaded": 503,
    "timeout": 504,
    "malformed": 502,
}

_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}

_OPENAI = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", None),
    422: ("invalid_request_error", None),
    429: ("requests", "rate_limit_exceeded"),
}


def status_of(error: Exception) -> int:
    """Return the HTTP status for an error of a script."""
    if isinstance(error, ModelError):
        return error.status or _STATUS.get(error.kind, 500)
    return 504 if isinstance(error, TimeoutError) else 500


def error_body(
    wire: Wire | None, status: int, message: str = "", code: str | None = None, *, request_id: str | None = None
) -> Json:
    """Return the body of an error as the provider writes it; `code` replaces its kind of error."""
    if not message:
        message = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Overloaded"
    if wire == "messages":
        kind = code or _ANTHROPIC.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
    kind, known = _OPENAI.get(status, ("server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code or known}}


def error_frame(wire: Wire | None, status: int, message: str = "", code: str | None = None) -> ResponseChunk:
    body = error_body(wire, status, message, code)
    if wire == "messages":
        return ResponseChunk({"type": "error", "error": body["error"]}, "error", "error")
    if wire == "responses":
        fields = body["error"]
        code = code or fields["code"] or fields["type"]
        event = {"type": "error", "code": code, "message": fields["message"], "param": None, "sequence_number": 0}
        return ResponseChunk(event, "error", "error")
    return ResponseChunk(body, "", "error")

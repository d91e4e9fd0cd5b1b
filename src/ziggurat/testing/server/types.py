"""The data types of the fake provider: requests received, replies, answers sent."""

from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ziggurat.messages.delta import PartDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.wires.errors import error_body
from ziggurat.wires.types import Wire

Headers = tuple[tuple[str, str], ...]
"""Names and values in the order they are sent; a name may occur twice."""

_SECRET = ("authorization", "key", "cookie", "token", "secret")


class Wait(Struct, frozen=True):
    seconds: float | None = None


Piece = bytes | Wait
"""A part of a body: bytes that are sent together, or a pause."""


class ReceivedRequest(Struct, frozen=True):
    """A request as the server saw it. Its repr shows no header that may hold a key, and no query.

    Attributes:
        number: Its number, from 1.
        method: The HTTP method, such as ``"POST"``.
        path: The path with the query, as received.
        headers: The headers; names in lowercase.
        body: The body, as received.
        wire: The format that the path selects; None for any other path.
    """

    number: int
    method: str
    path: str
    headers: Headers = ()
    body: bytes = b""
    wire: Wire | None = None

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def json(self) -> Any:
        """The body parsed as JSON.

        Raises:
            msgspec.DecodeError: it is not JSON.
        """
        return msgspec.json.decode(self.body)

    @property
    def stream(self) -> bool:
        """Whether it requests a stream."""
        try:
            body = self.json
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False
        return isinstance(body, dict) and body.get("stream") is True

    def __repr__(self) -> str:
        headers = {key: "..." if any(word in key for word in _SECRET) else value for key, value in self.headers}
        path = urlsplit(self.path).path
        return f"ReceivedRequest({self.number}, {self.method} {path}, {headers}, {len(self.body)} bytes)"


class ReplyContent(Struct, frozen=True):
    pieces: tuple[PartDelta | Wait, ...]
    finish: FinishReason = "stop"
    usage: Usage = Usage()
    model: str = "scripted"
    id: str = "1"
    error: Exception | None = None


Framing = Literal["length", "chunked", "close"]
"""How the client knows where the body ends."""

Ending = Literal["keep", "close", "cut", "reset", "stale", "drop_next"]
"""What happens to the connection: kept open; closed after a complete body; closed with the end of the body missing;
reset; closed although it was announced as kept; closed when the next request arrives."""


class HttpResponse(Struct, frozen=True):
    status: int = 200
    headers: Headers = ()
    pieces: tuple[Piece, ...] = ()
    framing: Framing = "length"
    ending: Ending = "keep"
    length: int | None = None
    head: tuple[Piece, ...] | None = None

    @property
    def body(self) -> bytes:
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))

    @property
    def size(self) -> int:
        return sum(len(piece) for piece in self.pieces if isinstance(piece, bytes))


def error_answer(
    wire: Wire | None, status: int, message: str = "", *, code: str | None = None, headers: Headers = ()
) -> HttpResponse:
    body = msgspec.json.encode(error_body(wire, status, message, code, request_id="req_fake"))
    return HttpResponse(status, (("content-type", "application/json"), *headers), (body,))

"""The data of the fake provider: requests received, replies given, answers sent."""

__all__ = ["Answer", "Ending", "Frame", "Framing", "Headers", "Json", "Part", "Piece", "Said", "Seen", "Wait", "Wire"]

from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ziggurat.messages.delta import PartDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage

Wire = Literal["chat", "responses", "messages"]
"""Which of the three formats a request speaks: Chat Completions, Responses, or Anthropic Messages."""

Headers = tuple[tuple[str, str], ...]
"""Names and values in the order they travel; a name may come twice."""

Json = dict[str, Any]

_SECRET = ("authorization", "key", "cookie", "token", "secret")


class Wait(Struct, frozen=True):
    """A place where sending rests.

    Attributes:
        seconds: How long, by the server's clock; 0 for one turn of the event loop; None until `release()`.
    """

    seconds: float | None = None


Piece = bytes | Wait
"""What a body is sent as: some bytes at a time, and rests between."""


class Seen(Struct, frozen=True):
    """A request as the server saw it. Its repr shows no header that may hold a key, and no query.

    Attributes:
        number: Which request it is, from 1.
        method: Such as ``"POST"``.
        path: With the query, as it was sent.
        headers: Names in lowercase.
        body: As it was sent.
        wire: The format it speaks, by its path; None for any other path.
    """

    number: int
    method: str
    path: str
    headers: Headers = ()
    body: bytes = b""
    wire: Wire | None = None

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None; of several with this name the first."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def json(self) -> Any:
        """The body read as JSON.

        Raises:
            msgspec.DecodeError: it is not JSON.
        """
        return msgspec.json.decode(self.body)

    @property
    def stream(self) -> bool:
        """Whether it asks for a stream."""
        try:
            body = self.json
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False
        return isinstance(body, dict) and body.get("stream") is True

    def __repr__(self) -> str:
        shown = {key: "..." if any(word in key for word in _SECRET) else value for key, value in self.headers}
        path = urlsplit(self.path).path
        return f"Seen({self.number}, {self.method} {path}, {shown}, {len(self.body)} bytes)"


class Said(Struct, frozen=True):
    """A reply in our own nouns, before it is written in the format of a provider.

    Attributes:
        pieces: What is said, in order, with rests between.
        finish: Why it ends.
        usage: What it costs.
        model: The name it is said under.
        id: What the ids in the reply end with.
        error: What goes wrong after the pieces; None for a reply that ends well.
    """

    pieces: tuple[PartDelta | Wait, ...]
    finish: FinishReason = "stop"
    usage: Usage = Usage()
    model: str = "scripted"
    id: str = "1"
    error: Exception | None = None


Part = Literal["start", "delta", "finish", "usage", "done", "error", "ping", "body"]


class Frame(Struct, frozen=True):
    """One event of a stream, or the whole body of a plain reply.

    Attributes:
        data: What is encoded as JSON; text is sent as it is.
        event: The name of the event; empty for none.
        part: What it is for.
    """

    data: Json | str
    event: str = ""
    part: Part = "delta"


Framing = Literal["length", "chunked", "close"]
"""How the other side knows where the body ends."""

Ending = Literal["keep", "close", "cut", "reset", "stale", "drop_next"]
"""What becomes of the connection: kept; closed after a whole body; closed with the body's end missing; reset;
closed although it was said to be kept; closed when the next request comes."""


class Answer(Struct, frozen=True):
    """What goes out.

    Attributes:
        status: The HTTP status.
        headers: All but those that say where the body ends.
        pieces: The body.
        framing: How its end is told.
        ending: What becomes of the connection afterwards.
        length: The Content-Length to claim; None for the true one.
        head: Bytes sent in place of the status line and headers; None for those.
        head_pace: Seconds between the bytes of the head; 0 to send it at once.
        before: Bytes sent ahead of the head.
    """

    status: int = 200
    headers: Headers = ()
    pieces: tuple[Piece, ...] = ()
    framing: Framing = "length"
    ending: Ending = "keep"
    length: int | None = None
    head: bytes | None = None
    head_pace: float | None = 0.0
    before: bytes = b""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))

    @property
    def size(self) -> int:
        """The length of the body in bytes."""
        return sum(len(piece) for piece in self.pieces if isinstance(piece, bytes))

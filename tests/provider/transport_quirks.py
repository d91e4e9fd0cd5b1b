"""Quirks of the connection: cut, stalled, reset, fragmented, closed at the wrong time."""

from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from tests.provider.catalogue import quirk_maker
from tests.provider.frames import on_lines
from ziggurat import fake_provider
from ziggurat.testing.server.loopback import HttpResponse, Piece, ReceivedRequest, Wait, head_of
from ziggurat.testing.server.quirk import Quirk, split_at

_SIZES = (1, 2, 3, 5, 8, 13, 64, 512)

cut = quirk_maker("cut", good="raises an interrupted-stream error with the partial reply; runs none of its tools.")(
    fake_provider.cut
)
stall = quirk_maker("slow", good="gives up after its idle timeout, long before the total one.")(fake_provider.stall)


def _split(pieces: Sequence[Piece], places: Sequence[int]) -> tuple[Piece, ...]:
    """Split a body at several bytes, with a turn of the event loop at each."""
    rest = tuple(pieces)
    done = 0
    parts: list[Piece] = []
    for place in sorted(set(places)):
        before, rest = split_at(rest, place - done)
        parts += [*before, Wait(0)]
        done = place
    return (*parts, *rest)


@quirk_maker("slow")
def pace(seconds: float) -> Quirk:
    """Waits this many seconds before each event of a stream.

    Good client: keeps waiting, as data arrives within the idle timeout.
    """

    def lines(lines: list[Piece], seen: ReceivedRequest) -> list[Piece]:
        return [piece for line in lines for piece in (Wait(seconds), line)]

    return on_lines(lines)


@quirk_maker("slow")
def slow_headers(seconds: float | None = None) -> Quirk:
    """Sends the status line and headers byte by byte with this many seconds between; None: until `release()`.

    Good client: gives up after its timeout, although data keeps arriving.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        return replace(
            answer, head=tuple(piece for byte in head_of(answer) for piece in (bytes([byte]), Wait(seconds)))
        )

    return Quirk(answer=answer, breaks=True)


@quirk_maker("connection")
def reset(at_byte: int = 0) -> Quirk:
    """Resets the connection (RST) after this many bytes of the body.

    Good client: raises a typed connection error; for a stream with the partial reply.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        head = split_at(answer.pieces, at_byte)[0]
        return replace(answer, pieces=head, ending="reset", length=answer.size)

    return Quirk(answer=answer, breaks=True)


@quirk_maker("connection")
def hang_up(hard: bool = False) -> Quirk:
    """Closes the connection (with `hard`, resets it) before sending a byte.

    Good client: raises a typed connection error; retries only if that is known to be safe.
    """
    return Quirk(instead=lambda _: HttpResponse(head=(), ending="reset" if hard else "close", framing="close"))


@quirk_maker("connection")
def not_http() -> Quirk:
    """Sends bytes that are not HTTP.

    Good client: raises a typed connection error.
    """
    return Quirk(
        instead=lambda _: HttpResponse(head=(b"\x15\x03\x01\x00\x02\x02\x16SSH-2.0-nobody\r\n",), ending="close")
    )


@quirk_maker("connection")
def stale(on_next: bool = False) -> Quirk:
    """Announces keep-alive but closes after the reply; with `on_next` only when the next request arrives.

    Good client: reconnects; the second form is retried if that is safe.
    """
    return Quirk(answer=lambda answer, _: replace(answer, ending="drop_next" if on_next else "stale"))


@quirk_maker("stream")
def fragment(seed: int = 0) -> Quirk:
    """Sends the body in fragments of 1 to 512 bytes, at random from a seed, also within characters and line ends.

    Good client: works as usual.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        random = Random(seed)
        pieces: list[Piece] = []
        for piece in answer.pieces:
            if isinstance(piece, Wait):
                pieces.append(piece)
                continue
            while piece:
                size = random.choice(_SIZES)
                pieces += [piece[:size], Wait(0)]
                piece = piece[size:]
        return replace(answer, pieces=tuple(pieces))

    return Quirk(answer=answer)


@quirk_maker("stream")
def split(at_bytes: tuple[int, ...] = (1,)) -> Quirk:
    """Sends the body in fragments that end at these bytes, such as in the middle of a character.

    Good client: works as usual.
    """
    places = (at_bytes,) if isinstance(at_bytes, int) else tuple(at_bytes)
    return Quirk(answer=lambda answer, _: replace(answer, pieces=_split(answer.pieces, places)))


@quirk_maker("connection")
def until_close() -> Quirk:
    """Sends the body without length and chunks: it ends when the connection is closed.

    Good client: works as usual; a stream must have had its last event.
    """
    return Quirk(answer=lambda answer, _: replace(answer, framing="close", ending="close"))


@quirk_maker("body")
def wrong_length(by: int = 100) -> Quirk:
    """Announces the body as this many bytes longer than it is, and closes the connection at its end.

    Good client: raises a typed error, as data may be missing; a stream may be complete by its last event.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        return replace(answer, framing="length", length=answer.size + by, ending="cut")

    return Quirk(answer=answer, breaks=True)


@quirk_maker("connection")
def interim() -> Quirk:
    """Sends an interim response (103, early hints) before the real one.

    Good client: ignores it.
    """
    hint = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n"
    return Quirk(answer=lambda answer, _: replace(answer, head=(hint, head_of(answer))))

"""Quirks of the bytes of a stream: line ends, comments, byte order mark, and how events are written."""

__all__ = [
    "bom",
    "comments",
    "cr",
    "crlf",
    "event_ids",
    "mixed_line_ends",
    "multi_line",
    "no_event_names",
    "no_final_blank",
    "no_space",
    "torn_event",
]

import re
from collections.abc import Callable
from random import Random

import msgspec
from msgspec.structs import replace

from ziggurat.testing.server.quirk import Quirk, quirk_maker
from ziggurat.testing.server.types import Answer, Piece, Seen, Wait

_DATA = re.compile(rb"^data: (.*)$", re.MULTILINE)
_EVENT = re.compile(rb"^event: .*\n", re.MULTILINE)


def _each(change: Callable[[bytes], bytes]) -> Quirk:
    """Return a quirk that changes the bytes of every event."""
    return Quirk(lines=lambda lines, _: [line if isinstance(line, Wait) else change(line) for line in lines])


@quirk_maker("stream")
def crlf() -> Quirk:
    """Lines end with CRLF.

    Good client: makes no difference.
    """
    return _each(lambda event: event.replace(b"\n", b"\r\n"))


@quirk_maker("stream")
def cr() -> Quirk:
    """Lines end with CR alone.

    Good client: makes no difference.
    """
    return _each(lambda event: event.replace(b"\n", b"\r"))


@quirk_maker("stream")
def mixed_line_ends(seed: int = 0) -> Quirk:
    """Lines end with LF, CRLF or CR, drawn by a seed.

    Good client: makes no difference.
    """

    def lines(lines: list[Piece], seen: Seen) -> list[Piece]:
        random = Random(seed)  # noqa: S311 - a seed that repeats
        made: list[Piece] = []
        ended = b""
        for line in lines:
            if isinstance(line, Wait):
                made.append(line)
                continue
            event = bytearray()
            for text in line.splitlines():
                # CR before an empty line that ends with LF would be one CRLF, and no line at all
                ends = (b"\r\n", b"\r") if ended == b"\r" and not text else (b"\n", b"\r\n", b"\r")
                ended = random.choice(ends)
                event += text + ended
            made.append(bytes(event))
        return made

    return Quirk(lines=lines)


@quirk_maker("stream")
def comments(text: str = " still working") -> Quirk:
    """A comment stands before every event, and one within it.

    Good client: passes over them.
    """
    comment = f":{text}\n".encode()
    return _each(lambda event: comment + b"\n" + comment + event)


@quirk_maker("stream")
def bom() -> Quirk:
    """The stream begins with a byte order mark.

    Good client: passes over it; the first event is not lost.
    """

    def answer(answer: Answer, seen: Seen) -> Answer:
        return replace(answer, pieces=(b"\xef\xbb\xbf", *answer.pieces)) if seen.stream else answer

    return Quirk(answer=answer)


@quirk_maker("stream")
def multi_line() -> Quirk:
    """The JSON of every event is spread over several data lines.

    Good client: joins them.
    """

    def spread(match: re.Match[bytes]) -> bytes:
        try:
            text = msgspec.json.format(match[1], indent=1)
        except msgspec.DecodeError:
            return match[0]
        return b"\n".join(b"data: " + line for line in text.split(b"\n"))

    return _each(lambda event: _DATA.sub(spread, event))


@quirk_maker("stream")
def no_final_blank() -> Quirk:
    """The stream ends without the empty line that ends its last event.

    Good client: follows the standard, which drops that event, or takes it: but what is cut is never finished.
    """

    def lines(lines: list[Piece], seen: Seen) -> list[Piece]:
        last = lines[-1]
        return [*lines[:-1], last if isinstance(last, Wait) else last.removesuffix(b"\n\n")]

    return Quirk(lines=lines)


@quirk_maker("stream")
def no_space() -> Quirk:
    """No space follows the colon: ``data:{...}``.

    Good client: makes no difference.
    """
    return _each(lambda event: event.replace(b"event: ", b"event:", 1).replace(b"data: ", b"data:", 1))


@quirk_maker("stream")
def event_ids() -> Quirk:
    """Events carry ids, a time to wait before a new connection, and a field that nobody knows.

    Good client: passes over them.
    """
    return _each(lambda event: b"id: 7\nretry: 3000\nx-unknown: 1\nlonely\n" + event)


@quirk_maker("stream")
def no_event_names() -> Quirk:
    """Events have no names; the type stands in their data only.

    Good client: reads the type from the data.
    """
    return _each(lambda event: _EVENT.sub(b"", event))


@quirk_maker("stream")
def torn_event(at: int = 2) -> Quirk:
    """The event with this number, from 1, ends in the middle of its JSON; the next ones are whole.

    Good client: a typed error that the reply is malformed; nothing is finished.
    """

    def lines(lines: list[Piece], seen: Seen) -> list[Piece]:
        made: list[Piece] = []
        number = 0
        for line in lines:
            number += isinstance(line, bytes)
            if isinstance(line, bytes) and number == at:
                text = line.rstrip(b"\n")
                line = text[: (text.index(b"data: ") + 6 + len(text)) // 2] + b"\n\n"
            made.append(line)
        return made

    return Quirk(lines=lines, breaks=True)

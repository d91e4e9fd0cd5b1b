"""Quirks of the bytes of a stream: line ends, comments, byte order mark, and how events are written."""

import re
from collections.abc import Callable
from random import Random

import msgspec
from msgspec.structs import replace

from tests.provider.catalogue import quirk_maker
from tests.provider.frames import on_lines
from ziggurat.testing.server.loopback import HttpResponse, Piece, ReceivedRequest, Wait
from ziggurat.testing.server.quirk import Quirk

_DATA = re.compile(rb"^data: (.*)$", re.MULTILINE)
_EVENT = re.compile(rb"^event: .*\n", re.MULTILINE)


def _each(change: Callable[[bytes], bytes]) -> Quirk:
    """Return a quirk that changes the bytes of every event."""
    return on_lines(lambda lines, _: [line if isinstance(line, Wait) else change(line) for line in lines])


@quirk_maker("stream")
def crlf() -> Quirk:
    """Ends lines with CRLF.

    Good client: works as usual.
    """
    return _each(lambda event: event.replace(b"\n", b"\r\n"))


@quirk_maker("stream")
def cr() -> Quirk:
    """Ends lines with CR alone.

    Good client: works as usual.
    """
    return _each(lambda event: event.replace(b"\n", b"\r"))


@quirk_maker("stream")
def mixed_line_ends(seed: int = 0) -> Quirk:
    """Ends lines with LF, CRLF or CR, at random from a seed.

    Good client: works as usual.
    """

    def lines(lines: list[Piece], seen: ReceivedRequest) -> list[Piece]:
        random = Random(seed)
        mixed: list[Piece] = []
        ended = b""
        for line in lines:
            if isinstance(line, Wait):
                mixed.append(line)
                continue
            event = bytearray()
            for text in line.splitlines():
                # CR before an empty line that ends with LF would be one CRLF, and no line at all
                ends = (b"\r\n", b"\r") if ended == b"\r" and not text else (b"\n", b"\r\n", b"\r")
                ended = random.choice(ends)
                event += text + ended
            mixed.append(bytes(event))
        return mixed

    return on_lines(lines)


@quirk_maker("stream")
def comments(text: str = " still working") -> Quirk:
    """Sends a comment before every event, and one within it.

    Good client: ignores them.
    """
    comment = f":{text}\n".encode()
    return _each(lambda event: comment + b"\n" + comment + event)


@quirk_maker("stream")
def bom() -> Quirk:
    """Starts the stream with a byte order mark.

    Good client: skips it; the first event is not lost.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        return replace(answer, pieces=(b"\xef\xbb\xbf", *answer.pieces)) if seen.stream else answer

    return Quirk(answer=answer)


@quirk_maker("stream")
def multi_line() -> Quirk:
    """Splits the JSON of every event over several data lines.

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
    """Ends the stream without the empty line after its last event.

    Good client: drops that event, as the standard requires, or accepts it; a truncated stream is never complete.
    """

    def lines(lines: list[Piece], seen: ReceivedRequest) -> list[Piece]:
        last = lines[-1]
        return [*lines[:-1], last if isinstance(last, Wait) else last.removesuffix(b"\n\n")]

    return on_lines(lines)


@quirk_maker("stream")
def no_space() -> Quirk:
    """Sends no space after the colon: ``data:{...}``.

    Good client: works as usual.
    """
    return _each(lambda event: event.replace(b"event: ", b"event:", 1).replace(b"data: ", b"data:", 1))


@quirk_maker("stream")
def event_ids() -> Quirk:
    """Sends events with ids, a reconnection time, and an unknown field.

    Good client: ignores them.
    """
    return _each(lambda event: b"id: 7\nretry: 3000\nx-unknown: 1\nlonely\n" + event)


@quirk_maker("stream")
def no_event_names() -> Quirk:
    """Sends events without names; the type is only in their data.

    Good client: reads the type from the data.
    """
    return _each(lambda event: _EVENT.sub(b"", event))


@quirk_maker("stream")
def torn_event(at: int = 2) -> Quirk:
    """Cuts the event with this number, from 1, in the middle of its JSON; the next ones are complete.

    Good client: raises a typed error (malformed); does not treat the reply as complete.
    """

    def lines(lines: list[Piece], seen: ReceivedRequest) -> list[Piece]:
        torn: list[Piece] = []
        number = 0
        for line in lines:
            number += isinstance(line, bytes)
            if isinstance(line, bytes) and number == at:
                text = line.rstrip(b"\n")
                line = text[: (text.index(b"data: ") + 6 + len(text)) // 2] + b"\n\n"
            torn.append(line)
        return torn

    return on_lines(lines, breaks=True)

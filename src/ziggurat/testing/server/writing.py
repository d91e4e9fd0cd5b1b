"""Writing replies as bytes in a provider's format, with quirks applied at each stage."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from ziggurat.messages.delta import PartDelta, TextDelta
from ziggurat.testing.server.quirk import Quirk
from ziggurat.testing.server.reply import message_of
from ziggurat.testing.server.types import (
    Headers,
    HttpResponse,
    Piece,
    ReceivedRequest,
    ReplyContent,
    Wait,
    error_answer,
)
from ziggurat.wires.errors import status_of
from ziggurat.wires.places import Places
from ziggurat.wires.types import ReplyHead, ResponseChunk, Wire
from ziggurat.wires.writer import WRITERS, ReplyWriter


def changed(answer: HttpResponse, quirks: Iterable[Quirk], seen: ReceivedRequest) -> HttpResponse:
    """Return an answer with the quirks of its last stage applied."""
    for quirk in quirks:
        if quirk.answer is not None:
            answer = quirk.answer(answer, seen)
    return answer


def written(reply: ReplyContent, seen: ReceivedRequest, quirks: Sequence[Quirk]) -> HttpResponse:
    """Return the answer for a reply: written in the format of the request, with the quirks applied."""
    assert seen.wire is not None
    for quirk in quirks:
        if quirk.reply is not None:
            reply = quirk.reply(reply, seen)
    stream = seen.stream and not any(quirk.plain for quirk in quirks)
    if reply.error is not None and (not stream or not reply.pieces):
        return changed(_error_answer(reply.error, seen), quirks, seen)
    frames = _frames(reply, seen, seen.wire, stream=stream)
    for quirk in quirks:
        if quirk.frames is not None:
            frames = quirk.frames(frames, seen)
    lines: list[Piece] = [each if isinstance(each, Wait) else _line(each, stream) for each in frames]
    for quirk in quirks if stream else ():
        if quirk.lines is not None:
            lines = quirk.lines(lines, seen)
    kind = "text/event-stream; charset=utf-8" if stream else "application/json"
    answer = HttpResponse(200, (("content-type", kind),), tuple(lines), "chunked" if stream else "length")
    if isinstance(reply.error, ConnectionError):
        answer = replace(answer, ending="reset")
    return changed(answer, quirks, seen)


def _frames(reply: ReplyContent, seen: ReceivedRequest, wire: Wire, *, stream: bool) -> list[ResponseChunk | Wait]:
    """Return the events of a streamed reply, or the body of a plain one."""
    refused = reply.finish == "refusal"
    writer = WRITERS[wire](ReplyHead(reply.id, reply.model, seen.json, refused=refused, usage=reply.usage))
    if not stream:
        body = writer.plain(message_of(reply.pieces).parts, reply.finish, reply.usage)
        return [ResponseChunk(body, part="body")]
    frames = [*writer.begin(), *streamed(writer, reply.pieces, whole=reply.error is None)]
    if reply.error is None:
        frames += writer.finish(reply.finish, reply.usage)
    elif not isinstance(reply.error, ConnectionError):
        frames += writer.fail(status_of(reply.error), str(reply.error))
    return frames


def streamed(writer: ReplyWriter, pieces: Iterable[PartDelta | Wait], *, whole: bool) -> Iterator[ResponseChunk | Wait]:
    """Yield the events of the parts, whose pieces may be interleaved; unless `whole`, the last one is not closed."""
    places = Places()
    placed = [
        (-1 if isinstance(piece, Wait) else places.place(piece), piece) for piece in pieces if piece != TextDelta("")
    ]
    last = {part: at for at, (part, _) in enumerate(placed)}
    if not whole:
        last.pop(next((part for part, _ in reversed(placed) if part >= 0), -1), None)
    opened: set[int] = set()
    for at, (part, piece) in enumerate(placed):
        if isinstance(piece, Wait):
            yield piece
            continue
        if part not in opened:
            yield from writer.open(part, piece)
            opened.add(part)
        yield from writer.delta(part, piece)
        if last.get(part) == at:
            yield from writer.close(part)


def _error_answer(error: Exception, seen: ReceivedRequest) -> HttpResponse:
    """Return the answer for an error that occurs before any output."""
    if isinstance(error, ConnectionError):
        return HttpResponse(head=b"", framing="close", ending="reset")
    after = getattr(error, "retry_after", None)
    headers: Headers = () if after is None else (("retry-after", f"{after:g}"),)
    text = str(error) or type(error).__name__
    return error_answer(seen.wire, status_of(error), text, headers=headers)


def _line(frame: ResponseChunk, stream: bool) -> bytes:
    data = frame.data.encode() if isinstance(frame.data, str) else msgspec.json.encode(frame.data)
    if not stream:
        return data
    event = f"event: {frame.event}\n".encode() if frame.event else b""
    return event + b"data: " + data + b"\n\n"

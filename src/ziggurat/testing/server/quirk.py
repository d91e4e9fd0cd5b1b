"""Quirks: single deviations of a provider from its documentation; and replies as bytes, with quirks at each stage."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.testing.server.loopback import Headers, HttpResponse, Piece, ReceivedRequest, Wait, error_answer
from ziggurat.testing.server.replies import ReplyContent, message_of
from ziggurat.wires.types import ReplyHead, ResponseChunk, Wire, status_of
from ziggurat.wires.writer import WRITERS, LiveReply


class Quirk(Struct, frozen=True):
    """Changes a reply before it is sent; several are applied stage by stage, in the order given within a stage.

    Attributes:
        name: Its call as text: ``cut(120)``.
        instead: Answers in place of the script, which is not called.
        reply: Changes the reply.
        frames: Changes the events of a stream, or the one body of a plain reply, before they are encoded.
        answer: Changes status, headers, the bytes of the body and how they are sent.
        plain: Whether a plain reply is sent where a stream was requested.
        breaks: Whether it may lose a reply: a repeated request then gets the same reply again.
        conditions: When it applies, given the request and its number; empty for always.
    """

    name: str = ""
    instead: Callable[[ReceivedRequest], HttpResponse] | None = None
    reply: Callable[[ReplyContent, ReceivedRequest], ReplyContent] | None = None
    frames: Callable[[list[ResponseChunk | Wait], ReceivedRequest], list[ResponseChunk | Wait]] | None = None
    answer: Callable[[HttpResponse, ReceivedRequest], HttpResponse] | None = None
    plain: bool = False
    breaks: bool = False
    conditions: tuple[Callable[[ReceivedRequest, int], bool], ...] = ()

    def first(self, count: int) -> "Quirk":
        """Return the same quirk for the first `count` requests only."""
        return self._if(f"first({count})", lambda _, number: number <= count)

    def after(self, count: int) -> "Quirk":
        """Return the same quirk for all but the first `count` requests."""
        return self._if(f"after({count})", lambda _, number: number > count)

    def on(self, *numbers: int) -> "Quirk":
        """Return the same quirk for the requests with these numbers only, counted from 1."""
        return self._if(f"on({', '.join(map(str, numbers))})", lambda _, number: number in numbers)

    def when(self, test: str | Callable[[ReceivedRequest], bool]) -> "Quirk":
        """Return the same quirk for requests whose body contains a text, or that pass a test."""
        if isinstance(test, str):
            text = test.encode()
            return self._if(f"when({test!r})", lambda seen, _: text in seen.body)
        return self._if("when(...)", lambda seen, _: test(seen))

    def _if(self, name: str, condition: Callable[[ReceivedRequest, int], bool]) -> "Quirk":
        return replace(self, name=f"{self.name}.{name}", conditions=(*self.conditions, condition))

    def applies(self, seen: ReceivedRequest, number: int) -> bool:
        """Return whether it applies to a request; `number` counts from when the quirk was put in use."""
        return all(condition(seen, number) for condition in self.conditions)

    def __repr__(self) -> str:
        return self.name


def split_at(pieces: Sequence[Piece], at: int) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Split a body at a byte, counted from the end if negative."""
    size = sum(len(piece) for piece in pieces if isinstance(piece, bytes))
    left = max(0, min(size, at if at >= 0 else size + at))
    for number, piece in enumerate(pieces):
        if isinstance(piece, Wait):
            continue
        if left <= len(piece):
            return (*pieces[:number], piece[:left]), (piece[left:], *pieces[number + 1 :])
        left -= len(piece)
    return tuple(pieces), ()


def status(code: int, message: str = "", error_code: str | None = None, retry_after: str | None = None) -> Quirk:
    """Answers with an HTTP status and an error body in the format of the request; the script is not called.

    ::

        FakeProvider("Hello", quirks=[status(429, retry_after="2").first(1)])

    Args:
        code: The status.
        message: The text of the error.
        error_code: The provider's code of the error, such as ``"context_length_exceeded"``.
        retry_after: The header ``Retry-After``, in seconds or as a date.
    """
    headers: Headers = () if retry_after is None else (("retry-after", str(retry_after)),)
    return Quirk(
        f"status({code})",
        instead=lambda seen: error_answer(seen.wire, code, message, code=error_code, headers=headers),
    )


def cut(at_byte: int, clean: bool = False) -> Quirk:
    """Ends the body of a reply early, and closes the connection: ``FakeProvider(..., quirks=[cut(-20)])``.

    Args:
        at_byte: After how many bytes; from the end of the body if negative.
        clean: Send the last chunk, so that the body is complete for HTTP, as behind some proxies.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        head = split_at(answer.pieces, at_byte)[0]
        if clean:
            return replace(answer, pieces=head, ending="close")
        return replace(answer, pieces=head, ending="cut", length=answer.size)

    return Quirk(f"cut({at_byte})", answer=answer, breaks=True)


def stall(at_byte: int = 0, seconds: float | None = None) -> Quirk:
    """Pauses within the body of a reply: ``FakeProvider(..., quirks=[stall(100, seconds=5)])``.

    Args:
        at_byte: After how many bytes.
        seconds: How long, by the clock of the server; None until `FakeProvider.release` is called.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        before, after = split_at(answer.pieces, at_byte)
        return replace(answer, pieces=(*before, Wait(seconds), *after))

    return Quirk(f"stall({at_byte})", answer=answer, breaks=True)


def changed(answer: HttpResponse, quirks: Iterable[Quirk], seen: ReceivedRequest) -> HttpResponse:
    for quirk in quirks:
        if quirk.answer is not None:
            answer = quirk.answer(answer, seen)
    return answer


def written(reply: ReplyContent, seen: ReceivedRequest, quirks: Sequence[Quirk]) -> HttpResponse:
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
    pieces = tuple(each if isinstance(each, Wait) else _line(each, stream) for each in frames)
    kind = "text/event-stream; charset=utf-8" if stream else "application/json"
    answer = HttpResponse(200, (("content-type", kind),), pieces, "chunked" if stream else "length")
    if isinstance(reply.error, ConnectionError):
        answer = replace(answer, ending="reset")
    return changed(answer, quirks, seen)


def _frames(reply: ReplyContent, seen: ReceivedRequest, wire: Wire, *, stream: bool) -> list[ResponseChunk | Wait]:
    refused = reply.finish == "refusal"
    writer = WRITERS[wire](ReplyHead(reply.id, reply.model, seen.json, refused=refused, usage=reply.usage))
    if not stream:
        body = writer.plain(message_of(reply.pieces).parts, reply.finish, reply.usage)
        return [ResponseChunk(body, part="body")]
    live = LiveReply(writer)
    frames: list[ResponseChunk | Wait] = [*live.begin()]
    for piece in reply.pieces:
        frames += [piece] if isinstance(piece, Wait) else live.push(piece)
    if reply.error is None:
        frames += live.finish(reply.finish, reply.usage)
    elif not isinstance(reply.error, ConnectionError):
        frames += writer.fail(status_of(reply.error), str(reply.error))
    return frames


def _error_answer(error: Exception, seen: ReceivedRequest) -> HttpResponse:
    if isinstance(error, ConnectionError):
        return HttpResponse(head=(), framing="close", ending="reset")
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

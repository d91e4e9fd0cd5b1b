"""Writer: writes one reply in the format of a provider, whole or in pieces."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ziggurat.messages.message import PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.wires.anthropic import AnthropicWriter
from ziggurat.wires.chat import ChatWriter
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.types import Json, ReplyHead, ReplyPart, ReplyPiece, ResponseChunk, ServerItem, Wire


class ReplyWriter(Protocol):
    """Writes one reply. Each method returns the events to send; parts of the reply are numbered from 0.

    One that has a place for what the server does, besides the parts, has a method ``item(item)``, too.
    """

    def plain(self, parts: Sequence[ReplyPart], finish: FinishReason, usage: Usage, /) -> Json:
        """Return the body of a plain reply."""
        ...

    def begin(self) -> list[ResponseChunk]:
        """Begin a stream."""
        ...

    def open(self, part: int, delta: PartDelta, /) -> list[ResponseChunk]:
        """Begin a part, whose first piece is `delta`, which is still to be passed to `delta`."""
        ...

    def delta(self, part: int, delta: PartDelta, /) -> list[ResponseChunk]:
        """Go on with a part."""
        ...

    def close(self, part: int, /) -> list[ResponseChunk]:
        """End a part."""
        ...

    def finish(self, finish: FinishReason, usage: Usage, /) -> list[ResponseChunk]:
        """End the stream."""
        ...

    def fail(self, status: int, text: str, /) -> list[ResponseChunk]:
        """End the stream with an error."""
        ...


WRITERS: dict[Wire, Callable[[ReplyHead], ReplyWriter]] = {
    "chat": ChatWriter,
    "responses": ResponsesWriter,
    "messages": AnthropicWriter,
}


class Places:
    """Numbers the parts of a reply, from 0, as its pieces come."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self._current = -1
        self._count = 0
        self._before: PartDelta | None = None

    def place(self, piece: PartDelta) -> int:
        """Return the number of the part that a piece belongs to: that of the piece before it, or the next."""
        if isinstance(piece, ToolCallDelta):
            if piece.index not in self._calls:
                self._calls[piece.index] = self._next()
            self._current = self._calls[piece.index]
        elif not _goes_on(self._before, piece):
            self._current = self._next()
        self._before = piece
        return self._current

    def interrupt(self) -> None:
        """Have the next piece begin another part, as something else came before it."""
        self._before = None

    def _next(self) -> int:
        self._count += 1
        return self._count - 1


def _goes_on(before: PartDelta | None, piece: PartDelta) -> bool:
    if isinstance(piece, TextDelta):
        return isinstance(before, TextDelta)
    if not isinstance(piece, ThinkingDelta) or not isinstance(before, ThinkingDelta):
        return False
    ended = before.signature is not None or before.redacted is not None or piece.redacted is not None
    return not ended and (piece.id is None or before.id is None or piece.id == before.id)


class LiveReply:
    """The events of a stream for pieces as they come: it begins with the first, and a part ends when the next
    begins."""

    def __init__(self, writer: ReplyWriter) -> None:
        self._writer = writer
        self._places = Places()
        self._part = -1
        self._began = False

    def begin(self) -> list[ResponseChunk]:
        """Return the events at the beginning; empty if it has begun."""
        if self._began:
            return []
        self._began = True
        return self._writer.begin()

    def push(self, piece: ReplyPiece) -> list[ResponseChunk]:
        """Return the events for a piece."""
        if isinstance(piece, ServerItem):
            return self._push_item(piece)
        if piece == TextDelta(""):
            return []
        part, events = self._places.place(piece), self.begin()
        if part != self._part:
            events += [*self._close(), *self._writer.open(part, piece)]
            self._part = part
        return [*events, *self._writer.delta(part, piece)]

    def _push_item(self, item: ServerItem) -> list[ResponseChunk]:
        """Return the events for what the server does, after those that end the part before it; none in some formats."""
        show = getattr(self._writer, "item", None)
        if show is None:
            return []
        events = [*self.begin(), *self._close()]
        self._part = -1
        self._places.interrupt()
        return [*events, *show(item)]

    def finish(self, finish: FinishReason, usage: Usage) -> list[ResponseChunk]:
        """Return the events at the end."""
        return [*self.begin(), *self._close(), *self._writer.finish(finish, usage)]

    def _close(self) -> list[ResponseChunk]:
        return [] if self._part < 0 else self._writer.close(self._part)

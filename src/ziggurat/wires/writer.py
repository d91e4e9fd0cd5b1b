"""Writer: writes one reply in the format of a provider, whole or in pieces."""

__all__ = ["WRITERS", "LiveReply", "Writer"]

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from ziggurat.messages.delta import PartDelta, TextDelta
from ziggurat.messages.message import Message
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.wires.anthropic import AnthropicWriter
from ziggurat.wires.chat import ChatWriter
from ziggurat.wires.places import Places
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.types import Json, ReplyHead, ResponseChunk, Wire


class Writer(Protocol):
    """Writes one reply. Each method returns the events to send; parts of the reply are numbered from 0."""

    def plain(self, message: Message, finish: FinishReason, usage: Usage, /) -> Json:
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


WRITERS: Mapping[Wire, Callable[[ReplyHead], Writer]] = MappingProxyType(
    {"chat": ChatWriter, "responses": ResponsesWriter, "messages": AnthropicWriter}
)


class LiveReply:
    """The events of a stream for pieces as they come: it begins with the first, and a part ends when the next begins.

    Args:
        writer: Writes them.
    """

    def __init__(self, writer: Writer) -> None:
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

    def push(self, piece: PartDelta) -> list[ResponseChunk]:
        """Return the events for a piece."""
        if piece == TextDelta(""):
            return []
        part, events = self._places.place(piece), self.begin()
        if part != self._part:
            events += [*self._close(), *self._writer.open(part, piece)]
            self._part = part
        return [*events, *self._writer.delta(part, piece)]

    def finish(self, finish: FinishReason, usage: Usage) -> list[ResponseChunk]:
        """Return the events at the end."""
        return [*self.begin(), *self._close(), *self._writer.finish(finish, usage)]

    def _close(self) -> list[ResponseChunk]:
        return [] if self._part < 0 else self._writer.close(self._part)

"""Iterating over the events of a reply and the JSON in them, for quirks that change it."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from ziggurat.testing.server.loopback import HttpResponse, Piece, ReceivedRequest, Wait
from ziggurat.testing.server.quirk import Quirk
from ziggurat.wires.types import Json, ResponseChunk

Frames = list[ResponseChunk | Wait]

TOKENS = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens")
"""The names of token counts in all formats."""


def events_of(frames: Frames) -> Iterator[ResponseChunk]:
    """Yield every event, without the pauses."""
    yield from (frame for frame in frames if isinstance(frame, ResponseChunk))


def objects_of(frames: Frames) -> Iterator[tuple[ResponseChunk, Json]]:
    """Yield every event that holds JSON, with that JSON."""
    for frame in events_of(frames):
        if isinstance(frame.data, dict):
            yield frame, frame.data


def every_object(value: Any) -> Iterator[Json]:
    """Yield every JSON object in a value, the outermost first; iterative, as the depth may be a quirk too."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def each_object(change: Callable[[Json, ResponseChunk, ReceivedRequest], None]) -> Quirk:
    """Return a quirk that changes the JSON of every event."""

    def frames(frames: Frames, seen: ReceivedRequest) -> Frames:
        for frame, data in objects_of(frames):
            change(data, frame, seen)
        return frames

    return Quirk(frames=frames)


def on_lines(change: Callable[[list[Piece], ReceivedRequest], list[Piece]], breaks: bool = False) -> Quirk:
    """Return a quirk that changes the bytes of the events of a stream; list it before those that split them."""

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        if ("content-type", "text/event-stream; charset=utf-8") not in answer.headers:
            return answer
        return replace(answer, pieces=tuple(change(list(answer.pieces), seen)))

    return Quirk(answer=answer, breaks=breaks)

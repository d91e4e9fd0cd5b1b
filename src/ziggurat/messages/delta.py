"""Deltas: the pieces of a streamed reply, filters for them, and the fold that makes them a message."""

__all__ = [
    "DeltaFilter",
    "Fold",
    "PartDelta",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallDelta",
    "WholePart",
    "deltas_of",
    "fit",
    "refolded",
]

from collections.abc import Iterable, Iterator
from itertools import count, pairwise
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.messages.message import Message
from ziggurat.messages.parts import Audio, File, Image, Part, Text, Thinking, ToolCall, ToolResult, mended
from ziggurat.messages.reasoning import is_proven


class TextDelta(Struct, frozen=True, gc=False, tag="text_delta", tag_field="type"):
    """More text."""

    text: str


class ThinkingDelta(Struct, frozen=True, gc=False, tag="thinking_delta", tag_field="type", omit_defaults=True):
    """More of a thought; a signature or a redacted block ends it."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    id: str | None = None


class ToolCallDelta(Struct, frozen=True, gc=False, tag="tool_call_delta", tag_field="type"):
    """More of a tool call; a new `index` begins another call.

    Attributes:
        index: Which call of the reply this belongs to.
        arguments: The next piece of the JSON text.
        id: The call's id, with its first piece.
        name: The tool's name, with its first piece.
    """

    index: int
    arguments: str = ""
    id: str = ""
    name: str = ""


class WholePart(Struct, frozen=True, gc=False, tag="whole_part", tag_field="type"):
    """A part that came in one piece, such as a picture."""

    part: Image | Audio | File | ToolResult


PartDelta = TextDelta | ThinkingDelta | ToolCallDelta | WholePart
"""Any piece of a reply."""


class DeltaFilter(Protocol):
    """Changes a reply while it comes; one is made for each call and try."""

    def push(self, delta: PartDelta, /) -> Iterable[PartDelta]:
        """Take a piece and return what may pass now; hold back what cannot be judged yet."""
        ...

    def flush(self) -> Iterable[PartDelta]:
        """Return what was held back, at the end of the reply."""
        ...

    def reset(self) -> None:
        """Forget everything: the reply was abandoned and will begin again."""
        ...


class _Open:
    """A tool call that is not complete."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self, delta: ToolCallDelta) -> None:
        self.id = delta.id
        self.name = delta.name
        self.arguments = [delta.arguments]


class _Thought:
    """A thought that may go on."""

    __slots__ = ("pieces",)

    def __init__(self, delta: ThinkingDelta) -> None:
        self.pieces = [delta]

    @property
    def id(self) -> str | None:
        """The first id that came."""
        return next((piece.id for piece in self.pieces if piece.id is not None), None)

    def takes(self, delta: ThinkingDelta) -> bool:
        """Return whether a piece belongs here: not after the end, nor a block of its own, nor one with another id."""
        last = self.pieces[-1]
        if last.signature is not None or last.redacted is not None or delta.redacted is not None:
            return False
        return delta.id is None or self.id is None or delta.id == self.id

    def closed(self) -> Thinking:
        """Return the thought so far."""
        last = self.pieces[-1]
        return Thinking("".join([piece.text for piece in self.pieces]), last.signature, last.redacted, self.id)


class Fold:
    """Makes a message of deltas: pieces of one kind that follow each other are one part.

    >>> fold = Fold()
    >>> fold.push(TextDelta("Hel")); fold.push(TextDelta("lo"))
    >>> fold.message().text
    'Hello'
    """

    def __init__(self) -> None:
        self._parts: list[Part | _Open | _Thought | list[str]] = []
        self._calls: dict[int, _Open] = {}

    def push(self, delta: PartDelta) -> None:
        """Take the next piece."""
        last = self._parts[-1] if self._parts else None
        if isinstance(delta, TextDelta):
            if isinstance(last, list):
                last.append(delta.text)
            elif delta.text:
                self._parts.append([delta.text])
        elif isinstance(delta, ThinkingDelta):
            if isinstance(last, _Thought) and last.takes(delta):
                last.pieces.append(delta)
            else:
                self._parts.append(_Thought(delta))
        elif isinstance(delta, ToolCallDelta):
            self._push_call(delta)
        else:
            self._parts.append(delta.part)

    def _push_call(self, delta: ToolCallDelta) -> None:
        known = self._calls.get(delta.index)
        if known is None:
            known = self._calls[delta.index] = _Open(delta)
            self._parts.append(known)
            return
        known.arguments.append(delta.arguments)
        known.id = known.id or delta.id
        known.name = known.name or delta.name

    def reset(self) -> None:
        """Forget everything."""
        self._parts.clear()
        self._calls.clear()

    def message(self) -> Message:
        """Return the message that the pieces so far make."""
        return Message("assistant", tuple(map(_closed, self._parts)))


def _closed(part: "Part | _Open | _Thought | list[str]") -> Part:
    if isinstance(part, _Open):
        return ToolCall(part.id, part.name, "".join(part.arguments))
    if isinstance(part, _Thought):
        return part.closed()
    return Text("".join(part)) if isinstance(part, list) else part


def deltas_of(message: Message) -> Iterator[PartDelta]:
    """Take a whole message apart into one delta per part; folding them gives the message again."""
    calls = 0
    for part in message.parts:
        if isinstance(part, Text):
            yield TextDelta(part.text)
        elif isinstance(part, Thinking):
            yield ThinkingDelta(part.text, part.signature, part.redacted, part.id)
        elif isinstance(part, ToolCall):
            yield ToolCallDelta(calls, part.arguments, part.id, part.name)
            calls += 1
        else:
            yield WholePart(part)


def fit(message: Message) -> Message:
    """Return a model's message as a conversation takes it: as its deltas fold, and each call with an id of its own.

    Models give empty ids, and one id to several calls; their results could not be told apart. A reply that was cut
    while the model thought keeps the thought as plain text: no provider takes one back that nothing came of, nor one
    twice.
    """
    parts = message.parts
    if len(parts) == 1:
        part = parts[0]
        if isinstance(part, ToolCall):
            fits = part.id != ""
        else:
            fits = _is_whole(part) if isinstance(part, Text) else not isinstance(part, (Thinking, ToolResult))
    else:
        ids = {part.id for part in parts if isinstance(part, ToolCall)}
        calls = sum(isinstance(part, ToolCall) for part in parts)
        alone = all(type(one) is not type(other) or isinstance(one, ToolCall) for one, other in pairwise(parts))
        alone = alone and sum(isinstance(part, Thinking) for part in parts) < 2
        whole = all(_is_whole(part) for part in parts if isinstance(part, Text))
        fits = alone and "" not in ids and len(ids) == calls and whole
        strange = (parts and isinstance(parts[-1], Thinking)) or any(isinstance(part, ToolResult) for part in parts)
        fits = fits and not strange
    if fits and message.role == "assistant":
        return message
    made = replace(message, role="assistant", parts=_finished(_with_ids(refolded(message).parts)))
    made = refolded(made)  # thoughts without their proofs are of one piece
    return message if made == message else made


def _is_whole(part: Text) -> bool:
    """Return whether a text is one that can be kept and sent: not empty, and without lone surrogates."""
    text = part.text
    return text != "" and (text.isascii() or mended(text) == text)


def _finished(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Leave out what a model cannot say, thoughts said twice, and the proofs of thoughts at the end; fix texts."""
    made: list[Part] = []
    for part in parts:
        if isinstance(part, Text):
            part = Text(mended(part.text))
        twice = isinstance(part, Thinking) and is_proven(part) and part in made
        if not twice and not isinstance(part, ToolResult):
            made.append(part)
    ended: list[Part] = []
    while made and isinstance(last := made[-1], Thinking):
        made.pop()
        if not is_proven(last):
            ended.append(last)
        elif last.text:
            ended.append(Thinking(last.text))
    return (*made, *reversed(ended))


def refolded(message: Message) -> Message:
    """Return the message that the deltas of a message fold to: neighbouring texts joined, empty ones left out."""
    fold = Fold()
    for delta in deltas_of(message):
        fold.push(delta)
    return replace(message, parts=fold.message().parts)


def _with_ids(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    given = {part.id for part in parts if isinstance(part, ToolCall)}
    seen = {""}
    made: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall) and part.id in seen:
            names = (f"{part.id or 'call'}-{number}" for number in count(1))
            part = replace(part, id=next(name for name in names if name not in given and name not in seen))
        if isinstance(part, ToolCall):
            seen.add(part.id)
        made.append(part)
    return tuple(made)

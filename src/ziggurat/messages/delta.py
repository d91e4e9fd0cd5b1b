"""Deltas, the pieces of a streamed reply; filters for them; and `Fold`, which joins them into a message."""

from collections.abc import Iterable, Iterator
from itertools import count, pairwise
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.messages.conversation import Conversation, Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Audio, File, Image, Part, Text, Thinking, ToolCall, ToolResult, mended
from ziggurat.messages.validation import is_proven


class TextDelta(Struct, frozen=True, gc=False, tag="text_delta", tag_field="type"):
    """The next piece of text."""

    text: str


class ThinkingDelta(Struct, frozen=True, gc=False, tag="thinking_delta", tag_field="type", omit_defaults=True):
    """The next piece of a thought; a signature or a redacted block ends the thought."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    id: str | None = None


class ToolCallDelta(Struct, frozen=True, gc=False, tag="tool_call_delta", tag_field="type"):
    """The next piece of a tool call; a new `index` starts another call.

    Attributes:
        index: The number of the call within the reply.
        arguments: The next piece of the JSON text.
        id: The call's id, with its first piece.
        name: The tool's name, with its first piece.
    """

    index: int
    arguments: str = ""
    id: str = ""
    name: str = ""


class WholePart(Struct, frozen=True, gc=False, tag="whole_part", tag_field="type"):
    """A part that is not streamed in pieces, such as a picture."""

    part: Image | Audio | File | ToolResult


PartDelta = TextDelta | ThinkingDelta | ToolCallDelta | WholePart
"""Any piece of a reply."""


@runtime_checkable
class DeltaFilter(Protocol):
    """The protocol of filters that change a reply while it is streamed; one is made for each call and try."""

    def push(self, delta: PartDelta, /) -> Iterable[PartDelta]:
        """Add a piece and return what may pass now; hold back what cannot be decided yet."""
        ...

    def flush(self) -> Iterable[PartDelta]:
        """Return what was held back, at the end of the reply."""
        ...

    def reset(self) -> None:
        """Discard all state: the reply was abandoned and will start again."""
        ...


class _Open:
    """A tool call that is not complete."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self, delta: ToolCallDelta) -> None:
        self.id = delta.id
        self.name = delta.name
        self.arguments = [delta.arguments]


class _Thought:
    __slots__ = ("id", "pieces")

    def __init__(self, delta: ThinkingDelta) -> None:
        self.id = delta.id  # the first id in the pieces
        self.pieces = [delta]

    def takes(self, delta: ThinkingDelta) -> bool:
        """Return whether a piece continues this thought: it has not ended, and the piece is no block or other id."""
        last = self.pieces[-1]
        if last.signature is not None or last.redacted is not None or delta.redacted is not None:
            return False
        return delta.id is None or self.id is None or delta.id == self.id

    def add(self, delta: ThinkingDelta) -> None:
        self.id = delta.id if self.id is None else self.id
        self.pieces.append(delta)

    def closed(self) -> Thinking:
        last = self.pieces[-1]
        return Thinking("".join([piece.text for piece in self.pieces]), last.signature, last.redacted, self.id)


class Fold:
    """Joins deltas into a message: consecutive pieces of one kind become one part.

    >>> fold = Fold()
    >>> fold.push(TextDelta("Hel")); fold.push(TextDelta("lo"))
    >>> fold.message().text
    'Hello'
    """

    def __init__(self) -> None:
        self._parts: list[Part | _Open | _Thought | list[str]] = []
        self._calls: dict[int, _Open] = {}

    def push(self, delta: PartDelta) -> None:
        """Add the next piece."""
        last = self._parts[-1] if self._parts else None
        if isinstance(delta, TextDelta):
            if isinstance(last, list):
                last.append(delta.text)
            elif delta.text:
                self._parts.append([delta.text])
        elif isinstance(delta, ThinkingDelta):
            if isinstance(last, _Thought) and last.takes(delta):
                last.add(delta)
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
        """Discard all pieces."""
        self._parts.clear()
        self._calls.clear()

    def message(self) -> Message:
        """Return the message made of the pieces so far."""
        return Message("assistant", tuple(map(_to_part, self._parts)))


def _to_part(part: "Part | _Open | _Thought | list[str]") -> Part:
    if isinstance(part, _Open):
        return ToolCall(part.id, part.name, "".join(part.arguments))
    if isinstance(part, _Thought):
        return part.closed()
    return Text("".join(part)) if isinstance(part, list) else part


def deltas_of(message: Message) -> Iterator[PartDelta]:
    """Yield one delta per part of a message; folding them gives the message again."""
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
    """Return a model's message in the form a conversation accepts: folded, and with a unique id for each call."""
    # Models may give empty ids, or one id to several calls; their results could not be matched. A thought at the end of
    # a reply, as when it was cut off, is kept as plain text, and a repeated thought is removed, because no provider
    # accepts either back.
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
    fitted = replace(message, role="assistant", parts=_clean_parts(_with_ids(refolded(message).parts)))
    fitted = refolded(fitted)  # join thoughts that lost their signatures
    return message if fitted == message else fitted


def unrepeated(message: Message, before: Transcript) -> Message:
    """Return a model's message without the thoughts that the conversation before it holds already."""
    if not any(isinstance(part, Thinking) and part.id for part in message.parts):
        return message
    fitted = fit(message)
    parts = tuple([part for part in fitted.parts if not _is_known(part, before)])
    return message if len(parts) == len(fitted.parts) else fit(replace(fitted, parts=parts))


def without_repeats(messages: Iterable[Message]) -> list[Message]:
    """Return messages that were put together without the thoughts that stand in an earlier one already."""
    conversation = Conversation()
    add_without_repeats(messages, conversation)
    return conversation.log


def add_without_repeats(messages: Iterable[Message], conversation: Conversation) -> None:
    """Add messages to a conversation without the thoughts that stand in an earlier one already."""
    for message in messages:
        conversation.log.append(unrepeated(message, conversation.view()))


def _is_known(part: Part, before: Transcript) -> bool:
    return isinstance(part, Thinking) and bool(part.id) and is_proven(part) and before.holds(part)


def _is_whole(part: Text) -> bool:
    text = part.text
    return text != "" and (text.isascii() or mended(text) == text)


def _clean_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Remove tool results, repeated thoughts, and the signatures of thoughts at the end; fix lone surrogates."""
    cleaned: list[Part] = []
    thoughts: set[Thinking] = set()
    for part in parts:
        if isinstance(part, Text):
            part = Text(mended(part.text))
        twice = isinstance(part, Thinking) and is_proven(part) and part in thoughts
        if isinstance(part, Thinking):
            thoughts.add(part)
        if not twice and not isinstance(part, ToolResult):
            cleaned.append(part)
    ended: list[Part] = []
    while cleaned and isinstance(last := cleaned[-1], Thinking):
        cleaned.pop()
        if not is_proven(last):
            ended.append(last)
        elif last.text:
            ended.append(Thinking(last.text))
    return (*cleaned, *reversed(ended))


def refolded(message: Message) -> Message:
    """Return a message after splitting it into deltas and folding them: texts joined, empty texts removed."""
    fold = Fold()
    for delta in deltas_of(message):
        fold.push(delta)
    return replace(message, parts=fold.message().parts)


def _with_ids(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Give each call an id of its own: calls with an empty or repeated one get the next free number after it."""
    ids = {part.id for part in parts if isinstance(part, ToolCall)}
    seen = {""}
    numbers: dict[str, Iterator[int]] = {}  # the next number of each id, so that none is tried twice
    numbered: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall) and part.id in seen:
            names = (f"{part.id or 'call'}-{number}" for number in numbers.setdefault(part.id, count(1)))
            part = replace(part, id=next(name for name in names if name not in ids and name not in seen))
        if isinstance(part, ToolCall):
            seen.add(part.id)
        numbered.append(part)
    return tuple(numbered)

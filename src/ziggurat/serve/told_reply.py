"""The reply of a model as it is told: its texts and thoughts, first in pieces, then the rest from the record."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from ziggurat.messages.delta import TextDelta, ThinkingDelta
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Text, Thinking
from ziggurat.serve.narrated import Begin, End, Piece, Tale

Texts = Sequence[tuple[bool, str]]
"""Texts and thoughts in turn: whether it is a thought, and the text."""


class ToldReply:
    """The reply that is being told."""

    def __init__(self) -> None:
        self.place: str = ""
        self.step: int = 0
        self.tries: int = 0  # replies that were abandoned here, of which the record has nothing
        self.gap: bool = False  # whether pieces are missing, so that the rest waits for the record
        self.path: str = ""
        self._texts: list[tuple[bool, str]] = []

    @property
    def begun(self) -> bool:
        return bool(self._texts)

    def hear(self, delta: TextDelta | ThinkingDelta, path: str, step: int) -> Iterator[Tale]:
        """Yield a piece of the reply at a path; of another one than before, that was abandoned."""
        if path != self.path:
            yield from self.abandon()
            self.path, self.step = path, step
        yield from self._add(isinstance(delta, ThinkingDelta), delta.text)

    def abandon(self) -> Iterator[Tale]:
        """End a reply that is not complete."""
        if self._texts:
            yield from self._close()
            self.tries += 1
        self._forget()

    def finish(self, texts: Texts, step: int) -> Iterator[Tale]:
        """Yield the rest of the reply, which is known as a whole now."""
        if not _continues(texts, self._texts):
            yield from self.abandon()
        self.step, told = step, list(self._texts)
        for index in range(max(0, len(told) - 1), len(texts)):
            thinking, text = texts[index]
            rest = text[len(told[index][1]) :] if index < len(told) else text
            yield from self._add(thinking, rest) if rest else ()
        yield from self._close()
        self._forget()

    def _add(self, thinking: bool, text: str) -> Iterator[Tale]:
        if not self._texts or self._texts[-1][0] != thinking:
            yield from self._close()
            self._texts.append((thinking, ""))
            yield Begin(self._id(), self.step, thinking)
        self._texts[-1] = thinking, self._texts[-1][1] + text
        yield Piece(self._id(), thinking, text)

    def _close(self) -> Iterator[Tale]:
        if self._texts:
            yield End(self._id(), self._texts[-1][0])

    def _forget(self) -> None:
        self._texts, self.path, self.gap = [], "", False

    def _id(self) -> str:
        return f"{self.place}-{self.tries}-{len(self._texts)}"


def _continues(whole: Texts, told: Texts) -> bool:
    """Return whether what is told of a reply is the beginning of the whole."""
    if len(told) > len(whole):
        return False
    pairs = list(zip(whole, told, strict=False))
    fits = all(one[0] == other[0] and one[1].startswith(other[1]) for one, other in pairs)
    return fits and all(one == other for one, other in pairs[:-1])


def texts_of(message: Message) -> Texts:
    """Return the texts and thoughts of a message, those beside each other as one."""
    parts = [(isinstance(part, Thinking), part.text) for part in message.parts if isinstance(part, (Text, Thinking))]
    joined = groupby((part for part in parts if part[1]), key=lambda part: part[0])
    return [(thinking, "".join(text for _, text in group)) for thinking, group in joined]

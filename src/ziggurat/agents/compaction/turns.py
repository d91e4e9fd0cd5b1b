"""Reducers by turns: important turns stay, and notes take the place of the others."""

import math
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import Annotated

from msgspec import Meta, Struct

from ziggurat.agents.compaction.reducers import Excerpt, runtime_message, units
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, checked
from ziggurat.messages.conversation import characters
from ziggurat.messages.message import Message, Text, ToolCall, ToolResult

_IMPORTANT = 0.8  # `TurnCount` keeps turns of at least this importance, however old they are

_NAME = re.compile(r"[^\W\d_][\w&'\u2019-]*")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_TOPICS, _FACTS = 8, 10
_SHORTEST, _LONGEST = 5, 25  # the fewest and most words of a sentence that is kept as a fact

_SHORTEST_WORD, _LINE = 4, 80


class Turn(Struct, frozen=True):
    """A part of a conversation that stays or goes as a whole; its age is in hours if known, else in turns after it."""

    text: str
    age: float = 0.0
    messages: tuple[Message, ...] = ()


Importance = Callable[[Turn], float]  # returns how much a turn matters, from 0 to 1


_Weighted = Annotated[tuple[float, Importance], Meta(title="pair, such as (3, entity_density)")]


@checked
def keyword_density(*keywords: str) -> Importance:
    """Score a turn by ``min(1, different keywords in the text / words of the text)``; parts of words match too."""
    terms = sorted({keyword.lower() for keyword in keywords if keyword})
    if not terms:
        raise ConfigurationError("keyword_density() needs keywords, such as keyword_density('error', 'deadline')")

    def scored(turn: Turn) -> float:
        words = len(turn.text.split())
        text = turn.text.lower()
        return min(1.0, sum(keyword in text for keyword in terms) / words) if words else 0.0

    return scored


def entity_density(turn: Turn) -> float:
    """Score a turn by ``min(1, different capitalised phrases / words)``; the first word of the text is ignored."""
    words = len(turn.text.split())
    return min(1.0, len(entities_in(turn.text)) / words) if words else 0.0


@checked
def recency_decay(rate: NonNegativeFloat) -> Importance:
    """Score recent turns higher: ``exp(-rate * age)``, with the age in hours, or in turns if no times are known."""
    return lambda turn: math.exp(-rate * turn.age)


@checked
def weighted_importance(*parts: _Weighted) -> Importance:
    """Score turns by ``sum(|weight| * score) / sum(|weight|)``; 0 if there are no parts, or the weights are 0."""
    total = sum(abs(weight) for weight, _ in parts)
    return lambda turn: sum(abs(weight) * score(turn) for weight, score in parts) / total if total else 0.0


class Segment(Struct, frozen=True):
    """Consecutive turns that were removed, and the note that replaces them, with what is in it."""

    first: int
    count: int
    message: Message
    facts: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    common: tuple[str, ...] = ()


class Shortened(Struct, frozen=True):
    """The result of shortening: the messages and the indices of turns that stay, and the notes in place of others."""

    messages: tuple[Message, ...]
    kept: tuple[int, ...]
    segments: tuple[Segment, ...] = ()
    dropped: int = 0
    saved: int = 0


class TokenBudget(CheckedStruct, frozen=True, kw_only=True):
    """Keeps recent and important turns, replaces each range between them with a note, and keeps within a budget.

    A turn is a message with calls and their results, or any other message. Turns too short for any note stay. Above the
    budget, the oldest notes are removed first, then the oldest turns; the last turn stays. ::

        Compaction(reduce=TokenBudget(tokens=4096, recent=8, threshold=0.35,
                                      importance=keyword_density("error", "critical", "user", "result")))

    Attributes:
        tokens: The largest number of tokens that remain; None for the excerpt's `room`.
        recent: How many turns at the end are kept whatever their importance.
        threshold: The lowest importance of an older turn that is kept.
    """

    tokens: PositiveInt | None = None
    recent: NonNegativeInt = 10
    threshold: float = 0.3
    importance: Importance = entity_density

    async def __call__(self, excerpt: Excerpt, ctx: Context, /) -> tuple[Message, ...]:
        return self.shorten(excerpt.messages, room=excerpt.room).messages

    def shorten(
        self, messages: Sequence[Message], *, ages: Sequence[float] | None = None, room: int | None = None
    ) -> Shortened:
        """Shorten messages, with the results of every call in them; `ages` has the age of each turn, in hours."""
        turns = _turns_in(messages, ages)
        recent = len(turns) - max(self.recent, 1)
        stays = [self.importance(turn) >= self.threshold or at >= recent for at, turn in enumerate(turns)]
        kept, notes = deque[int](), deque[Segment]()
        for chosen, group in groupby(range(len(turns)), lambda at: stays[at]):
            places = [*group]
            note = None if chosen else _segment(places[0], turns[places[0] : places[-1] + 1])
            if note is None:
                kept.extend(places)
            else:
                notes.append(note)
        before, limit = len(kept) + len(notes), room if self.tokens is None else self.tokens
        used = sum(_size(turns[at].messages) for at in kept) + _size(each.message for each in notes)
        while limit is not None and used // 4 > limit and (notes or len(kept) > 1):  # the oldest notes first
            used -= characters(notes.popleft().message) if notes else _size(turns[kept.popleft()].messages)
        return _shortened(messages, turns, [*kept], [*notes], before - len(kept) - len(notes))


class TurnCount(CheckedStruct, frozen=True, kw_only=True):
    """Above `max_turns`, groups old turns into windows, drops near-duplicates, then restores important turns.

    Of near-duplicates of the same role, the more important is kept, or the later if they are equal. ::

        Compaction(reduce=TurnCount(max_turns=50, recent=10, important=lambda turn: "order" in turn.text))

    Attributes:
        max_turns: The largest number of turns that is left unchanged.
        recent: How many turns at the end are kept, except for duplicates.
        duplicate: Two turns are duplicates if both have at least this share, from 0 to 1, of the words of either.
        importance: Scores a turn; from 0.8 it is kept however old it is.
        important: Returns whether a turn is kept whatever its score.
    """

    max_turns: PositiveInt = 50
    recent: PositiveInt = 10
    window: PositiveInt = 5
    duplicate: PositiveFloat = 0.85
    importance: Importance = lambda turn: 0.0  # so that none counts as important
    important: Callable[[Turn], bool] | None = None

    async def __call__(self, excerpt: Excerpt, ctx: Context, /) -> tuple[Message, ...]:
        return self.shorten(excerpt.messages).messages

    def shorten(self, messages: Sequence[Message], *, ages: Sequence[float] | None = None) -> Shortened:
        """Shorten messages, which must include the results of every call in them."""
        turns = _turns_in(messages, ages)
        if len(turns) <= self.max_turns:
            return Shortened(tuple(messages), tuple(range(len(turns))))
        old = max(0, len(turns) - self.recent)
        worth = [self.importance(turn) for turn in turns]
        important = self.important or (lambda turn: False)
        kept = {at for at, turn in enumerate(turns) if worth[at] >= _IMPORTANT or important(turn)}
        windows: list[Segment] = []
        for first in range(0, old, self.window):
            places = range(first, min(first + self.window, old))
            window = _window(places, turns, kept)
            if window is None:
                kept.update(places)
            else:
                windows.append(window)
        distinct: list[Turn] = []
        for at in sorted(range(old, len(turns)), key=lambda place: (-worth[place], -place)):
            if not any(self._are_alike(turns[at], each) for each in distinct):
                distinct.append(turns[at])
                kept.add(at)
        return _shortened(messages, turns, sorted(kept), windows)

    def _are_alike(self, one: Turn, other: Turn) -> bool:
        return one.messages[0].role == other.messages[0].role and jaccard(one.text, other.text) >= self.duplicate


def entities_in(text: str) -> tuple[str, ...]:
    """Return the distinct capitalised phrases of a text, of at least two letters, in order; ignores its first word."""
    phrases: list[str] = []
    phrase: list[str] = []
    for number, word in enumerate(text.split()):
        name = _NAME.search(word)
        if number and name is not None and name[0][0].isupper() and len(name[0]) > 1:
            phrase.append(name[0])
            if word[-1].isalnum():
                continue
        if phrase:
            phrases.append(" ".join(phrase))
            phrase = []
    if phrase:
        phrases.append(" ".join(phrase))
    return tuple(dict.fromkeys(phrases))


def jaccard(one: str, other: str) -> float:
    """Return the similarity of two texts' words in lowercase: ``|both| / |either|``; 1 if neither has words."""
    words, others = set(_WORD.findall(one.lower())), set(_WORD.findall(other.lower()))
    either = words | others
    return len(words & others) / len(either) if either else 1.0


def _turns_in(messages: Sequence[Message], ages: Sequence[float] | None) -> list[Turn]:
    blocks = [tuple(messages[start:end]) for start, end in units(messages)]
    if ages is not None and len(ages) != len(blocks):
        raise ConfigurationError(f"ages has {len(ages)} numbers for {len(blocks)} turns: give one for each")
    ages = [float(after) for after in reversed(range(len(blocks)))] if ages is None else ages
    return [Turn(_text_of(block), age, block) for block, age in zip(blocks, ages, strict=True)]


def _text_of(messages: Iterable[Message]) -> str:
    parts = (part for message in messages for part in message.parts)
    texts = (
        f"{part.name} {part.arguments}" if isinstance(part, ToolCall) else part.text
        for part in parts
        if isinstance(part, Text | ToolCall | ToolResult)
    )
    return "\n".join(text for text in texts if text)


def _shortened(
    messages: Sequence[Message], turns: Sequence[Turn], kept: Sequence[int], notes: Sequence[Segment], dropped: int = 0
) -> Shortened:
    placed = [*((each.first, 0, (each.message,)) for each in notes), *((at, 1, turns[at].messages) for at in kept)]
    left = tuple(message for _, _, block in sorted(placed, key=lambda each: each[:2]) for message in block)
    saved = max(0, _size(messages) // 4 - _size(left) // 4)
    return Shortened(left, tuple(kept), tuple(notes), dropped, saved)


def _size(messages: Iterable[Message]) -> int:
    return sum(map(characters, messages))


def _segment(first: int, turns: Sequence[Turn]) -> Segment | None:
    """Return the segment with the longest note that is shorter than its turns; None if every note is too long."""
    messages = [message for turn in turns for message in turn.messages]
    entities = tuple(dict.fromkeys(name for turn in turns for name in entities_in(turn.text)))
    sentences = (" ".join(sentence.split()) for turn in turns for sentence in _SENTENCE.split(turn.text))
    long = (each for each in sentences if _SHORTEST <= len(each.split()) <= _LONGEST)
    facts = tuple(dict.fromkeys(long))[:_FACTS]
    roles = ", ".join(dict.fromkeys(message.role for message in messages))
    head = f"[{len(turns)} turn{'s' if len(turns) > 1 else ''} from {roles} left out.]"
    room = _size(messages)
    for topics, many in [*((_TOPICS, many) for many in range(len(facts), -1, -1)), (0, 0)]:
        names = ", ".join(entities[:topics])
        lines = [f"{head[:-1]} Topics: {names}.]" if names else head, *(f"- {fact}" for fact in facts[:many])]
        note = runtime_message("\n".join(lines), messages)
        if characters(note) < room:
            return Segment(first, len(turns), note, facts[:many], entities)
    return None


def _window(places: range, turns: Sequence[Turn], kept: Collection[int]) -> Segment | None:
    """Return old turns with the longest note, of a line for each that is not kept, that is shorter than they."""
    texts = {at: " ".join(turns[at].text.split()) for at in places}
    counted = Counter(word for text in texts.values() for word in dict.fromkeys(_WORD.findall(text.lower())))
    often = (word for word, count in counted.items() if 2 * count >= len(texts))
    common = tuple(word for word in often if len(word) >= _SHORTEST_WORD)
    head = f"[{len(texts)} earlier turn{'s' if len(texts) > 1 else ''}, in short]"
    missing = [at for at in places if at not in kept]
    lines = [text if len(text) <= _LINE else f"{text[: _LINE - 1]}…" for at in missing if (text := texts[at])]
    about = [message for at in missing for message in turns[at].messages]
    room = sum(len(turns[at].text) for at in missing)
    notes = ("\n".join([head, *(f"- {line}" for line in lines)]), head, f"[{len(texts)} turns]")
    note = next((each for each in notes if len(each) < room), None)
    return None if note is None else Segment(places.start, len(texts), runtime_message(note, about), common=common)

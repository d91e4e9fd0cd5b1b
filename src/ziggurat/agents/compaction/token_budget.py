"""TokenBudget: a reducer that keeps important and recent turns within a number of tokens."""

import re
from collections.abc import Sequence

from msgspec import Struct

from ziggurat.agents.compaction.importance import Importance, entities_in, entity_density, text_of, turns_of
from ziggurat.agents.compaction.reducer import Excerpt, runtime_message
from ziggurat.agents.compaction.selector import units
from ziggurat.core.context import Context
from ziggurat.core.settings import CheckedStruct, NonNegativeInt, PositiveInt
from ziggurat.messages.conversation import characters
from ziggurat.messages.message import Message

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_TOPICS, _FACTS = 8, 10
_SHORTEST, _LONGEST = 5, 25
"""The fewest and most words of a sentence that is kept as a fact."""


class Segment(Struct, frozen=True):
    """Consecutive turns that were removed, and the note that replaces them."""

    first: int
    count: int
    facts: tuple[str, ...]
    entities: tuple[str, ...]
    message: Message


class Shortened(Struct, frozen=True):
    """The result of shortening a conversation.

    Attributes:
        messages: The remaining messages, in the original order.
        kept: The indices of the turns that were kept, from 0.
        segments: The removed turns that have a note.
        dropped: How many turns and segments were removed without a note, because there was no room for them.
        saved: How many tokens shorter the conversation is.
    """

    messages: tuple[Message, ...]
    kept: tuple[int, ...]
    segments: tuple[Segment, ...]
    dropped: int
    saved: int


class TokenBudget(CheckedStruct, frozen=True, kw_only=True):
    """Keeps recent and important turns, replaces each range between them with a note, and keeps within a budget.

    A turn is a message with calls and their results, or any other message. A note is always shorter than the turns that
    it replaces; turns too short for any note stay. Above the budget, the oldest notes are removed first, then the
    oldest turns, whatever their importance; the last turn stays. ::

        Compaction(reduce=TokenBudget(tokens=4096, recent=8, threshold=0.35,
                                      importance=keyword_density("error", "critical", "user", "result")))

    Attributes:
        tokens: The largest number of tokens that remain; None for the excerpt's `room`.
        recent: How many turns at the end are kept whatever their importance.
        threshold: The lowest importance of an older turn that is kept.
        importance: Scores a turn.
    """

    tokens: PositiveInt | None = None
    recent: NonNegativeInt = 10
    threshold: float = 0.3
    importance: Importance = entity_density

    async def __call__(self, excerpt: Excerpt, ctx: Context, /) -> tuple[Message, ...]:
        """Return the remaining messages of an excerpt."""
        return self.shorten(excerpt.messages, room=excerpt.room).messages

    def shorten(
        self, messages: Sequence[Message], *, ages: Sequence[float] | None = None, room: int | None = None
    ) -> Shortened:
        """Shorten messages.

        Args:
            messages: The messages, including the results of every call in them.
            ages: The age of each turn, in hours.
            room: The largest number of tokens that remain if `tokens` is None.

        Raises:
            ConfigurationError: the number of ages and turns differs.
        """
        blocks = [tuple(messages[start:end]) for start, end in units(messages)]
        worth = [self.importance(turn) for turn in turns_of(blocks, ages)]
        recent = len(blocks) - self.recent
        verbatim = [at for at in range(len(blocks)) if at >= recent or worth[at] >= self.threshold]
        segments = _segments(blocks, set(verbatim))
        replaced = {at for each in segments for at in range(each.first, each.first + each.count)}
        verbatim = [at for at in range(len(blocks)) if at not in replaced]
        limit = room if self.tokens is None else self.tokens
        before = len(verbatim) + len(segments)
        if limit is not None:
            verbatim, segments = _remove_oldest(blocks, verbatim, segments, limit)
        places = [(at, blocks[at]) for at in verbatim] + [(each.first, (each.message,)) for each in segments]
        left = tuple(message for _, block in sorted(places, key=lambda place: place[0]) for message in block)
        saved = max(0, _tokens(messages) - _tokens(left))
        return Shortened(left, tuple(verbatim), tuple(segments), before - len(verbatim) - len(segments), saved)


def _segments(blocks: Sequence[tuple[Message, ...]], verbatim: set[int]) -> list[Segment]:
    segments: list[Segment] = []
    at = 0
    while at < len(blocks):
        end = at
        while end < len(blocks) and end not in verbatim:
            end += 1
        if end > at and (segment := _segment(at, blocks[at:end])) is not None:
            segments.append(segment)
        at = end + 1
    return segments


def _segment(first: int, blocks: Sequence[tuple[Message, ...]]) -> Segment | None:
    """Return the segment with the longest note that is shorter than its turns; None if every note is too long."""
    messages = [message for block in blocks for message in block]
    texts = [text_of(block) for block in blocks]
    entities = tuple(dict.fromkeys(name for text in texts for name in entities_in(text)))
    sentences = (" ".join(sentence.split()) for text in texts for sentence in _SENTENCE.split(text))
    long = (each for each in sentences if _SHORTEST <= len(each.split()) <= _LONGEST)
    facts = tuple(dict.fromkeys(long))[:_FACTS]
    roles = ", ".join(dict.fromkeys(message.role for message in messages))
    count = "1 turn" if len(blocks) == 1 else f"{len(blocks)} turns"
    head = f"[{count} from {roles} left out.]"
    room = sum(map(characters, messages))
    for topics, many in [*((_TOPICS, many) for many in range(len(facts), -1, -1)), (0, 0)]:
        names = ", ".join(entities[:topics])
        lines = [f"{head[:-1]} Topics: {names}.]" if names else head, *(f"- {fact}" for fact in facts[:many])]
        note = runtime_message("\n".join(lines), messages)
        if characters(note) < room:
            return Segment(first, len(blocks), facts[:many], entities, note)
    return None


def _remove_oldest(
    blocks: Sequence[tuple[Message, ...]], verbatim: list[int], segments: list[Segment], limit: int
) -> tuple[list[int], list[Segment]]:
    """Remove the oldest notes, then the oldest turns, until the rest fits."""
    sizes = [sum(map(characters, block)) for block in blocks]
    used = sum(sizes[at] for at in verbatim) + sum(characters(each.message) for each in segments)
    first_segment = 0
    while used // 4 > limit and first_segment < len(segments):
        used -= characters(segments[first_segment].message)
        first_segment += 1
    first = 0
    while used // 4 > limit and first < len(verbatim) - 1:
        used -= sizes[verbatim[first]]
        first += 1
    return verbatim[first:], segments[first_segment:]


def _tokens(messages: Sequence[Message]) -> int:
    return sum(map(characters, messages)) // 4

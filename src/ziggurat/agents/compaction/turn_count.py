"""TurnCount: a reducer that groups old turns into windows, drops near-duplicates and keeps important turns."""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from ziggurat.agents.compaction.importance import Importance, Turn, jaccard, turns_of
from ziggurat.agents.compaction.reducer import Excerpt, runtime_message
from ziggurat.agents.compaction.selector import units
from ziggurat.core.context import Context
from ziggurat.core.settings import CheckedStruct, PositiveFloat, PositiveInt
from ziggurat.messages.message import Message

IMPORTANT = 0.8
"""Turns with at least this importance are kept however old they are."""

_SHORTEST_WORD, _LINE = 4, 80


class Window(Struct, frozen=True):
    """Consecutive old turns, and the note that replaces them."""

    number: int
    first: int
    count: int
    common: tuple[str, ...]
    message: Message


class TurnCountResult(Struct, frozen=True):
    """The result of shortening a conversation.

    Attributes:
        messages: The remaining messages, in the original order.
        kept: The indices of the turns that were kept, from 0.
        windows: The windows that replace old turns.
        triggered: Whether there were too many turns; if not, nothing was changed.
    """

    messages: tuple[Message, ...]
    kept: tuple[int, ...]
    windows: tuple[Window, ...]
    triggered: bool


class TurnCount(CheckedStruct, frozen=True, kw_only=True):
    """Above `max_turns`, groups old turns into windows, drops near-duplicates, then restores important turns.

    A turn is a message with calls and their results, or any other message. Of near-duplicates of the same role, the
    more important is kept, or the later if they are equal. Important turns keep their place. ::

        Compaction(reduce=TurnCount(max_turns=50, recent=10, important=lambda turn: "order" in turn.text))

    Attributes:
        max_turns: The largest number of turns that is left unchanged.
        recent: How many turns at the end are kept, except for duplicates.
        window: How many old turns a window has.
        duplicate: Two turns with a `jaccard` of at least this are duplicates.
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
        """Return the remaining messages of an excerpt."""
        return self.shorten(excerpt.messages).messages

    def shorten(self, messages: Sequence[Message], *, ages: Sequence[float] | None = None) -> TurnCountResult:
        """Shorten messages, which must include the results of every call in them.

        Raises:
            ConfigurationError: the number of ages and turns differs.
        """
        blocks = [tuple(messages[start:end]) for start, end in units(messages)]
        turns = turns_of(blocks, ages)
        if len(blocks) <= self.max_turns:
            return TurnCountResult(tuple(messages), tuple(range(len(blocks))), (), False)
        old = max(0, len(blocks) - self.recent)
        worth = [self.importance(turn) for turn in turns]
        roles = [block[0].role for block in blocks]
        distinct = self._distinct(turns, worth, roles, old)
        restored = {at for at, turn in enumerate(turns) if self._matters(turn, worth[at])}
        places = sorted({*distinct, *restored})
        windows = [
            _window(number, first, turns[first : min(first + self.window, old)], blocks, restored)
            for number, first in enumerate(range(0, old, self.window))
        ]
        ordered = [(at, 1, blocks[at]) for at in places] + [(each.first, 0, (each.message,)) for each in windows]
        left = tuple(message for _, _, block in sorted(ordered, key=lambda each: each[:2]) for message in block)
        return TurnCountResult(left, tuple(places), tuple(windows), True)

    def _matters(self, turn: Turn, worth: float) -> bool:
        return worth >= IMPORTANT or (self.important is not None and self.important(turn))

    def _distinct(self, turns: Sequence[Turn], worth: Sequence[float], roles: Sequence[str], old: int) -> list[int]:
        """Return the indices of the recent turns, without near-duplicates of a turn that is kept."""
        distinct: list[int] = []
        for at in sorted(range(old, len(turns)), key=lambda place: (-worth[place], -place)):
            same = (jaccard(turns[at].text, turns[one].text) for one in distinct if roles[one] == roles[at])
            if not any(likeness >= self.duplicate for likeness in same):
                distinct.append(at)
        return distinct


def _window(
    number: int, first: int, turns: Sequence[Turn], blocks: Sequence[tuple[Message, ...]], restored: set[int]
) -> Window:
    """Return a window with one line per old turn, except for those that are restored."""
    texts = [" ".join(turn.text.split()) for turn in turns]
    counted = Counter(word for text in texts for word in dict.fromkeys(_words(text)))
    common = tuple(word for word, count in counted.items() if 2 * count >= len(texts))
    head = f"[{len(texts)} earlier turn{'s' if len(texts) > 1 else ''}, in short]"
    missing = [at for at in range(first, first + len(texts)) if at not in restored]
    lines = [text if len(text) <= _LINE else f"{text[: _LINE - 1]}…" for at in missing if (text := texts[at - first])]
    about = [message for at in missing for message in blocks[at]]
    message = runtime_message("\n".join([head, *(f"- {line}" for line in lines)]), about)
    return Window(number, first, len(texts), common, message)


def _words(text: str) -> list[str]:
    return [
        word for word in "".join(c if c.isalnum() else " " for c in text.lower()).split() if len(word) >= _SHORTEST_WORD
    ]

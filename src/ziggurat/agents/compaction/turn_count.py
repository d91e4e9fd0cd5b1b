"""A reducer that keeps a number of turns: windows for old ones, no near-duplicates, important ones stay."""

__all__ = ["TurnCount", "TurnCountResult", "Window"]

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from ziggurat.agents.compaction.checks import check_number, check_whole
from ziggurat.agents.compaction.importance import Importance, Turn, jaccard, turns_of
from ziggurat.agents.compaction.reducer import Excerpt, told
from ziggurat.agents.compaction.selector import units
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.message import Message

IMPORTANT = 0.8
"""Turns with at least this importance are kept however old they are."""

_SHORTEST_WORD, _LINE = 4, 80


def _nothing(turn: Turn) -> float:
    """Hold no turn for important."""
    return 0.0


class Window(Struct, frozen=True):
    """Consecutive old turns, and what is told of them.

    Attributes:
        number: Its number, from 0.
        first: The place of the first of them among the turns.
        count: How many they are.
        common: The words, of four letters at least, that are in half of them or more.
        message: What stands in their place.
    """

    number: int
    first: int
    count: int
    common: tuple[str, ...]
    message: Message


class TurnCountResult(Struct, frozen=True):
    """What became of a conversation.

    Attributes:
        messages: What is left, in the original order.
        kept: The places of the turns that were kept, counted from 0.
        windows: What the old ones became.
        triggered: Whether there were too many turns; nothing was done otherwise.
    """

    messages: tuple[Message, ...]
    kept: tuple[int, ...]
    windows: tuple[Window, ...]
    triggered: bool


class TurnCount(Struct, frozen=True, kw_only=True):
    """Above so many turns, in this order: puts old ones into windows, drops near-duplicates, restores what matters.

    A turn is a message with calls and their results, or any other message. Of near-duplicates of the same role the
    more important is kept, of equals the later. What matters stands where it stood. ::

        Compaction(reduce=TurnCount(max_turns=50, recent=10, important=lambda turn: "order" in turn.text))

    Attributes:
        max_turns: How many turns there may be; nothing is done unless there are more.
        recent: How many at the end are kept as they are, but for duplicates.
        window: How many old turns a window has.
        duplicate: Two turns with a `jaccard` of at least this are the same.
        importance: What a turn is worth; from 0.8 on it is kept however old it is.
        important: Says of a turn that it is to be kept whatever it is worth.
    """

    max_turns: int = 50
    recent: int = 10
    window: int = 5
    duplicate: float = 0.85
    importance: Importance = _nothing
    important: Callable[[Turn], bool] | None = None

    def __post_init__(self) -> None:
        for name in ("max_turns", "recent", "window"):
            check_whole(f"TurnCount({name}=...)", getattr(self, name))
        if not callable(self.importance) or not (self.important is None or callable(self.important)):
            raise ConfigurationError(
                "TurnCount(importance=..., important=...) take functions of a turn, such as entity_density"
            )
        if not check_number("TurnCount(duplicate=...)", self.duplicate) > 0:
            raise ConfigurationError(f"TurnCount(duplicate=...) is above 0, got {self.duplicate!r}")

    async def __call__(self, excerpt: Excerpt, ctx: Context, /) -> tuple[Message, ...]:
        """Return what is left of an excerpt."""
        return self.shorten(excerpt.messages).messages

    def shorten(self, messages: Sequence[Message], *, ages: Sequence[float] | None = None) -> TurnCountResult:
        """Make messages fewer; every call in them has its results in them.

        Raises:
            ConfigurationError: there is not one age for each turn.
        """
        blocks = [tuple(messages[start:end]) for start, end in units(messages)]
        turns = turns_of(blocks, ages)
        if len(blocks) <= self.max_turns:
            return TurnCountResult(tuple(messages), tuple(range(len(blocks))), (), False)
        old = max(0, len(blocks) - self.recent)
        worth = [self.importance(turn) for turn in turns]
        roles = [block[0].role for block in blocks]
        kept = self._distinct(turns, worth, roles, old)
        restored = {at for at, turn in enumerate(turns) if self._matters(turn, worth[at])}
        places = sorted({*kept, *restored})
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
        """Return the places of the recent turns without those that are near-duplicates of one that is kept."""
        kept: list[int] = []
        for at in sorted(range(old, len(turns)), key=lambda place: (-worth[place], -place)):
            same = (jaccard(turns[at].text, turns[one].text) for one in kept if roles[one] == roles[at])
            if not any(likeness >= self.duplicate for likeness in same):
                kept.append(at)
        return kept


def _window(
    number: int, first: int, turns: Sequence[Turn], blocks: Sequence[tuple[Message, ...]], restored: set[int]
) -> Window:
    """Tell of old turns in a line for each, but for those that are kept as they are."""
    texts = [" ".join(turn.text.split()) for turn in turns]
    counted = Counter(word for text in texts for word in dict.fromkeys(_words(text)))
    common = tuple(word for word, count in counted.items() if 2 * count >= len(texts))
    head = f"[{len(texts)} earlier turn{'s' if len(texts) > 1 else ''}, in short]"
    gone = [at for at in range(first, first + len(texts)) if at not in restored]
    lines = [text if len(text) <= _LINE else f"{text[: _LINE - 1]}…" for at in gone if (text := texts[at - first])]
    about = [message for at in gone for message in blocks[at]]
    message = told("\n".join([head, *(f"- {line}" for line in lines)]), about)
    return Window(number, first, len(texts), common, message)


def _words(text: str) -> list[str]:
    return [
        word for word in "".join(c if c.isalnum() else " " for c in text.lower()).split() if len(word) >= _SHORTEST_WORD
    ]

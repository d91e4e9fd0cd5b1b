"""Importance functions: score how much a part of a conversation matters, from 0 to 1."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonNegativeFloat, checked
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Text, ToolCall, ToolResult

_NAME = re.compile(r"[^\W\d_][\w&'\u2019-]*")
_WORD = re.compile(r"[^\W_]+")


class Turn(Struct, frozen=True):
    """A part of a conversation that is kept or removed as a whole.

    Attributes:
        text: Its messages, tool calls and results as text.
        age: Its age in hours if known, otherwise the number of turns after it.
    """

    text: str
    age: float = 0.0


Importance = Callable[[Turn], float]
"""Returns how much a turn matters, from 0 to 1."""


Weighted = Annotated[tuple[float, Importance], Meta(title="pair, such as (3, entity_density)")]


@checked
def keyword_density(*keywords: str) -> Importance:
    """Score keywords: ``min(1, different keywords in the text / words of the text)``; parts of words match too.

    >>> keyword_density("error", "result")(Turn("The result was an error"))
    0.4
    """
    terms = sorted({keyword.lower() for keyword in keywords if keyword})
    if not terms:
        raise ConfigurationError("keyword_density() needs keywords, such as keyword_density('error', 'deadline')")

    def scored(turn: Turn) -> float:
        words = len(turn.text.split())
        text = turn.text.lower()
        return min(1.0, sum(keyword in text for keyword in terms) / words) if words else 0.0

    return scored


def entity_density(turn: Turn) -> float:
    """Score names: ``min(1, different capitalised phrases / words)``; the first word of the text is ignored.

    >>> entity_density(Turn("We met Ada Lovelace in London today"))
    0.2857142857142857
    """
    words = len(turn.text.split())
    return min(1.0, len(entities_in(turn.text)) / words) if words else 0.0


@checked
def recency_decay(rate: NonNegativeFloat) -> Importance:
    """Score recent turns higher: ``exp(-rate * age)``, with the age in hours, or in turns if no times are known.

    >>> round(recency_decay(0.5)(Turn("x", age=2)), 4)
    0.3679
    """
    return lambda turn: math.exp(-rate * turn.age)


@checked
def composite(*parts: Weighted) -> Importance:
    """Combine scores: ``sum(|weight| * score) / sum(|weight|)``; 0 if there are no parts, or the weights are 0.

    >>> composite((3, entity_density), (1, recency_decay(0)))(Turn("all in lowercase"))
    0.25
    """
    total = sum(abs(weight) for weight, _ in parts)

    def scored(turn: Turn) -> float:
        return sum(abs(weight) * score(turn) for weight, score in parts) / total if total else 0.0

    return scored


def entities_in(text: str) -> tuple[str, ...]:
    """Return the distinct capitalised phrases of a text, of at least two letters, in order; ignores its first word.

    >>> entities_in("Yesterday Ada Lovelace met Babbage. Ada Lovelace smiled.")
    ('Ada Lovelace', 'Babbage')
    """
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
    """Return the similarity of two texts' words in lowercase: ``|both| / |either|``; 1 if neither has words.

    >>> jaccard("The cat sat", "the CAT ran")
    0.5
    """
    words, others = set(_WORD.findall(one.lower())), set(_WORD.findall(other.lower()))
    either = words | others
    return len(words & others) / len(either) if either else 1.0


def text_of(messages: Iterable[Message]) -> str:
    """Return messages as text: their texts, calls with arguments, and results."""
    return "\n".join(text for message in messages for part in message.parts if (text := _text(part)))


def turns_of(blocks: Sequence[Sequence[Message]], ages: Sequence[float] | None) -> list[Turn]:
    """Return a `Turn` for each block of messages."""
    if ages is not None and len(ages) != len(blocks):
        raise ConfigurationError(f"ages has {len(ages)} numbers for {len(blocks)} turns: give one for each")
    last = len(blocks) - 1
    return [Turn(text_of(block), float(last - at) if ages is None else ages[at]) for at, block in enumerate(blocks)]


def _text(part: object) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, ToolCall):
        return f"{part.name} {part.arguments}"
    return part.text if isinstance(part, ToolResult) else ""

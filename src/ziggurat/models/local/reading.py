"""A request as it is read for one tool, and the values found in it."""

__all__ = ["STEM", "Candidate", "Embed", "Reading", "Values", "read", "stems"]

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any

import msgspec

from ziggurat.models.local.minilm import Vector, cosine
from ziggurat.models.local.spans import Span, SpanKind, spans_in

Embed = Callable[[Sequence[str]], list[Vector]]


class Candidate(msgspec.Struct, frozen=True):
    """A value a parameter could take.

    Attributes:
        value: The value, of the type the schema asks for.
        worth: How likely it is meant, from 0 to about 1.3.
        spans: The spans of the request that it uses.
    """

    value: Any
    worth: float
    spans: tuple[Span, ...] = ()


Values = Iterator[Candidate]
STEM = 6
"""The number of letters by which words are compared, so that endings do not matter."""


class Reading(msgspec.Struct, frozen=True):
    """A request with the spans found in it; made by `read`.

    Attributes:
        text: The request.
        spans: The spans found in it.
        embed: Computes embeddings of texts.
        today: The day to which "tomorrow" is relative, for formatted dates; None if unknown.
        own: Stems of the words that describe a tool, which are seldom its arguments.
        purpose: Stems of those words that name it and say what it does.
    """

    text: str
    spans: tuple[Span, ...]
    embed: Embed
    today: date | None = None
    own: frozenset[str] = frozenset()
    purpose: frozenset[str] = frozenset()

    def is_own(self, text: str) -> bool:
        """Return whether all words of a text are in the tool's description."""
        words = stems(text)
        return bool(words) and words <= self.own

    def near(self, one: str, other: str) -> float:
        """Return the similarity in meaning of two texts, from -1 to 1."""
        first, second = self.embed([one, other])
        return cosine(first, second)

    def of(self, *kinds: SpanKind) -> list[Span]:
        """Return the spans of some kinds."""
        return [span for span in self.spans if span.kind in kinds]

    def before(self, start: int) -> list[str]:
        """Return the two words before a position, in lower case."""
        return re.findall(r"[\w'\u2019]+", self.text[:start].lower())[-2:]

    def after(self, span: Span) -> str:
        """Return the word after a span, in lower case."""
        found = re.match(r"[\s-]*([\w'\u2019]+)", self.text[span.end :].lower())
        return found.group(1) if found else ""

    def within(self, start: int, end: int) -> tuple[Span, ...]:
        """Return the spans that overlap a part of the request."""
        return tuple(span for span in self.spans if span.start < end and start < span.end)


def stems(text: str) -> frozenset[str]:
    """Return stems of the words of a text: `camera` and `cameras`, `cancel` and `cancelling` have the same."""
    return frozenset(word.removesuffix("s")[:STEM] for word in re.findall(r"[a-z]+", text.lower()))


def read(request: str, embed: Embed, today: date | None = None) -> Reading:
    """Find the spans of a request."""
    return Reading(text=request, spans=tuple(spans_in(request)), embed=embed, today=today)

"""The parts of a request that can be copied: words, numbers, and runs of words."""

import functools
import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from ziggurat.models.local.arithmetic import in_digits
from ziggurat.models.local.wordpiece import pieces

_WORD = re.compile(
    r"\"[^\"]+\"|\u201c[^\u201d]+\u201d|«[^»]+»|`[^`]+`|(?<!\w)'[^']+(?:'\w[^']*)*'(?!\w)|(?<!\w)\u2018[^\u2019]+\u2019|\S+"
)
"""A quoted text counts as one word."""
_EDGES = " \t\n\"'`\u201c\u201d\u2018\u2019«».,;:!?()[]¿¡"
_NUMBER = re.compile(r"[^\w\s.-]?(-?\d+(?:,\d{3})*(?:\.\d+)?)[^\d,.:/-]{0,3}")
"""A number, with a sign of currency before it or a short unit after it."""
_LONGEST = 24
_FIRST_WORD, _LAST_WORD = 1990, 30_000
"""The vocabulary lists whole words by falling frequency from about here to its end."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """A part of a request: from `start` up to `end`, in characters."""

    start: int
    end: int

    def overlaps(self, others: Sequence["Span"]) -> bool:
        """Return whether it shares a character with one of the others."""
        return any(self.start < other.end and other.start < self.end for other in others)


class Words:
    """A request as words, without the punctuation around them."""

    def __init__(self, text: str) -> None:
        self.text = text
        spans = (_without_edges(text, match.start(), match.end()) for match in _WORD.finditer(text))
        self.spans: list[Span] = [span for span in spans if span.end > span.start]
        self._number = {place: number for number, span in enumerate(self.spans) for place in (span.start, span.end)}

    def numbers(self) -> Iterator[tuple[str, Span]]:
        """Yield the numbers in the request, also those written as English words, as digits."""
        for span in self.spans:
            number = _NUMBER.fullmatch(in_digits(self.text[span.start : span.end]))
            if number is not None:
                yield number[1].replace(",", ""), span

    def runs(self, used: Sequence[Span]) -> Iterator[Span]:
        """Yield the runs of up to 24 words that overlap nothing used and do not cut a name of several words."""
        for first, begin in enumerate(self.spans):
            for last in range(first, min(len(self.spans), first + _LONGEST)):
                run = Span(begin.start, self.spans[last].end)
                if run.overlaps(used):
                    break
                if not self._in_name(first) and not self._in_name(last + 1):
                    yield run

    def ends(self, run: Span) -> tuple[str, str, int]:
        """Return the first and the last word of a run, and its number of words."""
        first, last = self._number[run.start], self._number[run.end]
        one, other = self.spans[first], self.spans[last]
        return self.text[one.start : one.end], self.text[other.start : other.end], last - first + 1

    def around(self, word: Span) -> str:
        """Return a word with the two words before and after it."""
        number = self._number[word.start]
        near = self.spans[max(0, number - 2) : number + 3]
        return self.text[near[0].start : near[-1].end]

    def _in_name(self, number: int) -> bool:
        """Return whether a word and the one before it both begin with a capital, the first word aside."""
        if not 1 < number < len(self.spans):
            return False
        before, span = self.spans[number - 1], self.spans[number]
        if self.text[before.end : span.start] not in (" ", ". "):
            return False
        return self.text[before.start].isupper() and self.text[span.start].isupper()


def _without_edges(text: str, start: int, end: int) -> Span:
    word = text[start:end]
    return Span(start + len(word) - len(word.lstrip(_EDGES)), end - len(word) + len(word.rstrip(_EDGES)))


@functools.lru_cache(4096)
def rarity(word: str) -> float:
    """Return how rare a word is, from 0 (such as "the") to 1; a word that is not in the vocabulary is rare.

    The vocabulary of the sentence model is ordered by frequency, so that no list of words is needed.
    """
    numbers = pieces(word, 8)
    place = numbers[1] if len(numbers) == 3 else _LAST_WORD
    return math.log(max(1, place - _FIRST_WORD)) / math.log(_LAST_WORD)

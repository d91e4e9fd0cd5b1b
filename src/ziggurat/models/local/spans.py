"""The parts of a request that can be copied: words, numbers, runs of words, and sums (``12 times 7`` is ``12 * 7``)."""

import ast
import functools
import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from ziggurat.models.local.wordpiece import pieces

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: value for value, word in enumerate(_SMALL)} | {word: 20 + 10 * at for at, word in enumerate(_TENS)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_NUMERAL = "|".join((*_VALUES, *_SCALES))
_AND = r"(?:(?<=hundred)|(?<=thousand)|(?<=million)) and "
_IN_WORDS = re.compile(rf"\b(?:{_NUMERAL})\b(?:(?:{_AND}|[ -])(?:{_NUMERAL})\b)*", re.IGNORECASE)

_SIGNS_OF_WORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), sign)
    for pattern, sign in (
        (r"[$€£](?=\d)", ""),
        (r"(?:%|\bpercent|\bper cent) of\b", "/ 100 *"),
        (r"\bsquared\b", "** 2"),
        (r"\bto the power(?: of)?\b|\^", "**"),
        (r"\b(?:multiplied by|times)\b|[\u00d7·]|(?<=[\d)]) ?x ?(?=[\d(-])", "*"),
        (r"\b(?:divided by|over)\b|÷", "/"),
        (r"\bplus\b", "+"),
        (r"\bminus\b|[\u2212\u2013]", "-"),
    )
)

_LONGEST_EDGE = 5
"""Up to how many signs on each side of an expression may be punctuation."""

_SIGNS = ("+", "-", "*", "/", "%", "(", ")", "**", "//")
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\*\*|//|[-+*/%()]|[A-Za-z]+|\S")


def in_digits(text: str) -> str:
    """Replace numbers written as words by digits (``two hundred and five`` becomes ``205``)."""
    return _IN_WORDS.sub(lambda match: str(_value(match.group().lower())), text)


def _value(words: str) -> int:
    total = part = 0
    for word in re.findall(r"[a-z]+", words):
        if word in _VALUES:
            part += _VALUES[word]
        elif word == "hundred":
            part = (part or 1) * 100
        elif word in _SCALES:
            total += (part or 1) * _SCALES[word]
            part = 0
    return total + part


def expression_in(text: str) -> str | None:
    """Return the arithmetic expression in a text, in Python notation, or None if it would leave out a number."""
    text = in_digits(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
    for pattern, sign in _SIGNS_OF_WORDS:
        text = pattern.sub(sign, text)
    runs: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token[0].isdigit() or token in _SIGNS:
            runs[-1].append(token)
        else:
            runs.append([])
    with_numbers = [run for run in runs if any(token[0].isdigit() for token in run)]
    return _expression(with_numbers[0]) if len(with_numbers) == 1 else None


def _expression(run: Sequence[str]) -> str | None:
    """Return the expression in a run of tokens, without the signs around it that are punctuation."""
    numbers = [place for place, token in enumerate(run) if token[0].isdigit()]
    for start in range(min(numbers[0], _LONGEST_EDGE) + 1):
        for end in range(len(run), max(numbers[-1], len(run) - _LONGEST_EDGE), -1):
            try:
                tree = ast.parse(" ".join(run[start:end]), mode="eval")
                kinds = {type(node) for node in ast.walk(tree)}
                text = ast.unparse(tree)
                if ast.BinOp in kinds and not kinds & {ast.Call, ast.Tuple} and "e" not in text:  # 1e+16
                    return text
            except (SyntaxError, RecursionError, MemoryError):  # no expression, or nested hundreds of levels deep
                continue
    return None


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

"""Filling the fields of a schema with parts of a request: nothing is invented, what is not found is missing."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from ziggurat.models.local.minilm import Vector, cosine
from ziggurat.models.local.schema import Field, words_of
from ziggurat.models.local.spans import Span, Words, expression_in, rarity

Embed = Callable[[Sequence[str]], list[Vector]]

_FORMATS = {
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "uri": re.compile(r"https?://[^\s<>\"']*[^\s<>\"'.,;:!?)]"),
    "date": re.compile(r"\b\d{4}-\d{2}-\d{2}\b"),
    "time": re.compile(r"\b\d{2}:\d{2}(?::\d{2})?\b"),
    "date-time": re.compile(r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}\S*"),
}
_EXPRESSION = re.compile(r"\b(?:expression|formula|arithmetic|equation|calculation)\b", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:no|not|off|false|without|\w+n['\u2019]t)\b", re.IGNORECASE)
_CHOICE = 0.25
"""The lowest similarity of a request to a choice that it does not name."""

_NEAR, _EDGES, _OWN, _CAPITAL, _START, _WORDS = 4.6, 3.9, -3.3, 2.3, -1.5, -1.0
"""Weights of a run of words as a value, fitted on the requests of `tests/data/local_domains.jsonl`.

Similarity to the field; rarity of the first and the last word; share of the words that describe the tool; share of
capitals; whether it begins the request; logarithm of its number of words.
"""
_QUOTED = 10.0
"""What is added for a quoted text as a message."""
_PROSE, _NAME, _LONG = (
    ("the text of a message or a note", "a sentence of several words", "what it should do, in full"),
    "a name",
    0.22,
)
"""A field takes a long text if it is this much more similar to one of the first than to a name."""
_RUNS, _OPTIONS, _WIDTH = 12, 6, 32
"""How many runs are compared by meaning, how many per field are combined, and how many combinations are kept."""
_NUMBERS = 8
"""How many numbers are compared by meaning."""


class _Option(msgspec.Struct, frozen=True):
    """A value that a field could take, from a part of the request, with its score."""

    value: Any
    score: float
    spans: tuple[Span, ...]


class Copied(msgspec.Struct, frozen=True):
    """The values found for some fields."""

    values: dict[str, Any]
    missing: tuple[str, ...]


class Copier:
    """Finds the values of some fields in a request."""

    def __init__(self, text: str, fields: Sequence[Field], embed: Embed, purpose: str = "") -> None:
        self.words: Words = Words(text)
        self._fields = fields
        self._embed = embed
        self._own = set(_words(" ".join((purpose, *(field.label for field in fields)))))
        self.values: dict[str, Any] = {}
        self._used: list[Span] = []
        for field in fields:
            self._keep(field, next(self._literal(field), None))
        numbers = [field for field in fields if field.kind == "number"]
        self._assign(numbers, [list(self._numbers(field)) for field in numbers])

    @property
    def strict(self) -> tuple[Field, ...]:
        """The required fields whose values can be recognised in a request: numbers, expressions, known formats."""
        return tuple(
            field for field in self._fields if field.required and (field.kind == "number" or _is_formal(field))
        )

    @property
    def unused(self) -> int:
        """How many numbers of the request are no value."""
        return sum(not span.overlaps(self._used) for _, span in self.words.numbers())

    def recognised(self) -> Copied:
        """Return the values that are stated literally: numbers, choices that are named, expressions, known formats."""
        values = {field.name: self.values[field.name] for field in self._fields if field.name in self.values}
        return Copied(values, tuple(field.name for field in self._open()))

    def copy(self) -> Copied:
        """Fill the remaining required fields with what is most similar to them, and return all values."""
        for field in self._open():
            if field.kind == "choice" or field.kind == "boolean":
                self._keep(field, self._meant(field))
        texts = [field for field in self._open() if field.kind == "text" and not _is_formal(field)]
        self._assign(texts, [self._texts(field) for field in texts])
        return self.recognised()

    def _open(self) -> list[Field]:
        return [field for field in self._fields if field.required and field.name not in self.values]

    def _keep(self, field: Field, option: _Option | None) -> None:
        if option is not None:
            self.values[field.name] = option.value
            self._used += option.spans

    def _assign(self, fields: Sequence[Field], options: Sequence[Sequence[_Option]]) -> None:
        """Give fields the values with the best total score that share no words."""
        best: list[tuple[float, tuple[_Option | None, ...], tuple[Span, ...]]] = [(0.0, (), ())]
        for field, some in zip(fields, options, strict=True):
            skipped = -100.0 if field.required else 0.0
            longer = [(score + skipped, (*chosen, None), used) for score, chosen, used in best]
            for score, chosen, used in best:
                longer += [
                    (score + option.score, (*chosen, option), used + option.spans)
                    for option in some
                    if not any(span.overlaps(used) for span in option.spans)
                ]
            best = sorted(longer, key=lambda each: -each[0])[:_WIDTH]
        for field, option in zip(fields, best[0][1], strict=True):
            self._keep(field, option)

    def _literal(self, field: Field) -> Iterator[_Option]:
        """Yield what a request states literally: the choice named last, an expression, a value in a known format."""
        text = self.words.text
        if field.kind == "choice":
            named = [(match.start(), choice, match) for choice in field.choices for match in _named(choice, text)]
            for _, choice, match in sorted(named, key=lambda each: -each[0]):
                yield _Option(choice, 1.0, (Span(match.start(), match.end()),))
        elif _is_expression(field):
            expression = expression_in(text)
            if expression is not None:
                yield _Option(expression, 1.0, (Span(0, len(text)),))
        elif _is_formal(field):
            for match in _FORMATS[field.schema["format"]].finditer(text):
                yield _Option(match.group(), 1.0, (Span(*match.span()),))

    def _numbers(self, field: Field) -> Iterator[_Option]:
        """Yield the numbers for a field, scored by the similarity of the words around them to the field."""
        label = self._embed([field.label])[0]
        for value, span in islice(self._allowed(field), _NUMBERS):
            near = cosine(self._embed([self.words.around(span)])[0], label)
            yield _Option(value, 1.0 + near, (span,))

    def _allowed(self, field: Field) -> Iterator[tuple[int | float, Span]]:
        low, high = field.schema.get("minimum", float("-inf")), field.schema.get("maximum", float("inf"))
        for digits, span in self.words.numbers():
            value = float(digits) if "." in digits else int(digits)
            whole = isinstance(value, int) or field.schema.get("type") != "integer"
            if whole and low <= value <= high and not span.overlaps(self._used):
                yield value, span

    def _meant(self, field: Field) -> _Option | None:
        """Return the choice nearest in meaning to the request; for yes or no, whether it is negated."""
        if field.kind == "boolean":
            return _Option(_NEGATED.search(self.words.text) is None, 1.0, ())
        request, *choices = self._embed([self.words.text, *(words_of(str(choice)) for choice in field.choices)])
        near, best = max((cosine(request, vector), -number) for number, vector in enumerate(choices))
        return _Option(field.choices[-best], near, ()) if near >= _CHOICE else None

    def _texts(self, field: Field) -> list[_Option]:
        """Return runs of words as values of a field, best first; for a message or a note, long ones."""
        label, name, *prose = self._embed([field.label, _NAME, *_PROSE])
        is_long = max(cosine(label, each) for each in prose) - cosine(label, name) > _LONG
        rate = self._rate_long if is_long else self._rate
        options = []
        for run in sorted(self.words.runs(self._used), key=rate, reverse=True)[:_RUNS]:
            value = self.words.text[run.start : run.end]
            near = 0.0 if is_long else cosine(self._embed([value])[0], label)
            options.append(_Option(value, rate(run) + _NEAR * near, (run,)))
        return sorted(options, key=lambda option: -option.score)[:_OPTIONS]

    def _rate_long(self, run: Span) -> float:
        """Return how likely a run of words is a message: the longer the better, from after the words of the tool."""
        first, _, count = self.words.ends(run)
        spoken = run.start == self.words.spans[0].start or first.lower() in self._own
        quoted = count == 1 and " " in self.words.text[run.start : run.end]
        return math.log(count) + (_START if spoken else 0.0) + (_QUOTED if quoted else 0.0)

    def _rate(self, run: Span) -> float:
        """Return how likely a run of words is a value, whatever the field."""
        first, last, count = self.words.ends(run)
        words = re.findall(r"\w+", self.words.text[run.start : run.end]) or [""]
        score = _EDGES * ((1.0 if first[0].isupper() else rarity(first)) + rarity(last)) + _WORDS * math.log(count)
        score += _OWN * sum(word.lower() in self._own for word in words) / len(words)
        if run.start == self.words.spans[0].start:
            return score + _START
        capitals = sum(word[:1].isupper() or word[:1].isdigit() for word in words)
        return float(score + _CAPITAL * capitals / len(words))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _named(choice: Any, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(rf"(?<!\w){re.escape(words_of(str(choice)))}(?!\w)", text, re.IGNORECASE)


def _is_expression(field: Field) -> bool:
    return field.kind == "text" and _EXPRESSION.search(field.label) is not None


def _is_formal(field: Field) -> bool:
    return field.kind == "text" and (field.schema.get("format") in _FORMATS or _is_expression(field))

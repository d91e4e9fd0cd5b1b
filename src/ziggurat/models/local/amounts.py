"""Numbers as arguments: choose among the numbers in a request, and convert their units."""

__all__ = ["amounts_for"]

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ziggurat.models.local.kinds import SchemaParameter, words_of
from ziggurat.models.local.lexicon import word_set
from ziggurat.models.local.reading import Candidate, Reading, Values
from ziggurat.models.local.spans import Span

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_ORDER = 0.02
"""The penalty for assigning values in another order than in the text."""
_SMALL = word_set("after numbers")
_NAMED = 0.3
"""The bonus for a number after the parameter's own name; the penalty for one after another parameter's name."""
_SHARE = re.compile(r"%|\b(?:percent|percentage|per cent|share)\b", re.IGNORECASE)
_IDENTITY = re.compile(r"\b(?:(?:number|code|id) of the|id|identifier|reference)\b", re.IGNORECASE)
"""Matches descriptions of numbers that identify something, and count nothing."""
_LINK = frozenset({"number", "no", "nr", "of", "is", "to", "id", "the", "by", "at"})


def amounts_for(parameter: SchemaParameter, reading: Reading, others: Sequence[SchemaParameter]) -> Values:
    """Yield the numbers of a request as values of a parameter."""
    if re.search(r"\byear\b", words_of(parameter.name)):
        yield from _years(parameter, reading)
    place = [other.name for other in others if other.want == "number"].index(parameter.name)
    measure = next((word for word in re.findall(r"[a-z]+", parameter.words.lower()) if _scale(word)), "")
    for rank, span in enumerate(reading.of("number")):
        value = float(span.text.replace(",", ""))
        unit = reading.after(span)
        worth = 0.8 - _ORDER * abs(place - rank) + _context_bonus(parameter, reading, span, others)
        if measure and _scale(unit):
            value = value * _scale(unit) / _scale(measure)
            worth = 1.1
        elif measure and unit.isalpha() and unit not in _SMALL:
            worth = 0.3
        elif unit.isalpha() and unit not in _SMALL and len(parameter.words) > 2:
            counts = unit.endswith("s") or unit == "more"
            identity = counts and _IDENTITY.search(parameter.words) is not None
            worth += -_NAMED if identity else 0.4 * max(0.0, reading.near(unit, parameter.words))
        if parameter.whole and value != int(value):
            continue
        if _within(value, parameter.schema):
            yield Candidate(value=int(value) if value == int(value) else value, worth=worth, spans=(span,))


def _context_bonus(
    parameter: SchemaParameter, reading: Reading, span: Span, others: Sequence[SchemaParameter]
) -> float:
    """Return how much the words around a number count for or against a parameter."""
    bonus = 0.0
    if _SHARE.match(reading.text[span.end :].lstrip(" -")):
        bonus += _NAMED if _SHARE.search(parameter.words) else -_NAMED
    lead = list(_lead(reading, span))
    for other in others:
        if lead and other.want == "number" and lead[-1] in words_of(other.name).split():
            return bonus + (_NAMED if other.name == parameter.name else -_NAMED)
    return bonus


def _lead(reading: Reading, span: Span) -> Iterator[str]:
    """Yield the significant word before a number: ``order`` in "order number 12"."""
    words = reading.before(span.start)
    while words and words[-1] in _LINK:
        words.pop()
    yield from words[-1:]


def _years(parameter: SchemaParameter, reading: Reading) -> Values:
    for span in reading.of("date"):
        for found in re.finditer(r"\b(?:1[89]|2[01])\d\d\b", span.text):
            start = span.start + found.start()
            part = Span(kind="number", text=found.group(), start=start, end=start + 4)
            if _within(int(found.group()), parameter.schema):
                yield Candidate(value=int(found.group()), worth=1.1, spans=(part,))


def _scale(word: str) -> int:
    return _SECONDS.get(word.removesuffix("s"), 0)


def _within(value: float, schema: Mapping[str, Any]) -> bool:
    return (
        value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and (value > schema["exclusiveMinimum"] if "exclusiveMinimum" in schema else True)
        and (value < schema["exclusiveMaximum"] if "exclusiveMaximum" in schema else True)
    )

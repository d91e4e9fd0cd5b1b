"""List arguments, from enumerations such as ``milk, eggs and the blue cheese``."""

__all__ = ["lists_for"]

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ziggurat.models.local.kinds import SchemaParameter
from ziggurat.models.local.phrases import Run, runs_in
from ziggurat.models.local.reading import Candidate, Reading, Values
from ziggurat.models.local.spans import Span, SpanKind

_JOINED = re.compile(r"\s*(?:,|;|&|\+|,?\s*\b(?:and|or|plus|then|also)\b)\s*(?:(?:the|an?|my|our|your|some)\s+)?", re.I)
_KINDS: tuple[SpanKind, ...] = ("quoted", "email", "path", "url", "phone", "date", "name")


def lists_for(parameter: SchemaParameter, reading: Reading, taken: Sequence[Span]) -> Values:
    """Yield lists for a parameter: all numbers, all enum values that are named, or enumerations of similar things.

    Args:
        parameter: The parameter.
        reading: The request.
        taken: Spans that other parameters of the same tool claim.
    """
    items: Mapping[str, Any] = parameter.schema.get("items", {})
    if items.get("type") in ("number", "integer"):
        spans = sorted(reading.of("number"), key=lambda span: span.start)
        numbers = [float(span.text.replace(",", "")) for span in spans]
        values: list[Any] = [int(number) if number == int(number) else number for number in numbers]
        if values:
            yield Candidate(value=values, worth=0.8, spans=tuple(spans))
        return
    if "enum" in items:
        heard = reading.text.lower()
        values = [choice for choice in items["enum"] if re.search(rf"\b{re.escape(str(choice).lower())}", heard)]
        if values:
            yield Candidate(value=values, worth=0.8)
        return
    yield from _of_a_kind(reading)
    yield from _of_words(parameter, reading, taken)


def _of_a_kind(reading: Reading) -> Values:
    """Yield enumerations of quoted texts, addresses, files or names; longer ones are more likely."""
    for worth, kind in zip((0.9, 0.85, 0.85, 0.8, 0.7, 0.5, 0.7), _KINDS, strict=True):
        spans = sorted(reading.of(kind), key=lambda span: span.start)
        for row in _rows(reading.text, [(span.text, span.start, span.end) for span in spans]):
            used = tuple(span for span in spans if any(span.start == start for _, start, _ in row))
            yield Candidate(value=[text for text, _, _ in row], worth=worth + _more(row), spans=used)


def _of_words(parameter: SchemaParameter, reading: Reading, taken: Sequence[Span]) -> Values:
    runs = [run for run in runs_in(reading.text, taken) if not reading.is_own(run[0])]
    for row in _rows(reading.text, runs):
        near = max(reading.near(text, parameter.words) for text, _, _ in row)
        used = reading.within(row[0][1], row[-1][2])
        yield Candidate(value=[text for text, _, _ in row], worth=0.3 + 0.4 * near + 2 * _more(row), spans=used)


def _more(row: Sequence[Run]) -> float:
    return 0.05 * min(4, len(row) - 1)


def _rows(text: str, runs: Sequence[Run]) -> list[list[Run]]:
    """Group neighbours that have only commas and "and" between them."""
    rows = [[run] for run in runs[:1]]
    for one, other in pairwise(runs):
        if _JOINED.fullmatch(text[one[2] : other[1]]):
            rows[-1].append(other)
        else:
            rows.append([other])
    return rows

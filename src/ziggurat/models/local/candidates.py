"""Candidates: the values that a request offers for each parameter of a tool, with their worth."""

__all__ = ["candidates_for"]

import re
from collections.abc import Sequence

from ziggurat.models.local.amounts import amounts_for
from ziggurat.models.local.arithmetic import expression_in
from ziggurat.models.local.kinds import SchemaParameter
from ziggurat.models.local.listed import lists_for
from ziggurat.models.local.options import choices_for, truths_for
from ziggurat.models.local.reading import Candidate, Reading, Values
from ziggurat.models.local.texts import taken_by_others, texts_for

_WORK = re.compile(
    r"^\W*[\d.]|\b(?:what(?:'s| is| are| does)|calculate|compute|evaluate|solve|work out|how much)\b.{0,12}\d|=",
    re.IGNORECASE,
)
"""Matches requests for a calculation, whatever the numbers look like."""


def candidates_for(parameter: SchemaParameter, reading: Reading, others: Sequence[SchemaParameter]) -> list[Candidate]:
    """Return the most likely values of one parameter, best first, at most six.

    Args:
        parameter: The parameter.
        reading: The request.
        others: All parameters of the same tool.
    """
    found = list(_candidates(parameter, reading, others))
    best: dict[str, Candidate] = {}
    for candidate in found:
        key = repr(candidate.value)
        if key not in best or candidate.worth > best[key].worth:
            best[key] = candidate
    return sorted(best.values(), key=lambda candidate: -candidate.worth)[:6]


def _candidates(parameter: SchemaParameter, reading: Reading, others: Sequence[SchemaParameter]) -> Values:
    match parameter.want:
        case "number":
            yield from amounts_for(parameter, reading, others)
        case "enum":
            yield from choices_for(parameter, reading)
        case "boolean":
            yield from truths_for(parameter, reading)
        case "expression":
            yield from _expressions(reading)
        case "list":
            yield from lists_for(parameter, reading, taken_by_others(parameter, reading, others))
        case "other":
            return
        case _:
            yield from texts_for(parameter, reading, others)


def _expressions(reading: Reading) -> Values:
    text = reading.text
    for span in reading.of("date", "phone", "time", "path", "url", "email"):
        if not span.text.isalpha():
            text = text[: span.start] + "~" * (span.end - span.start) + text[span.end :]
    expression = expression_in(text)
    if expression is None and _WORK.search(reading.text):
        expression = expression_in(reading.text)  # 555-1234 may be a phone number, but not in a calculation
    if expression is not None:
        yield Candidate(value=expression, worth=1.2, spans=tuple(reading.of("number")))

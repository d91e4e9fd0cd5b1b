"""Filling a tool's parameters from the words of a request: the best set of values that share no words."""

__all__ = ["Filled", "fill"]

from collections.abc import Sequence
from typing import Any

import msgspec

from ziggurat.models.local.candidates import candidates_for
from ziggurat.models.local.kinds import SchemaParameter
from ziggurat.models.local.reading import Candidate, Reading
from ziggurat.models.local.spans import Span
from ziggurat.models.local.texts import opens

_MISSING = -0.6
"""The penalty for a required parameter without a value."""

_REQUIRED = 0.3
"""Values of less worth are guesses; a required parameter without a better one is missing."""
_OPTIONAL = 0.5
"""The lowest worth with which an optional parameter is filled."""


class Filled(msgspec.Struct, frozen=True):
    """The arguments found for one tool.

    Attributes:
        arguments: Values by parameter name, in the order of the schema.
        missing: Required parameters for which nothing was found.
        fit: How well the request fits the required parameters, from about -0.6 (nothing) to 1.2; 0.5 if there are none.
        coverage: The share of the significant spans of the request that became arguments, from 0 to 1.
    """

    arguments: dict[str, Any]
    missing: tuple[str, ...]
    fit: float
    coverage: float


def fill(parameters: Sequence[SchemaParameter], reading: Reading) -> Filled:
    """Give every parameter its best value; an optional one only if the request mentions it."""
    options = [candidates_for(parameter, reading, parameters) for parameter in parameters]
    _, chosen = _best(parameters, options, 0, ())
    arguments: dict[str, Any] = {}
    missing: list[str] = []
    worths: list[float] = []
    used: list[Span] = []
    for parameter, candidate in zip(parameters, chosen, strict=True):
        if candidate is not None:
            arguments[parameter.name] = candidate.value
            used += candidate.spans
        elif parameter.required:
            missing.append(parameter.name)
        if parameter.required:
            worths.append(_MISSING if candidate is None else candidate.worth)
    return Filled(
        arguments=arguments,
        missing=tuple(missing),
        fit=sum(worths) / len(worths) if worths else 0.5,
        coverage=_coverage(reading, used, arguments),
    )


def _best(
    parameters: Sequence[SchemaParameter], options: Sequence[Sequence[Candidate]], at: int, used: tuple[Span, ...]
) -> tuple[float, tuple[Candidate | None, ...]]:
    """Return the set of values with the greatest total worth in which no span is used twice."""
    if at == len(parameters):
        return 0.0, ()
    required = parameters[at].required
    worth, rest = _best(parameters, options, at + 1, used)
    best = (worth + (_MISSING if required else 0.0), (None, *rest))
    for candidate in options[at]:
        clash = any(_overlap(span, other) for span in candidate.spans for other in used)
        if clash or candidate.worth < (_REQUIRED if required else _OPTIONAL):
            continue
        worth, rest = _best(parameters, options, at + 1, used + candidate.spans)
        if worth + candidate.worth > best[0]:
            best = (worth + candidate.worth, (candidate, *rest))
    return best


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _coverage(reading: Reading, used: Sequence[Span], arguments: dict[str, Any]) -> float:
    telling = [
        span
        for span in reading.spans
        if not any(_covers(other, span) for other in reading.spans)
        and not (span.kind == "name" and opens(reading, span))
    ]
    if not telling:
        return 0.5
    said = {str(value).lower().removesuffix("s") for value in arguments.values()}
    hits = sum(
        any(_overlap(span, other) for other in used) or span.text.lower().removesuffix("s") in said for span in telling
    )
    return hits / len(telling)


def _covers(one: Span, other: Span) -> bool:
    """Return whether `one` is the same span as `other`, read as another kind, so that it counts only once."""
    return one is not other and (one.start, one.end) == (other.start, other.end) and one.kind < other.kind

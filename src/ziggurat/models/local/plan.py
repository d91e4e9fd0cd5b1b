"""Taking a request apart into the calls it asks for."""

__all__ = ["THRESHOLD", "Wish", "clauses_of", "plan"]

import re
from collections.abc import Sequence

import msgspec

from ziggurat.models.local.choose import Choice, Described, choose
from ziggurat.models.local.reading import Embed

THRESHOLD = 0.4
"""Score from which a tool is believed to be meant; below it the model just talks."""

_SURE = 0.5
_HEAD, _TAIL = 200, 600
_LONGEST = _HEAD + _TAIL
_STARTERS = (
    "what|what's|who|who's|where|when|which|why|how|is|are|do|does|did|can|could|will|would|should|please|tell|give|show|"
    "find|search|look|get|set|start|remind|send|email|write|translate|convert|compute|calculate|evaluate|add|put|book|"
    "schedule|create|check|play|turn|switch|read|open|order|call|multiply|divide|subtract|let|make|note|also"
)
_JOINT = re.compile(
    rf"[.?!;]\s+|,?\s+(?:and then|then|after that|afterwards)[,\s]\s*|,?\s+and (?:also )?(?=(?:{_STARTERS})\b)",
    re.IGNORECASE,
)
_AFTER = re.compile(r"\b(?:then|after that|afterwards)\b", re.IGNORECASE)
_FRAMED = re.compile(r"\"[^\"]*\"|\u201c[^\u201d]*\u201d|(?<!\w)'[^']*'(?!\w)|\([^()]*\)")
_RESULT = re.compile(r"\b(?:the (?:result|answer|sum|product|total|outcome)|th(?:is|at) number)\b", re.IGNORECASE)
_BACK = re.compile(rf"{_RESULT.pattern}|\b(?:that|it|this)\b", re.IGNORECASE)


class Wish(msgspec.Struct, frozen=True):
    """One thing asked for.

    Attributes:
        text: The words that ask for it.
        choices: All tools for it, best first.
        waits: Whether it speaks of the result of the wish before it.
    """

    text: str
    choices: tuple[Choice, ...]
    waits: bool = False


def _shortened(request: str) -> str:
    """Head and tail of a long text, where people put what they want, so that no request takes seconds."""
    return request if len(request) <= _LONGEST else f"{request[:_HEAD]}\n{request[-_TAIL:]}"


def clauses_of(request: str) -> list[tuple[str, bool]]:
    """The parts of a request that could be requests of their own, each with whether it is said to come after another.

    Quoted text is never parted.
    """
    framed = [match.span() for match in _FRAMED.finditer(request)]
    parts: list[tuple[str, bool]] = []
    start, after = 0, False
    for joint in _JOINT.finditer(request):
        if any(low < joint.start() < high for low, high in framed):
            continue
        parts.append((request[start : joint.start()], after))
        start, after = joint.end(), _AFTER.search(joint.group()) is not None
    parts.append((request[start:], after))
    stripped = [(text.strip(), after or _AFTER.match(text.strip()) is not None) for text, after in parts]
    return [(text, after) for text, after in stripped if text.strip(" .,;?!")]


def plan(
    request: str, tools: Sequence[Described], embed: Embed, results: Sequence[str] = (), limit: int = 8
) -> list[Wish]:
    """The calls a request asks for, in order; one for the whole request unless several parts each fit a tool.

    Args:
        request: What the user said.
        tools: The tools there are.
        embed: Makes vectors of texts.
        results: What the first wishes have given, for later ones that speak of it.
        limit: How many parts are looked at; a request with more is taken as a whole.
    """
    request = _shortened(request)
    clauses = clauses_of(request)
    if 1 < len(clauses) <= limit:
        known = ["", *results, *["1"] * len(clauses)]
        wishes = [_wish(text, after, at, known[at], tools, embed) for at, (text, after) in enumerate(clauses)]
        if all(_sound(wish) for wish in wishes) and _differ(wishes):
            return wishes
    return [Wish(text=request, choices=tuple(choose(request, tools, embed)))]


def _wish(clause: str, after: bool, at: int, before: str, tools: Sequence[Described], embed: Embed) -> Wish:
    """One part with its tools; `before` stands in for words that point at the result of the part before it."""
    points = _RESULT.search(clause) or (_BACK.search(clause) if after else None)
    if at == 0 or points is None:
        return Wish(text=clause, choices=tuple(choose(clause, tools, embed)))
    text = clause[: points.start()] + before + clause[points.end() :]
    return Wish(text=text, choices=tuple(choose(text, tools, embed)), waits=True)


def _sound(wish: Wish) -> bool:
    return bool(wish.choices) and wish.choices[0].score >= _SURE and not wish.choices[0].filled.missing


def _differ(wishes: Sequence[Wish]) -> bool:
    calls = [(wish.choices[0].tool, repr(wish.choices[0].filled.arguments)) for wish in wishes]
    return len(set(calls)) == len(calls)

"""Splitting a request into the calls it asks for."""

__all__ = ["RequestedAction", "clauses_of", "plan"]

import re
from collections.abc import Sequence
from datetime import date

import msgspec

from ziggurat.models.local.choose import Described, ToolChoice, choose
from ziggurat.models.local.reading import Embed

_SURE = 0.5
_WORSE = 0.1
"""How much worse than the whole the parts of a request may fit."""
_HEAD, _TAIL = 200, 600
_LONGEST = _HEAD + _TAIL
_STARTERS = (
    "what|what's|who|who's|where|when|which|why|how|is|are|do|does|did|can|could|will|would|should|please|tell|give|show|"
    "find|search|look|get|set|start|remind|send|email|write|translate|convert|compute|calculate|evaluate|add|put|book|"
    "schedule|create|check|play|turn|switch|read|open|order|call|multiply|divide|subtract|let|make|note|also"
)
_PARTS = r"[.?!;]\s+|,?\s+(?:and then|then|after that|afterwards)[,\s]\s*"
_JOINT = re.compile(rf"{_PARTS}|,?\s+and (?:also )?(?=(?:{_STARTERS})\b)", re.IGNORECASE)
_ANY_JOINT = re.compile(rf"{_PARTS}|,?\s+and (?:also )?(?=[a-z]+ \S+ \S)|,\s+(?=[a-z]+ (?:the|an?|my)\b)")
"""Any "and" that a verb could follow; wrong splits are detected, as their parts fit no tool."""
_THERE = re.compile(r"\b(?:over )?there\b(?! (?:is|are|was|were|will|any)\b)", re.IGNORECASE)
_AFTER = re.compile(r"\b(?:then|after that|afterwards)\b", re.IGNORECASE)
_FRAMED = re.compile(r"\"[^\"]*\"|\u201c[^\u201d]*\u201d|(?<!\w)'[^']*'(?!\w)|\([^()]*\)")
_RESULT = re.compile(r"\b(?:the (?:result|answer|sum|product|total|outcome)|th(?:is|at) number)\b", re.IGNORECASE)
_BACK = re.compile(rf"{_RESULT.pattern}|\b(?:that|it|this)\b", re.IGNORECASE)


class RequestedAction(msgspec.Struct, frozen=True):
    """One thing that a request asks for.

    Attributes:
        text: The words that ask for it.
        choices: All tools for it, best first.
        waits: Whether it refers to the result of the wish before it.
    """

    text: str
    choices: tuple[ToolChoice, ...]
    waits: bool = False


def _shorten(request: str) -> str:
    """Return the start and the end of a long text, where the wish usually is, to bound the time for a request."""
    return request if len(request) <= _LONGEST else f"{request[:_HEAD]}\n{request[-_TAIL:]}"


def clauses_of(request: str, joint: re.Pattern[str] = _JOINT) -> list[tuple[str, bool]]:
    """Return the parts of a request that could be separate requests, each with whether it must come after another.

    Quoted text is never split.
    """
    framed = [match.span() for match in _FRAMED.finditer(request)]
    parts: list[tuple[str, bool]] = []
    start, after = 0, False
    for found in joint.finditer(request):
        if any(low < found.start() < high for low, high in framed):
            continue
        parts.append((request[start : found.start()], after))
        start, after = found.end(), _AFTER.search(found.group()) is not None
    parts.append((request[start:], after))
    stripped = [(text.strip(), after or _AFTER.match(text.strip()) is not None) for text, after in parts]
    return [(text, after) for text, after in stripped if text.strip(" .,;?!")]


def plan(
    request: str,
    tools: Sequence[Described],
    embed: Embed,
    results: Sequence[str] = (),
    *,
    today: date | None = None,
    limit: int = 8,
) -> list[RequestedAction]:
    """Return the calls a request asks for, in order; one for the whole request unless several parts each fit a tool.

    Args:
        request: The user's request.
        tools: The tools.
        embed: Computes embeddings of texts.
        results: The results of the first wishes, for later ones that refer to them.
        today: The day to which "tomorrow" is relative.
        limit: The maximum of parts; a request with more is treated as a whole.
    """
    request = _shorten(request)
    whole = RequestedAction(text=request, choices=tuple(choose(request, tools, embed, today)))
    tried: list[list[tuple[str, bool]]] = [[]]
    for joint in (_JOINT, _ANY_JOINT):
        clauses = clauses_of(request, joint)
        if 1 < len(clauses) <= limit and clauses not in tried:
            tried.append(clauses)
            wishes = _wishes(clauses, results, tools, embed, today)
            if wishes and _better(wishes, whole):
                return wishes
    return [whole]


def _wishes(
    clauses: Sequence[tuple[str, bool]],
    results: Sequence[str],
    tools: Sequence[Described],
    embed: Embed,
    today: date | None,
) -> list[RequestedAction]:
    """Return a wish for each part; none at all if one of them is not a request by itself."""
    known = ["", *results, *["1"] * len(clauses)]
    wishes: list[RequestedAction] = []
    place = ""
    for at, (clause, after) in enumerate(clauses):
        text, waits = _resolve(clause, after, known[at], place) if at else (clause, False)
        wish = RequestedAction(text=text, choices=tuple(choose(text, tools, embed, today)), waits=waits)
        if not _sound(wish):
            return []
        wishes.append(wish)
        place = _place(wish, tools) or place
    return wishes if _differ(wishes) else []


def _resolve(clause: str, after: bool, before: str, place: str) -> tuple[str, bool]:
    """Replace references to an earlier part by its result or place; return the text, and whether it needs a result.

    Args:
        clause: The part.
        after: Whether it must come after the part before it.
        before: The result of the part before it.
        place: The place that was mentioned last.
    """
    if place:
        clause = _THERE.sub(f"in {place}", clause)
    points = _RESULT.search(clause) or (_BACK.search(clause) if after else None)
    if points is None:
        return clause, False
    return clause[: points.start()] + before + clause[points.end() :], True


def _place(wish: RequestedAction, tools: Sequence[Described]) -> str:
    choice = wish.choices[0]
    parameters = next(tool.parameters for tool in tools if tool.name == choice.tool)
    places = [parameter.name for parameter in parameters if parameter.want == "place"]
    return str(next((choice.filled.arguments[name] for name in places if name in choice.filled.arguments), ""))


def _sound(wish: RequestedAction) -> bool:
    return bool(wish.choices) and wish.choices[0].score >= _SURE and not wish.choices[0].filled.missing


def _better(wishes: Sequence[RequestedAction], whole: RequestedAction) -> bool:
    """Return whether the parts fit their tools about as well as the whole fits one."""
    mean = sum(wish.choices[0].score for wish in wishes) / len(wishes)
    return not whole.choices or mean >= whole.choices[0].score - _WORSE


def _differ(wishes: Sequence[RequestedAction]) -> bool:
    calls = [(wish.choices[0].tool, repr(wish.choices[0].filled.arguments)) for wish in wishes]
    return len(set(calls)) == len(calls)

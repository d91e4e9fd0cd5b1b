"""Texts read by rules: the replies of models that were asked for a name, a number or JSON, and tasks that are split."""

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from json import JSONDecoder
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta
from msgspec.json import decode

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import check_depth, encode
from ziggurat.core.errors import InvalidArguments
from ziggurat.core.settings import CheckedStruct, NonEmptyText, NonNegativeInt
from ziggurat.messages.arguments import check_size

T = TypeVar("T")

_PLACES = 20
"""How many places of a reply are tried, so that one of brackets only takes no long time."""

_LINE = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s*")
_OWN_LINE = re.compile(r"^[ \t]*(?:```\w*[ \t]*)?\{", re.MULTILINE)
_DECODER = JSONDecoder()
_SCORE = re.compile(
    r"[\"'`*_( ]*+(?:score[\"'`*_ ]*+[:=][\"'`*_ ]*+)?([-+]?(?>\d+(?:\.\d*)?|\.\d+))"
    r"[\"'`*_ ]*+(?:(%)|(?:/|(?:out\s+)?of)\s*(\d+(?:\.\d+)?))?+"
    r"(?=\W*$|[\"'`*_) ]*(?:[.,;:!(]|[-\u2013\u2014]\s))",
    re.IGNORECASE,
)


_AROUND = "\"'`*. \t\r"


def name_in(text: str, names: Collection[str], end: str | None = None) -> str | None:
    """Return the name that stands first in a reply, as a word of its own; None if there is none."""
    if end is not None and text.strip().partition("\n")[0].strip(_AROUND).casefold() == end.casefold():
        return end
    stripped = text.strip().strip(_AROUND)
    alike = [stripped] if stripped in names else [each for each in names if each.casefold() == stripped.casefold()]
    if len(alike) == 1:
        return alike[0]
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    found = re.search(rf"(?<!\w)(?:{words})(?!\w)", text[:10_000])
    return found and found[0]


def value_in(reply: str, kind: type[T]) -> T:
    return _read(reply, re.compile(r"\["), kind, "list")[0]


def decision_in(reply: str, kind: type[T]) -> T:
    # An object in a sentence is no decision: a reply may cite what somebody else has written.
    first, *others = _read(reply, _OWN_LINE, kind, "object", alone=True)
    if any(each != first for each in others):
        raise InvalidArguments("there are several JSON objects in it, which differ")
    return first


def _read(reply: str, opening: "re.Pattern[str]", kind: type[T], noun: str, *, alone: bool = False) -> list[T]:
    """Return the first value in a reply, or all that stand alone, of which there is at least one."""
    values: list[T] = []
    fault: Exception | None = None
    try:
        check_size(reply, "such replies")
        check_depth(reply)
        place = opening.search(reply)
        for _ in range(_PLACES):
            if place is None or (values and not alone):
                break
            start = place.end() - 1
            end = start + 1
            try:
                _, after = _DECODER.raw_decode(reply, start)
                end = after if alone else end
                if not alone or not reply[after:].partition("\n")[0].strip(" \t\r`"):
                    values.append(decode(reply[start:after], type=kind))
            except ValueError as error:
                fault = fault or error
            place = opening.search(reply, end)
    except (ValueError, RecursionError) as error:
        fault = error
    if not values:
        raise InvalidArguments(f"there is no JSON {noun} in it" if fault is None else str(fault)) from fault
    return values


def listed_in(reply: str) -> list[str]:
    try:
        items = value_in(reply, list[str | dict[str, Any]])
        return [text for each in items if (text := (each if isinstance(each, str) else encode(each).decode()).strip())]
    except InvalidArguments:
        lines = [line for line in reply.splitlines() if line.strip() and not line.lstrip().startswith("```")]
    marked = [line for line in lines if _LINE.match(line)]
    return [text for line in marked or lines if (text := _LINE.sub("", line).strip())]


def parse_score(text: str) -> float:
    """Return the number with which a reply begins, such as 0.8, 80 % or 8/10; one in a sentence is no score."""
    line = text.strip()[:1_000].partition("\n")[0]
    number = _SCORE.match(line)
    if number is None:
        return 0.5
    whole = 100.0 if number[2] else float(number[3] or 1) or 1.0
    return min(1.0, max(0.0, float(number[1]) / whole))


_MARK = re.compile(r"(?:^|(?<![-+*/^=(])\s)(?:[1-8]\.|[1-5]\))\s")  # no mark of a list: the end of "(7 + 5) "
_PRIMARY = re.compile(r"[,;]|\sand\s")
_WORDS = "(?:then|next|finally|after that|subsequently)"
_LATER = re.compile(rf"\s{_WORDS}\s")
_SENTENCE = re.compile(rf"[.!?]\s+(?={_WORDS}\b)", re.IGNORECASE)
_LEADING = re.compile(rf"(?:and\s+)?{_WORDS}\b\s*", re.IGNORECASE)
"""At the beginning of a part: it comes after all parts before it."""


class Subtask(CheckedStruct, frozen=True):
    """A part of a task; those of depth 1 are done after those of depth 0 have ended, and so on."""

    text: NonEmptyText
    depth: NonNegativeInt = 0


Split = Callable[[str], Sequence[str | Subtask] | Awaitable[Sequence[str | Subtask]]]

Splitter = Annotated[
    Literal["breadth", "depth"] | Runnable | Split, Meta(description="as an agent that answers with a list")
]


def split_task(text: str, by: Literal["breadth", "depth"]) -> list[Subtask]:
    """Split a task at marks of a list, commas, semicolons and "and"; by depth also at "then" and the like."""
    text = _MARK.sub(", ", text)
    if by == "breadth":
        return [Subtask(each.strip()) for each in _PRIMARY.split(text) if each.strip()]
    subtasks: list[Subtask] = []
    level, later = 0, 0  # of the part, and of one that comes after all before it
    for part in _PRIMARY.split(_SENTENCE.sub(", ", text)):
        rest = part.strip()
        if leading := _LEADING.match(rest):
            level, rest = later, rest[leading.end() :]
        pieces = [piece.strip() for piece in _LATER.split(rest) if piece.strip()]
        subtasks += [Subtask(piece, level + place) for place, piece in enumerate(pieces)]
        later = max(later, level + len(pieces) if pieces else 0)
    return subtasks

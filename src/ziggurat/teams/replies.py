"""Values in the replies of models that were asked for a name or for JSON: moderators, planners, managers."""

import re
from collections.abc import Collection
from json import JSONDecoder
from typing import Any, TypeVar

from msgspec.json import decode

from ziggurat.core.codec import encode
from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.limits import check_depth, check_size

T = TypeVar("T")

_PLACES = 20
"""How many places of a reply are tried, so that one of brackets only takes no long time."""

_LINE = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s*")
_DECODER = JSONDecoder()


def name_in(text: str, names: Collection[str]) -> str | None:
    """Return the name that stands first in a reply, as a word of its own; None if there is none.

    A reply that is nothing but a name may have other capitals.

    >>> name_in("I think **ann** should, then ben.", ["ben", "ann", "an"])
    'ann'
    """
    stripped = text.strip().strip("\"'`*. ")
    alike = [stripped] if stripped in names else [each for each in names if each.casefold() == stripped.casefold()]
    if len(alike) == 1:
        return alike[0]
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    found = re.search(rf"(?<!\w)(?:{words})(?!\w)", text[:10_000])
    return found and found[0]


def value_in(reply: str, opening: str, kind: type[T]) -> T:
    """Return the first JSON value of a type in a reply, which may have words around it.

    >>> value_in('As in [1]: ["find it", "read it"]. Done!', "[", list[str])
    ['find it', 'read it']

    Args:
        reply: What a model has written.
        opening: The first character of the value, ``[`` or ``{``.
        kind: Its type.

    Raises:
        InvalidArguments: there is none; it says what is wrong with the first one.
    """
    fault: Exception | None = None
    try:
        check_size(reply, "such replies")
        check_depth(reply)
        start = reply.find(opening)
        for _ in range(_PLACES):
            if start < 0:
                break
            try:
                return decode(reply[start : _DECODER.raw_decode(reply, start)[1]], type=kind)
            except ValueError as error:
                fault = fault or error
            start = reply.find(opening, start + 1)
    except (ValueError, RecursionError) as error:
        fault = error
    what = "object" if opening == "{" else "list"
    raise InvalidArguments(f"there is no JSON {what} in it" if fault is None else str(fault)) from fault


def listed_in(reply: str) -> list[str]:
    """Return the texts of a list that a model has written: as JSON, perhaps with words around it, or in lines."""
    try:
        items = value_in(reply, "[", list[str | dict[str, Any]])
        return [text for each in items if (text := (each if isinstance(each, str) else encode(each).decode()).strip())]
    except InvalidArguments:
        lines = [line for line in reply.splitlines() if line.strip() and not line.lstrip().startswith("```")]
    marked = [line for line in lines if _LINE.match(line)]
    return [text for line in marked or lines if (text := _LINE.sub("", line).strip())]

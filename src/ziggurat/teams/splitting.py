"""Subtasks, and how a task is split into them without a model."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from ziggurat.agents.runnable import Runnable
from ziggurat.core.settings import CheckedStruct, NonEmptyText, NonNegativeInt

_MARK = re.compile(r"(?:^|(?<![-+*/^=(])\s)(?:[1-8]\.|[1-5]\))\s")  # no mark of a list: the end of "(7 + 5) "
_PRIMARY = re.compile(r"[,;]|\sand\s")
_WORDS = "(?:then|next|finally|after that|subsequently)"
_LATER = re.compile(rf"\s{_WORDS}\s")
_SENTENCE = re.compile(rf"[.!?]\s+(?={_WORDS}\b)", re.IGNORECASE)
_LEADING = re.compile(rf"(?:and\s+)?{_WORDS}\b\s*", re.IGNORECASE)
"""At the beginning of a part: it comes after all parts before it."""


class Subtask(CheckedStruct, frozen=True):
    """A part of a task.

    Attributes:
        text: What is to be done.
        depth: Subtasks of depth 1 are done after those of depth 0 have ended, and so on.
    """

    text: NonEmptyText
    depth: NonNegativeInt = 0


Split = Callable[[str], Sequence[str | Subtask] | Awaitable[Sequence[str | Subtask]]]

Splitter = Annotated[
    Literal["breadth", "depth"] | Runnable | Split, Meta(description="as an agent that answers with a list")
]


def split_task(text: str, by: Literal["breadth", "depth"]) -> list[Subtask]:
    """Split a task at the marks of a list, commas, semicolons and "and"; by depth also at "then" and the like.

    >>> split_task("1. find it 2. read it then copy it", "depth")
    [Subtask(text='find it', depth=0), Subtask(text='read it', depth=0), Subtask(text='copy it', depth=1)]
    >>> [each.depth for each in split_task("Find it, then read it. Finally, copy it", "depth")]
    [0, 1, 2]
    """
    text = _MARK.sub(", ", text)
    if by == "breadth":
        return [Subtask(each.strip()) for each in _PRIMARY.split(text) if each.strip()]
    subtasks: list[Subtask] = []
    level, later = 0, 0  # of the part, and of one that comes after all before it
    for part in _PRIMARY.split(_SENTENCE.sub(", ", text)):
        rest = part.strip()
        if leading := _LEADING.match(rest):
            level, rest = later, rest[leading.end() :]
        pieces = [piece.strip() for piece in _LATER.split(rest)]
        subtasks += [Subtask(piece, level + place) for place, piece in enumerate(filter(None, pieces))]
        later = max((each.depth + 1 for each in subtasks), default=0)
    return subtasks

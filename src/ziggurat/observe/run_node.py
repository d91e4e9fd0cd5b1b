"""A node in the tree of a run."""

from typing import Literal

from msgspec import Struct

from ziggurat.core.diagram import Mark
from ziggurat.messages.usage import Usage

NodeKind = Literal["agent", "step", "model", "tool", "call", "question", "timer", "event"]
"""What a node is: ``step`` is a turn of an agent or a round of a team, ``call`` a step of a flow or a part of it."""


class RunNode(Struct, frozen=True):
    """A call in a run, or what several calls are parts of.

    Attributes:
        path: Its address in the run.
        name: What was called: the name of an agent, tool, model or step.
        kind: What it is.
        depth: How many nodes are above it.
        state: How far it has come; ``"skipped"`` if the run ended before it.
        text: What came of it, or what it waits for, as one line.
        began: When it began, in seconds of the run's own time, in which waits for people do not count; None if that is
            not on record.
        ended: When it ended, in the same seconds; None if it has not.
        usage: What its model call has used, if it is one.
        number: The number of its first entry in the record, from 1; 0 if it has none itself.
    """

    path: str
    name: str
    kind: NodeKind
    depth: int
    state: Mark
    text: str = ""
    began: float | None = None
    ended: float | None = None
    usage: Usage | None = None
    number: int = 0

"""A node in the tree of a run, and the tree as text and as a Mermaid flowchart."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from ziggurat.core.diagram import Diagram, DiagramEdge, DiagramNode, Mark, Shape
from ziggurat.messages.formatting import shortened
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


_SIGNS: dict[Mark, str] = {"waiting": "…", "running": "▸", "done": "✓", "failed": "✗", "skipped": "·"}
_SHAPES: dict[NodeKind, Shape] = {"tool": "round", "model": "stadium", "question": "hexagon", "timer": "hexagon"}


def tree_text(nodes: Sequence[RunNode]) -> str:
    return "".join(f"{'  ' * node.depth}{_SIGNS[node.state]} {_label(node)}\n" for node in nodes)


def tree_diagram(nodes: Sequence[RunNode]) -> Diagram:
    """Return the nodes as a diagram, each with its parts inside it."""
    parts: list[list[DiagramNode]] = [[]]
    for node in reversed(nodes):  # parts before what they are parts of
        while len(parts) <= node.depth + 1:
            parts.append([])
        inner = _in_order(parts.pop()) if len(parts) > node.depth + 1 else Diagram()
        shape = _SHAPES.get(node.kind, "box")
        drawn = DiagramNode(node.path, shortened(_label(node), 60), shape, node.state, inner if inner.nodes else None)
        parts[node.depth].append(drawn)
    return _in_order(parts[0])


def _in_order(reverse: list[DiagramNode]) -> Diagram:
    """Return parts as a diagram, with an arrow from each to the next; those that are made together have none."""
    nodes = reverse[::-1]
    edges: list[DiagramEdge] = []
    for one, other in pairwise(nodes):
        if not (_place(one).isdigit() and _place(other).isdigit()):
            calls_tools = edges and _place(one).startswith("tool-") and _place(other).startswith("tool-")
            edges.append(DiagramEdge(edges[-1].source if calls_tools else one.name, other.name))
    return Diagram(tuple(nodes), tuple(edges))


def _place(node: DiagramNode) -> str:
    return node.name.rpartition("/")[2]


def _label(node: RunNode) -> str:
    return f"{shortened(node.name)}  {node.text}".rstrip()

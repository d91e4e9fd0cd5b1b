"""A node in the tree of a run, and the tree as text, as HTML and as a Mermaid flowchart."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from ziggurat.core.diagram import Diagram, DiagramEdge, DiagramNode, Mark, Shape
from ziggurat.messages.formatting import duration, shortened, usage_text
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
_COLOURS: dict[Mark, str] = {
    "waiting": "#b58900",
    "running": "#2a6fbb",
    "done": "#3c763d",
    "failed": "#a94442",
    "skipped": "#999999",
}
_SHAPES: dict[NodeKind, Shape] = {"tool": "round", "model": "stadium", "question": "hexagon", "timer": "hexagon"}

_OPEN_DEPTH = 4
"""Nodes above this depth are shown with their parts."""


def tree_text(nodes: Sequence[RunNode]) -> str:
    """Return a line for each node, with its state, indented by its depth."""
    return "".join(f"{'  ' * node.depth}{_SIGNS[node.state]} {_label(node)}\n" for node in nodes)


def tree_html(nodes: Sequence[RunNode]) -> str:
    """Return the nodes as HTML, each with its parts inside it; a part of a page, without scripts, all texts escaped."""
    return f'<div style="font-family:monospace">{"".join(_html_parts(nodes))}</div>'


def _html_parts(nodes: Sequence[RunNode]) -> Iterator[str]:
    unclosed: list[int] = []
    for node, after in zip(nodes, [*nodes[1:], None], strict=True):
        while unclosed and unclosed[-1] >= node.depth:
            unclosed.pop()
            yield "</details>"
        line = f'<span style="color:{_COLOURS[node.state]}">{_SIGNS[node.state]}</span> {_html_line(node)}'
        indent = f'style="margin-left:{1.5 if node.depth else 0}em"'
        if after is not None and after.depth > node.depth:
            unclosed.append(node.depth)
            state = " open" if node.depth < _OPEN_DEPTH or node.state == "waiting" else ""
            yield f"<details{state} {indent}><summary>{line}</summary>"
        else:
            yield f"<div {indent}>{line}</div>"
    yield "</details>" * len(unclosed)


def _html_line(node: RunNode) -> str:
    facts = [f"<b>{escape(shortened(node.name))}</b>", escape(node.text)]
    if node.usage is not None:
        facts.append(f"<small>{escape(usage_text(node.usage))}</small>")
    if node.began is not None and node.ended is not None and node.ended > node.began:
        facts.append(f"<small>{duration(node.ended - node.began)}</small>")
    return " ".join(fact for fact in facts if fact)


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

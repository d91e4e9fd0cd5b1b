"""An agent or a team as a node of a diagram, with its tools or members inside it, and how far a run of it has come."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ziggurat.core.service import COMPOSITE, Fact, fact, name_of
from ziggurat.messages.diagram import DIAGRAM, Diagram, DiagramEdge, DiagramNode, Mark, Shape
from ziggurat.observe.tree import RunNode
from ziggurat.tools.toolbox import TOOLS

STANDING: Fact[Callable[[Any, str], Awaitable[Diagram]] | None] = Fact("standing", None)
"""Returns the diagram of a run, for a Runnable and the id; of a service that knows more than the tree of calls."""


def drawn(service: object) -> DiagramNode:
    name = name_of(service)
    draw, box = fact(service, DIAGRAM), fact(service, TOOLS)
    if draw is not None:
        return DiagramNode(name, parts=draw())
    if box is None or not box.specs:
        shape: Shape = "box" if fact(service, COMPOSITE) else "round"
        return DiagramNode(name, shape=shape)
    tools = [drawn(entry.service) for entry in box.entries.values()]
    edges = tuple(DiagramEdge("", each.name) for each in tools)
    return DiagramNode(name, parts=Diagram((DiagramNode("", name), *tools), edges))


def team_diagram(members: Mapping[str, object], edges: Sequence[DiagramEdge]) -> Diagram:
    others = dict.fromkeys(end for edge in edges for end in (edge.source, edge.target) if end not in members)
    nodes = (*map(drawn, members.values()), *(DiagramNode(each, shape="hexagon") for each in others))
    return Diagram(nodes, tuple(edges))


def marked(node: DiagramNode, calls: Iterable[RunNode]) -> DiagramNode:
    """Return a drawn agent or team with marks that say how far a run has come; a part that has not begun has none."""
    marks: dict[tuple[str, ...], Mark] = {}
    above: list[tuple[str, ...]] = []
    for call in calls:
        del above[call.depth :]
        names = above[-1] if above else ()
        if call.kind in ("agent", "tool") and names[-1:] != (call.name,):  # an agent that is a tool is one node
            names = (*names, call.name)
        above.append(names)
        if call.kind in ("agent", "tool") and marks.get(names) not in _UNFINISHED:
            marks[names] = call.state
    return _with_marks(node, (node.name,), marks)


_UNFINISHED = ("waiting", "running")


def _with_marks(node: DiagramNode, names: tuple[str, ...], marks: Mapping[tuple[str, ...], Mark]) -> DiagramNode:
    parts = node.parts
    if parts is not None:  # the part without a name of its own is the agent itself, beside its tools
        inner = [_with_marks(each, (*names, each.name) if each.name else names, marks) for each in parts.nodes]
        parts = replace(parts, nodes=tuple(inner))
    return replace(node, mark=marks.get(names), parts=parts)

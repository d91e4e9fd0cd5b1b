"""How teams are drawn: their members, and who speaks to whom."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from ziggurat.agents.drawing import drawn
from ziggurat.agents.runnable import Runnable
from ziggurat.core.diagram import Diagram, DiagramEdge, DiagramNode


def team_diagram(members: Mapping[str, Runnable], edges: Sequence[DiagramEdge]) -> Diagram:
    """Return the diagram of a team: its members, each with its own diagram inside, and who speaks to whom."""
    others = dict.fromkeys(end for edge in edges for end in (edge.source, edge.target) if end not in members)
    nodes = (*map(drawn, members.values()), *(DiagramNode(each, shape="hexagon") for each in others))
    return Diagram(nodes, tuple(edges))


def each_other(names: Iterable[str]) -> list[DiagramEdge]:
    """Return the edges between members that all speak to each other."""
    return [DiagramEdge(one, other, both=True) for one, other in combinations(names, 2)]


def circle(names: Sequence[str]) -> list[DiagramEdge]:
    """Return the edges from each member to the next one, and from the last to the first."""
    return [DiagramEdge(one, other) for one, other in zip(names, [*names[1:], *names[:1]], strict=True)]

"""drawn: an agent or a team as a node of a diagram, with its tools or members inside it."""

__all__ = ["drawn"]

from ziggurat.calls.decisions import TOOLS
from ziggurat.core.diagram import DIAGRAM, Diagram, DiagramEdge, DiagramNode, Shape
from ziggurat.core.facts import COMPOSITE, fact, name_of


def drawn(service: object) -> DiagramNode:
    """Return a service as a node of its name: with the diagram that it states (`DIAGRAM`), or else with its tools.

    ::

        Diagram(tuple(map(drawn, members)), edges)

    Tools have round corners, unless they are agents, which are drawn with their own tools.
    """
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

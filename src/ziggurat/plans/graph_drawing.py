"""Draw a graph: its nodes and edges, and how far a run of it has come."""

from collections.abc import Mapping

from ziggurat.core.diagram import Diagram, DiagramEdge, DiagramNode, Mark
from ziggurat.plans.graph_parts import END, START
from ziggurat.plans.graph_shape import Shape


def diagram_of(shape: Shape, marks: Mapping[str, Mark]) -> Diagram:
    """Return the diagram of a graph; edges that a route may choose are dotted."""
    nodes = [DiagramNode(START, shape="circle")]
    for node in shape.nodes:
        join = f"\n{node.join}" if node.join != "all" else ""
        nodes.append(DiagramNode(node.name, node.name + join, "hexagon" if node.items else "box", marks.get(node.name)))
    sources = {edge.source for edge in shape.edges}
    ends = [DiagramEdge(node.name, END) for node in shape.nodes if node.name not in sources]
    edges = [DiagramEdge(each.source, each.target, arrow="dotted" if each.chosen else "solid") for each in shape.edges]
    return Diagram((*nodes, DiagramNode(END, shape="circle")), (*edges, *ends))

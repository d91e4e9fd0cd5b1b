"""Plans and graphs as diagrams: what follows what, and where it branches and repeats."""

from collections.abc import Mapping
from itertools import pairwise

from ziggurat.messages.diagram import Diagram, DiagramEdge, DiagramNode, Mark
from ziggurat.plans.graph_parts import END, START
from ziggurat.plans.graph_shape import Shape
from ziggurat.plans.nodes import Branch, Loop, Map, Parallel, Place, Task
from ziggurat.plans.variables import condition_text


def diagram_of_plan(places: tuple[Place, ...], marks: Mapping[str, Mark]) -> Diagram:
    edges = [DiagramEdge(before.name, after.name) for before, after in pairwise(places)]
    return Diagram(tuple(_drawn(each, marks) for each in places), tuple(edges))


def _drawn(place: Place, marks: Mapping[str, Mark]) -> DiagramNode:
    node, mark = place.node, marks.get(place.position)
    instead = () if place.instead is None else (_drawn(place.instead, marks),)
    if isinstance(node, Branch):
        arms = tuple(_drawn(each, marks) for each in place.parts)
        labels = [("yes", "no")[number] for number in range(len(arms))]
        edges = tuple(DiagramEdge("?", arm.name, label) for arm, label in zip(arms, labels, strict=True))
        asks = DiagramNode("?", condition_text(node.condition), "diamond", mark)
        parts = Diagram((asks, *arms, *instead), edges)
    elif isinstance(node, Task) and not instead:
        return DiagramNode(place.name, shape="round" if node.tool is not None else "box", mark=mark)
    elif isinstance(node, (Parallel, Task)):
        parts = Diagram((*(_drawn(each, marks) for each in place.parts), *instead))
    else:
        inner = diagram_of_plan(place.parts, marks)
        parts = Diagram((*inner.nodes, *instead), inner.edges)
    return DiagramNode(place.name, _label(place), mark=mark, parts=parts)


def _label(place: Place) -> str:
    node = place.node
    if isinstance(node, Map):
        return f"{place.name}: each {node.item} of {node.over}"
    if isinstance(node, Loop):
        until = "" if node.until is None else f" until {condition_text(node.until)}"
        return f"{place.name}: at most {node.max_rounds} rounds{until}"
    return place.name


def diagram_of_graph(shape: Shape, marks: Mapping[str, Mark]) -> Diagram:
    nodes = [DiagramNode(START, shape="circle")]
    for node in shape.nodes:
        join = f"\n{node.join}" if node.join != "all" else ""
        nodes.append(DiagramNode(node.name, node.name + join, "hexagon" if node.items else "box", marks.get(node.name)))
    sources = {edge.source for edge in shape.edges}
    ends = [DiagramEdge(node.name, END) for node in shape.nodes if node.name not in sources]
    edges = [DiagramEdge(each.source, each.target, arrow="dotted" if each.chosen else "solid") for each in shape.edges]
    return Diagram((*nodes, DiagramNode(END, shape="circle")), (*edges, *ends))

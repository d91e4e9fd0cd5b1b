"""Plans and graphs as diagrams: what follows what, where it branches and repeats, and how far a run has come."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.core.diagram import Diagram, DiagramEdge, DiagramNode, Mark
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.facts import Fact, fact
from ziggurat.messages.events import NodeChanged, NodeStatus
from ziggurat.plans.conditions import condition_text
from ziggurat.plans.nodes import Branch, Loop, Map, Parallel, Place, Task
from ziggurat.plans.result import NodeResult

MARKS: dict[NodeStatus, Mark] = {
    "running": "running",
    "completed": "done",
    "failed": "failed",
    "skipped": "skipped",
}
"""How each status is drawn; a node that is pending has no mark."""


class NodeNames(Struct, frozen=True, eq=False):
    """The nodes of a plan or a graph."""

    holds: Mapping[str, bool]
    draw: Callable[[Mapping[str, Mark]], Diagram]


NODES: Fact[NodeNames | None] = Fact("nodes", None)
"""The nodes of a plan or a graph."""


def nodes_of(plan: Runnable[Any], function: str) -> NodeNames:
    """Return the nodes of a plan or a graph."""
    nodes = fact(plan, NODES)
    if nodes is None:
        raise ConfigurationError(
            f"{function}() takes a plan that was made by workflow(), or a graph, got {plan!r:.200}"
        )
    return nodes


def draw_plan(plan: Runnable[Any], nodes: Iterable[NodeResult | NodeChanged] = ()) -> Diagram:
    """Return a plan as a diagram, which has its Mermaid text: ``draw_plan(plan, run.output.nodes).mermaid()``.

    Args:
        plan: A flow made by `workflow`, or a graph.
        nodes: How far a run has come: ``run.output.nodes``, or the `NodeChanged` events of a run that is not over. Of a
            node that ran several times, the last counts.

    Raises:
        ConfigurationError: it is no such flow.
    """
    statuses = {each.node: each.status for each in nodes}
    return nodes_of(plan, "draw_plan").draw({name: MARKS[each] for name, each in statuses.items() if each in MARKS})


def names_of_plan(places: tuple[Place, ...]) -> NodeNames:
    """Return the nodes of a tree, those at its outermost places and all in them."""
    holds = {each.position: not isinstance(each.node, Task) for place in places for each in place}
    return NodeNames(holds, lambda marks: _diagram(places, marks))


def _diagram(places: tuple[Place, ...], marks: Mapping[str, Mark]) -> Diagram:
    """Return nodes that run one after the other as a diagram."""
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
        inner = _diagram(place.parts, marks)
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

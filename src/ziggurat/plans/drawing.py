"""Plans as diagrams: what follows what, where it branches and repeats, and how far a run has come."""

__all__ = ["draw_plan", "plan_diagram"]

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.diagram import Diagram, DiagramEdge, DiagramNode, Mark
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.facts import fact
from ziggurat.core.settings import checked
from ziggurat.messages.events import NodeChanged, NodeStatus
from ziggurat.plans.conditions import condition_text
from ziggurat.plans.nodes import Branch, Loop, Map, Parallel, Task
from ziggurat.plans.places import PLACES, Place
from ziggurat.plans.result import NodeResult

_MARKS: dict[NodeStatus, Mark | None] = {
    "pending": None,
    "running": "running",
    "completed": "done",
    "failed": "failed",
    "skipped": "skipped",
}


@checked
def draw_plan(plan: Runnable[Any], nodes: Iterable[NodeResult | NodeChanged] = ()) -> Diagram:
    """Return a plan as a diagram, which has its Mermaid text: ``draw_plan(plan, run.output.nodes).mermaid()``.

    Args:
        plan: A flow made by `workflow`.
        nodes: How far a run has come: ``run.output.nodes``, or the `NodeChanged` events of a run that is not over. Of a
            node that ran several times, the last counts.

    Raises:
        ConfigurationError: it is no such flow.
    """
    places = fact(plan, PLACES)
    if places is None:
        raise ConfigurationError(f"draw_plan() takes a plan that was made by workflow(), got {plan!r:.200}")
    return plan_diagram(places, {each.node: each.status for each in nodes})


def plan_diagram(places: Iterable[Place], statuses: Mapping[str, NodeStatus]) -> Diagram:
    """Return nodes that run one after the other as a diagram."""
    places = tuple(places)
    edges = [DiagramEdge(before.name, after.name) for before, after in pairwise(places)]
    return Diagram(tuple(_drawn(each, statuses) for each in places), tuple(edges))


def _drawn(place: Place, statuses: Mapping[str, NodeStatus]) -> DiagramNode:
    node, mark = place.node, _MARKS[statuses.get(place.position, "pending")]
    instead = () if place.instead is None else (_drawn(place.instead, statuses),)
    if isinstance(node, Branch):
        arms = tuple(_drawn(each, statuses) for each in place.parts)
        labels = [("yes", "no")[number] for number in range(len(arms))]
        edges = tuple(DiagramEdge("?", arm.name, label) for arm, label in zip(arms, labels, strict=True))
        asks = DiagramNode("?", condition_text(node.condition), "diamond", mark)
        parts = Diagram((asks, *arms, *instead), edges)
    elif isinstance(node, Task) and not instead:
        return DiagramNode(place.name, shape="round" if node.tool is not None else "box", mark=mark)
    elif isinstance(node, (Parallel, Task)):
        parts = Diagram((*(_drawn(each, statuses) for each in place.parts), *instead))
    else:
        inner = plan_diagram(place.parts, statuses)
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

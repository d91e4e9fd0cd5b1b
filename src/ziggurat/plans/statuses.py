"""How far the nodes of a plan or a graph have come in a run: the `NodeChanged` events of its record."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from ziggurat.agents.drawing import STANDING
from ziggurat.agents.runnable import Runnable
from ziggurat.core.context import Key
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.core.path import parent_of, upwards
from ziggurat.core.service import Fact, fact
from ziggurat.messages.diagram import DIAGRAM, Diagram, Mark
from ziggurat.messages.events import NodeChanged, NodeStatus
from ziggurat.plans.drawing import diagram_of_plan
from ziggurat.plans.nodes import Place, Task

MARKS: dict[NodeStatus, Mark] = {
    "running": "running",
    "completed": "done",
    "failed": "failed",
    "skipped": "skipped",
}
"""How each status is drawn; a node that is pending has no mark."""


class NodeNames(Struct, frozen=True, eq=False):
    holds: Mapping[str, bool]
    draw: Callable[[Mapping[str, Mark]], Diagram]


NODES: Fact[NodeNames | None] = Fact("nodes", None)
"""The nodes of a plan or a graph."""


def facts_of_plan(places: tuple[Place, ...]) -> dict[Fact[Any], Any]:
    holds = {each.position: not isinstance(each.node, Task) for place in places for each in place}
    return facts_of_nodes(NodeNames(holds, partial(diagram_of_plan, places)))


async def node_statuses(plan: Runnable[Any], run_id: str) -> dict[str, NodeStatus]:
    """Return the status of each node of a plan or a graph in a run, by its position or name; nothing is called.

    A run can be asked about in every state, also if it is driven elsewhere, has lost its process, or has not begun. A
    node that was not reached is ``"pending"``. One that has not ended is ``"running"``, also if the run waits there,
    was cancelled or lost. Of a node that ran several times, the last counts.

    Raises:
        ConfigurationError: it is neither.
        JournalMismatch: it has other nodes than the recorded one.
        RunNotFound: the store has no such run.
    """
    nodes = fact(plan, NODES)
    if nodes is None:
        raise ConfigurationError(f"node_statuses() takes a plan that workflow() made, or a graph, got {plan!r:.200}")
    return (await follow_nodes(nodes, plan, run_id)).by_name


def facts_of_nodes(nodes: NodeNames) -> dict[Fact[Any], Any]:
    return {NODES: nodes, DIAGRAM: partial(nodes.draw, {}), STANDING: partial(_standing, nodes)}


async def _standing(nodes: NodeNames, plan: Runnable[Any], run_id: str) -> Diagram:
    seen = await follow_nodes(nodes, plan, run_id)
    marks = {name: MARKS[status] for name, status in seen.by_name.items() if status in MARKS}
    for call in (await plan.tree(run_id)).nodes:
        if call.state == "waiting":
            marks |= {seen.running[path]: "waiting" for path in seen.running_above(call.path)}
    return nodes.draw(marks)


async def follow_nodes(
    nodes: NodeNames, plan: Runnable[Any], run_id: str, deps: Mapping[Key[Any], Any] | None = None
) -> "_Followed":
    followed = _Followed(nodes)
    await plan.replay(run_id, strict=False, listeners=[followed.listen], deps=deps)
    return followed


class _Followed:
    """Follows the events of nodes; those of plans and graphs that run inside one of them are not its own."""

    def __init__(self, nodes: NodeNames) -> None:
        self._holds = nodes.holds
        self.by_name: dict[str, NodeStatus] = dict.fromkeys(nodes.holds, "pending")
        self.running: dict[str, str] = {}

    def running_above(self, path: str) -> Iterator[str]:
        yield from (above for above in upwards(path) if above in self.running)

    def listen(self, event: Event) -> None:
        if not isinstance(event, NodeChanged) or event.node not in self._holds:
            return
        if not all(self._holds[self.running[path]] for path in self.running_above(parent_of(event.path))):
            return
        self.by_name[event.node] = event.status
        if event.status == "running":
            self.running[event.path] = event.node
        else:
            self.running.pop(event.path, None)

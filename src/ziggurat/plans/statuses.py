"""Which status each node of a plan has in a run: completed, failed, waiting or cancelled."""

__all__ = ["node_statuses"]

from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.core.facts import fact
from ziggurat.core.path import is_beneath
from ziggurat.core.settings import checked
from ziggurat.messages.events import NodeChanged, NodeStatus
from ziggurat.plans.nodes import Task
from ziggurat.plans.places import PLACES, Place


@checked
async def node_statuses(plan: Runnable[Any], run_id: str) -> dict[str, NodeStatus]:
    """Return the status of each node of a plan in a run, by its position; nothing is called.

    ::

        run = await review.run("ziggurats", run_id="text-1")        # it has failed, or waits
        await node_statuses(review, "text-1")                       # {"draft": "completed", "check": "failed", ...}

    A node that was not reached is ``"pending"``. One that has begun and not ended is ``"running"``, also if the run
    waits there, or was cancelled. Of a node that ran several times, the last counts.

    Args:
        plan: A flow made by `workflow`, with the store of the run.
        run_id: The run.

    Raises:
        ConfigurationError: it is no such flow.
        JournalMismatch: the plan is another one, or the run has lost its process, and was not resumed since.
        RunNotFound: the store has no such run.
    """
    places = fact(plan, PLACES)
    if places is None:
        raise ConfigurationError(f"node_statuses() takes a plan that was made by workflow(), got {plan!r:.200}")
    statuses = _Statuses(places)
    await plan.replay(run_id, strict=False, listeners=[statuses.listen])
    return statuses.by_position


class _Statuses:
    """Follows the events of a plan; those of plans that its tasks run are not its own."""

    def __init__(self, places: tuple[Place, ...]) -> None:
        self._places: dict[str, Place] = {each.position: each for place in places for each in place}
        self.by_position: dict[str, NodeStatus] = dict.fromkeys(self._places, "pending")
        self._tasks: set[str] = set()  # the paths of those that run

    def listen(self, event: Event) -> None:
        """Take the status of a node from an event."""
        if not isinstance(event, NodeChanged):
            return
        inside = any(event.path != task and is_beneath(event.path, task) for task in self._tasks)
        if inside or event.node not in self._places:
            return
        self.by_position[event.node] = event.status
        if isinstance(self._places[event.node].node, Task):
            (self._tasks.add if event.status == "running" else self._tasks.discard)(event.path)

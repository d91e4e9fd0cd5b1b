"""Which calls of which runs wait for a decision, read from their records."""

__all__ = ["pending_items"]

from ziggurat.calls.gate import recorded_items
from ziggurat.core.errors import RunNotFound
from ziggurat.messages.agent import PendingItem
from ziggurat.runs.runs import Runs


async def pending_items(runs: Runs, agent: str, limit: int) -> dict[str, tuple[PendingItem, ...]]:
    """Return the calls that wait for a decision in the runs of an agent, by the id of the run, the latest run first."""
    found: dict[str, tuple[PendingItem, ...]] = {}
    for info in await runs.list(agent=agent, status="Suspended", limit=limit):
        try:
            journal = await runs.read(info.id)
        except RunNotFound:  # it was deleted meanwhile
            continue
        items = tuple(recorded_items(journal))
        if items:
            found[info.id] = items
    return found

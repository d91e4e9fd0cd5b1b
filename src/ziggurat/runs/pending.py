"""Which calls of which runs wait for a decision, read from their records."""

__all__ = ["pending_items"]

from ziggurat.core.codec import as_type
from ziggurat.core.entries import Pending, Record
from ziggurat.core.errors import RunNotFound
from ziggurat.core.path import is_tool_call
from ziggurat.messages.agent import PendingItem, Stage
from ziggurat.messages.parts import ToolCall
from ziggurat.runs.runs import Runs


async def pending_items(runs: Runs, agent: str, limit: int) -> dict[str, tuple[PendingItem, ...]]:
    """Return the calls that wait for a decision in the runs of an agent, by the id of the run, the latest run first."""
    found: dict[str, tuple[PendingItem, ...]] = {}
    for info in await runs.list(agent=agent, status="Suspended", limit=limit):
        try:
            journal = await runs.read(info.id)
        except RunNotFound:  # it was deleted meanwhile
            continue
        items = tuple(_item(pending, journal.find(pending.path)) for pending in journal.pending())
        if items:
            found[info.id] = items
    return found


def _item(pending: Pending, record: Record | None) -> PendingItem:
    interrupted = record is not None and record.intent is not None
    call = as_type(pending.request, ToolCall)
    stage: Stage = "tool" if is_tool_call(pending.path) else "model"
    return PendingItem(pending.id, pending.path, call, pending.reason, stage, pending.until, interrupted)

"""Waking: when a run that is suspended can go on."""

import asyncio

from ziggurat.core.clock import Clock
from ziggurat.core.tasks import first_of
from ziggurat.journal.entries import Ended, Pending
from ziggurat.journal.store import OPEN, InboxItem, LogInfo
from ziggurat.messages.agent import PendingItem, recorded_item
from ziggurat.messages.posted import PostedEvent, read_posted
from ziggurat.runs.runs import Runs
from ziggurat.tools.decisions import awaited_in

POLL = 0.4
"""Seconds between two looks at a run that waits here, and to which other processes may post something."""


async def due(runs: Runs, run_id: str, clock: Clock, seen: int) -> int | None:
    """Wait until a run can go on here: at its time, by an item after the last seen, or because another left it undone.

    Returns:
        The number of the last item seen; None if the run has ended by now, or was deleted.
    """
    began, count, at = seen, 0, None
    names: set[str] = set()
    while True:
        with runs.changes(run_id) as changed:
            info, items = await runs.find(run_id), await runs.inbox(run_id, seen)
            if info is None or info.status not in OPEN:
                return None
            left = POLL
            if not runs.is_driven(info):
                if info.status == "running":
                    return items[-1].number if items else seen
                if info.count != count:  # another process may have driven it on to another wait
                    if seen != began:  # for which an event may be that was passed over
                        return seen
                    ended = await runs.entry(run_id, info.count)
                    count, at, names = info.count, ended.due if isinstance(ended, Ended) else None, set()
                if items:
                    seen, names = items[-1].number, names or await _names(runs, info)
                    posted = [read_posted(item.data) for item in items]
                    if not names or not all(
                        isinstance(each, PostedEvent) and each.name not in names for each in posted
                    ):
                        return seen
                left = POLL if at is None else at - clock.now()
                if left <= 0:
                    return seen
            await first_of(asyncio.wait([changed], timeout=POLL), clock.sleep(left))


async def waits_of(runs: Runs, info: LogInfo) -> list[PendingItem]:
    """Return what a suspended run waits for; if its end has their numbers, only the entries that say so are read."""
    ended = await runs.entry(info.id, info.count)
    if not isinstance(ended, Ended) or ended.still:  # it goes on by now, or was decided on
        waits = [*(await runs.read(info.id)).index.waits().values()]
    else:
        entries = [await runs.entry(info.id, number) for number in ended.waits or ()]
        waits = [entry for entry in entries if isinstance(entry, Pending)]
    return [recorded_item(wait, None) for wait in waits]


async def _names(runs: Runs, info: LogInfo) -> set[str]:
    """Return the names of the events that a suspended run waits for; a timer has an empty one."""
    alone = [item for item in await waits_of(runs, info) if not item.needs_decision]
    return {awaited_in(item.call).event if item.stage == "event" else "" for item in alone}


def _is_for_later(item: InboxItem, names: set[str]) -> bool:
    content = read_posted(item.data)
    return isinstance(content, PostedEvent) and content.name not in names

"""Waking: what a suspended run waits for, and when it can go on."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress

from ziggurat.core import errors
from ziggurat.core.clock import Clock
from ziggurat.core.tasks import first_of
from ziggurat.journal.entries import Ended, Pending
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import OPEN, LogInfo
from ziggurat.messages.agent import PendingItem, recorded_item, recorded_items
from ziggurat.messages.message import ToolCall
from ziggurat.messages.posted import PostedEvent, read_posted
from ziggurat.messages.recorded import waiting_calls
from ziggurat.runs.runs import Runs
from ziggurat.stores.session import SessionLease
from ziggurat.tools.decisions import Normalize, awaited_in, expired

POLL = 0.4  # seconds between two looks at a run that waits here, and to which other processes may post something


async def due(runs: Runs, run_id: str, clock: Clock, seen: int) -> tuple[str, int] | None:
    """Wait until a run, or the one that continues it, can go on here; return its id and the last item seen, or None."""
    # It can at its time, by an item after the last seen, or because another process left it undone. It is due as well
    # where one has driven it on to a wait for people, as nobody waits for that here.
    began, count, at = seen, 0, None
    names: set[str] = set()
    while True:
        with runs.changes(run_id) as changed:
            info, items = await runs.find(run_id), await runs.inbox(run_id, seen)
            if info is not None and info.status == "Continued":
                run_id, seen, began, count = info.next_id, 0, 0, -1
                continue
            if info is None or info.status not in OPEN:
                return None
            left = POLL
            if not runs.is_driven(info):
                if info.status == "running":
                    return run_id, items[-1].number if items else seen
                if info.count != count:  # another process may have driven it on to another wait
                    if seen != began or (count and await _waits_for_people(runs, info)):
                        return run_id, seen  # if items were seen: one may be for that wait and was passed over
                    ended = await runs.entry(run_id, info.count)
                    count, at, names = info.count, ended.due if isinstance(ended, Ended) else None, set()
                if items:
                    seen, names = items[-1].number, names or await _names(runs, info)
                    posted = [read_posted(item.data) for item in items]
                    if not names or not all(
                        isinstance(each, PostedEvent) and each.name not in names for each in posted
                    ):
                        return run_id, seen
                left = POLL if at is None else at - clock.now()
                if left <= 0:
                    return run_id, seen
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


async def _waits_for_people(runs: Runs, info: LogInfo) -> bool:
    waits = await waits_of(runs, info)
    return bool(waits) and all(item.needs_decision for item in waits)


async def _names(runs: Runs, info: LogInfo) -> set[str]:
    """Return the names of the events that a suspended run waits for; a timer has an empty one."""
    alone = [item for item in await waits_of(runs, info) if not item.needs_decision]
    return {awaited_in(item.call).event if item.stage == "event" else "" for item in alone}


def calls_that_wait(journal: LocalJournal, pending: Sequence[PendingItem]) -> list[ToolCall]:
    """Return the tool calls that wait, and those around what waits."""
    calls = [item.call for item in pending if item.stage == "tool"]
    return calls + waiting_calls(journal.entries, [item.path for item in pending])


def waits_beside(
    runs: Runs, lease: SessionLease, own_id: str, clock: Clock
) -> Callable[[ToolCall, Normalize], Awaitable[bool]]:
    """Return a function that finds out whether another run of a session waits with a call."""

    async def waits(call: ToolCall, normalize: Normalize) -> bool:
        for run_id, digests in [*lease.state.waiting.items()]:
            if run_id != own_id and digests and await _waits_with(runs, run_id, digests, call, normalize, clock.now()):
                return True
        return False

    return waits


async def _waits_with(
    runs: Runs, run_id: str, digests: Collection[str], call: ToolCall, normalize: Normalize, now: float
) -> bool:
    """Return whether a run waits with an equal call, as its session knows, or as its tool takes the arguments now."""
    info = await runs.find(run_id)
    if info is not None and info.status not in OPEN:
        return False
    try:
        journal = await runs.read(run_id)
    except (errors.RunNotFound, errors.JournalCorrupt):  # it is kept elsewhere, or damaged: the session knows best
        return call.fingerprint() in digests
    items = recorded_items(journal)
    if items and all(expired(item, now) is not None for item in items):
        return False
    if call.fingerprint() in digests:
        return True
    for earlier in calls_that_wait(journal, items):
        with suppress(errors.InvalidArguments):
            if earlier.name == call.name and normalize(earlier).arguments == call.arguments:
                return True
    return False

"""Which calls of which runs wait for people, read from their records."""

from collections.abc import Collection, Mapping
from typing import Literal

from ziggurat.core.errors import ConfigurationError, JournalCorrupt, RunNotFound
from ziggurat.core.log import logger
from ziggurat.core.settings import PositiveInt, checked, meant_by
from ziggurat.journal.entries import Decided
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import OPEN, Store
from ziggurat.messages.agent import PendingItem, recorded_items
from ziggurat.messages.posted import PostedDecisions, PostedWithdrawal, read_posted
from ziggurat.runs.runs import Runs, runs_of

Kinds = Collection[Literal["tool", "model", "question"]]
"""Kinds of what waits for a person: a call of a tool, a call of a model, a question of a flow or a tool."""

_KINDS = ("tool", "model", "question")


class PendingRuns(dict[str, tuple[PendingItem, ...]]):
    """What waits for people, by the id of its run, the oldest first; `next` is ``after=`` of the next page."""

    next: str | None = None


@checked
async def pending(
    store: str | Store,
    *,
    agent: str | None = None,
    labels: Mapping[str, object] | None = None,
    kinds: Kinds | None = None,
    after: str | None = None,
    limit: PositiveInt = 100,
) -> PendingRuns:
    """Return the calls that wait for people in the runs of a store, by the id of the run, the oldest run first.

    Only reads the records: it needs neither the code nor the dependencies of the agents, and takes no lease::

        page = await pending("sqlite:///agents.db")
        for run_id, items in page.items():
            print(run_id, [item.call.name for item in items])
        more = await pending("sqlite:///agents.db", after=page.next) if page.next else {}

    What waits while all pages are read is in one of them, once, whatever happens to other runs meanwhile. Timers and
    events wait by themselves, and are not listed.

    Args:
        store: A URL or a store.
        agent: Only runs of the agent of this name.
        labels: Only runs that have each of these labels, with an equal value.
        kinds: Only these: ``"tool"``, ``"model"``, ``"question"``.
        after: The `next` of the page before.
        limit: The largest number of runs.
    """
    return await pending_runs(runs_of(store), agent, labels, kinds, after, limit)


async def pending_runs(
    runs: Runs,
    agent: str | None,
    labels: Mapping[str, object] | None,
    kinds: Kinds | None,
    after: str | None,
    limit: int,
) -> PendingRuns:
    for unknown in sorted({*(kinds or ())}.difference(_KINDS)):
        raise ConfigurationError(f"{unknown!r} is none of the kinds {', '.join(_KINDS)}{meant_by(unknown, {*_KINDS})}")
    waiting, place = PendingRuns(), _place_of(after)
    while infos := await runs.logs(limit, agent=agent, labels=labels, asking=place):
        for info in infos:
            if len(waiting) == limit:
                waiting.next = f"{place[0]!r} {place[1]}"
                return waiting
            place = (info.created, info.log)
            items = await _items(runs, info.id)
            items = tuple(item for item in items if item.needs_decision and (kinds is None or item.stage in kinds))
            if items:
                waiting[info.id] = items
    return waiting


def _place_of(after: str | None) -> tuple[float, str]:
    created, _, log = (after or "-inf ").partition(" ")
    try:
        return float(created), log
    except ValueError:
        raise ConfigurationError(f"after={after!r} is not the `next` of a page of pending()") from None


async def _items(runs: Runs, run_id: str) -> tuple[PendingItem, ...]:
    try:
        journal = await runs.read(run_id)
    except RunNotFound:
        return ()
    except JournalCorrupt as error:
        logger.warning("what waits in the run %s cannot be listed: %s", run_id, error)
        return ()
    return await undecided(journal, run_id, runs)


async def undecided(journal: LocalJournal, run_id: str, runs: Runs) -> tuple[PendingItem, ...]:
    """Return what waits in a run by its record, without what decisions are posted on that the run will use."""
    items = recorded_items(journal) if journal.ended is None or journal.ended.stop in OPEN else ()
    posted = [(each, read_posted(each.data)) for each in (await runs.inbox(run_id) if items else ())]
    used = {entry.posted for entry in journal.entries if isinstance(entry, Decided)} if posted else ()
    withdrawn = {content.key for _, content in posted if isinstance(content, PostedWithdrawal)}
    decided: set[str] = set()
    for each, content in posted:
        if isinstance(content, PostedDecisions) and each.number not in used and each.key not in withdrawn:
            decided.update(content.decisions)
    return tuple(item for item in items if item.id not in decided)

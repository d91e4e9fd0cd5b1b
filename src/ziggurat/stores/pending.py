"""Which calls of which runs wait for a decision, read from their records."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, cast

from ziggurat.core.errors import JournalCorrupt, RunNotFound
from ziggurat.core.settings import PositiveInt
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import LogInfo, Store
from ziggurat.messages.agent import PendingItem
from ziggurat.messages.pending import recorded_items

logger: logging.Logger = logging.getLogger("ziggurat")


async def pending_items(
    infos: Iterable[LogInfo], read: Callable[[str], Awaitable[LocalJournal]]
) -> dict[str, tuple[PendingItem, ...]]:
    """Return the calls that wait for a decision in suspended runs, by the id of the run, in the order of the runs."""
    waiting: dict[str, tuple[PendingItem, ...]] = {}
    for info in infos:
        try:
            journal = await read(info.id)
        except RunNotFound:
            continue
        except JournalCorrupt as error:
            logger.warning("what waits in the run %s cannot be listed: %s", info.id, error)
            continue
        items = recorded_items(journal)
        if items:
            waiting[info.id] = items
    return waiting


class ListsPending:
    """The part of a store that lists what waits in its runs."""

    async def pending(
        self,
        *,
        agent: str | None = None,
        labels: Mapping[str, object] | None = None,
        limit: PositiveInt = 100,
    ) -> dict[str, tuple[PendingItem, ...]]:
        """Return the calls that wait for a decision, by the id of the run, the latest run first.

        Only reads the records: it needs neither the code nor the dependencies of the agents, and takes no lease::

            for run_id, items in (await store.pending()).items():
                print(run_id, [item.call.name for item in items])

        Args:
            agent: Only runs of the agent of this name.
            labels: Only runs that have each of these labels, with an equal value.
            limit: The largest number of runs.
        """
        from ziggurat.stores.records import read_record

        store = cast(Store, self)
        infos = await store.logs("run:", agent=agent, status="Suspended", labels=labels, limit=limit)
        return await pending_items(infos, partial(read_record, store))


class RunStore(Store, Protocol):
    """A store that also lists what waits in its runs, as all those do that `connect` opens."""

    async def pending(
        self, *, agent: str | None = None, labels: Mapping[str, object] | None = None, limit: int = 100
    ) -> dict[str, tuple[PendingItem, ...]]:
        """Return the calls that wait for a decision; see `ListsPending.pending`."""
        ...

"""`RunRecords`: the verbs of an agent that read its recorded runs, and call nothing."""

__all__ = ["RunRecords"]

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from ziggurat.core.settings import NonNegativeInt, PositiveInt, checked
from ziggurat.messages.agent import PendingItem
from ziggurat.runs.options import RunId
from ziggurat.runs.runs import Runs

if TYPE_CHECKING:
    from ziggurat.core.broadcast import SubscribedItem


class RunRecords:
    """The recorded runs of an agent.

    Attributes:
        name: The name of the agent.
    """

    name: str
    _runs: Runs

    @checked
    def subscribe(self, run_id: RunId, *, after: NonNegativeInt = 0) -> AsyncGenerator["SubscribedItem", None]:
        """Follow a run by its id, from its start or after a given entry, also while it is in progress::

            async for item in agent.subscribe("r-17", after=12):
                print(item.number, item.what)

        Recorded entries come complete and in order, whenever the reader joins; pieces of a reply come as they pass.
        There can be any number of readers; none slows the run.

        Raises:
            RunNotFound: no such run is in progress or in the store.
            ConfigurationError: `after` is not the number of an entry.
        """
        return self._runs.subscribe(run_id, after)

    @checked
    async def pending(self, *, limit: PositiveInt = 100) -> dict[str, tuple[PendingItem, ...]]:
        """Return the calls of this agent's runs that wait for a decision, by the id of the run, the latest run first.

        Only reads the records: it needs no dependencies, takes no lease and calls nothing.

        Args:
            limit: The largest number of runs.
        """
        from ziggurat.stores.pending import pending_items

        infos = await self._runs.list(agent=self.name, status="Suspended", limit=limit)
        return await pending_items(infos, self._runs.read)

    @checked
    async def record(self, run_id: RunId) -> bytes:
        """Return the record of a run as JSON lines.

        Raises:
            RunNotFound: the store has no such run.
            JournalCorrupt: an entry is damaged; the message names it.
        """
        return (await self._runs.read(run_id)).dump()

"""The store that holds runs in this process."""

__all__ = ["InMemoryRunStore"]

from collections import OrderedDict

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import ConfigurationError, RunNotFound
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.recorder import Mode
from ziggurat.stores.memory_rows import MemoryRows
from ziggurat.stores.running import Running


class InMemoryRunStore(Running):
    """Hold the journals of runs in this process, by reference; the oldest are dropped beyond a limit.

    Args:
        limit: The maximum number of runs.
        finished: Whether to keep finished runs too, not only those that can be resumed.

    Raises:
        ConfigurationError: `limit` is not a whole number of at least 1.

    Attributes:
        rows: The store of other logs, such as sessions.
    """

    def __init__(self, limit: int = 1000, *, finished: bool = True) -> None:
        super().__init__()
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ConfigurationError(f"InMemoryRunStore(limit=...) is a whole number of at least 1, got {limit!r}")
        self.limit = limit
        self.finished = finished
        self._journals: OrderedDict[str, MemoryJournal] = OrderedDict()
        self.rows = MemoryRows()

    def keep(self, run_id: str, journal: MemoryJournal, *, finished: bool) -> None:
        """Store a run's journal, or drop it if it is finished and finished runs are not kept."""
        self.leave(run_id)
        if finished and not self.finished:
            self._journals.pop(run_id, None)
            return
        self._journals[run_id] = journal
        self._journals.move_to_end(run_id)
        while len(self._journals) > self.limit:
            self._journals.popitem(last=False)

    def find(self, run_id: str) -> MemoryJournal | None:
        """Return the journal of a run, or None."""
        return self._journals.get(run_id)

    def open(self, run_id: str) -> MemoryJournal:
        """Return the journal of a run.

        Raises:
            RunNotFound: it is not in this store.
        """
        journal = self._running.get(run_id) or self._journals.get(run_id)
        if journal is None:
            kept = ", ".join(list(self._journals)[-5:]) or "none"
            raise RunNotFound(
                f"no run {run_id!r} is kept here (the latest: {kept}); an agent without a store keeps no finished ones"
            )
        return journal

    def dump(self, run_id: str) -> bytes:
        """Return a run's journal as JSON lines."""
        return self.open(run_id).dump()

    def load(
        self, run_id: str, data: bytes, mode: Mode = "resume", *, strict: bool = False, clock: Clock = SYSTEM_CLOCK
    ) -> MemoryJournal:
        """Load a journal that `dump` wrote, here or elsewhere.

        Raises:
            JournalCorrupt: an entry cannot be read.
        """
        journal = MemoryJournal.load(data, mode, strict=strict, clock=clock)
        self.keep(run_id, journal, finished=False)
        return journal

    def runs(self) -> tuple[str, ...]:
        """Return the ids of the stored runs, the oldest first."""
        return tuple(self._journals)

    async def close(self) -> None:
        """Do nothing; it exists so that every store can be closed in the same way."""

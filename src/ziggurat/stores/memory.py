"""Runs kept in this process."""

__all__ = ["MemoryStore"]

from collections import OrderedDict

from ziggurat.core.broadcast import Broadcast
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import ConfigurationError, RunNotFound
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.recorder import Mode


class MemoryStore:
    """Keeps the journals of runs by their ids; the oldest go when there are too many.

    Args:
        limit: How many runs are kept at most.
        finished: Whether runs that came to their end are kept too, not only those that can go on.
    """

    def __init__(self, limit: int = 1000, *, finished: bool = True) -> None:
        self.limit = limit
        self.finished = finished
        self._journals: OrderedDict[str, MemoryJournal] = OrderedDict()
        self._running: dict[str, MemoryJournal] = {}
        self._broadcasts: dict[str, Broadcast] = {}

    def create(self, run_id: str, clock: Clock = SYSTEM_CLOCK) -> MemoryJournal:
        """Return a journal for a new run; `keep` it to find it again."""
        return MemoryJournal(clock=clock)

    def begin(self, run_id: str, journal: MemoryJournal) -> None:
        """Note that a run goes on in this process now, until it is kept.

        Raises:
            ConfigurationError: it does so already.
        """
        self.check_idle(run_id)
        self._running[run_id] = journal

    def check_idle(self, run_id: str) -> None:
        """Raise ConfigurationError if a run goes on in this process."""
        if run_id in self._running:
            raise ConfigurationError(f"the run {run_id!r} goes on already; wait for its end, or choose another id")

    def keep(self, run_id: str, journal: MemoryJournal, *, finished: bool) -> None:
        """Keep a run's journal, or let go of it when it is finished and finished runs are not kept."""
        self._running.pop(run_id, None)
        self._broadcasts.pop(run_id, None)
        if finished and not self.finished:
            self._journals.pop(run_id, None)
            return
        self._journals[run_id] = journal
        self._journals.move_to_end(run_id)
        while len(self._journals) > self.limit:
            self._journals.popitem(last=False)

    def announce(self, run_id: str, broadcast: Broadcast) -> None:
        """Note where the events of a run that goes on can be heard."""
        self._broadcasts[run_id] = broadcast

    def broadcast(self, run_id: str) -> Broadcast | None:
        """Return where the events of a run can be heard, None when it does not go on here."""
        return self._broadcasts.get(run_id)

    def find(self, run_id: str) -> MemoryJournal | None:
        """Return the journal of a run, or None."""
        return self._journals.get(run_id)

    def open(self, run_id: str) -> MemoryJournal:
        """Return the journal of a run.

        Raises:
            RunNotFound: it is not kept here.
        """
        journal = self._running.get(run_id) or self._journals.get(run_id)
        if journal is None:
            kept = ", ".join(list(self._journals)[-5:]) or "none"
            raise RunNotFound(
                f"no run {run_id!r} is kept here (the latest: {kept}); finished runs are kept with store='memory:' only"
            )
        return journal

    def dump(self, run_id: str) -> bytes:
        """Write a run's journal as JSON lines."""
        return self.open(run_id).dump()

    def load(
        self, run_id: str, data: bytes, mode: Mode = "resume", *, strict: bool = False, clock: Clock = SYSTEM_CLOCK
    ) -> MemoryJournal:
        """Take in a journal that `dump` wrote, here or elsewhere.

        Raises:
            JournalCorrupt: an entry cannot be read.
        """
        journal = MemoryJournal.load(data, mode, strict=strict, clock=clock)
        self.keep(run_id, journal, finished=False)
        return journal

    def runs(self) -> tuple[str, ...]:
        """Return the ids of the runs that are kept, the oldest first."""
        return tuple(self._journals)

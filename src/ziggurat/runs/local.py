"""LocalRuns: the runs of an agent without a store, by reference, in this process."""

__all__ = ["LocalRuns"]

from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from functools import cached_property

from ziggurat.core.broadcast import Broadcast, SubscribedItem, subscribe
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.codec import as_type, digest
from ziggurat.core.entries import Ended, JournalEntry, Opened
from ziggurat.core.errors import RunExists, RunNotFound
from ziggurat.core.journal import LocalJournal
from ziggurat.core.recorder import Mode
from ziggurat.core.store import LogInfo, Store, run_log
from ziggurat.messages.agent import AgentRequest
from ziggurat.runs.options import Environment
from ziggurat.runs.runs import BY_STORE, InProgress, Screening, is_resumable

LIMIT = 1000
"""How many runs that can be continued are kept; beyond that the oldest are dropped."""


class LocalRuns:
    """Keep the journals of runs that can be continued, by reference; those that have ended for good are dropped."""

    keeps_ended = False

    def __init__(self) -> None:
        self._journals: OrderedDict[str, LocalJournal] = OrderedDict()
        self._asked: dict[str, str] = {}
        self._in_progress = InProgress()

    @cached_property
    def store(self) -> Store:
        """The store of their sessions, made when it is first asked for; see `Runs`."""
        from ziggurat.stores.local import LocalLogs

        store = LocalLogs()
        BY_STORE[id(store)] = self
        return store

    async def find(self, run_id: str) -> LogInfo | None:
        """Return the status of a run; see `Runs`."""
        journal = self._in_progress.journal(run_id) or self._journals.get(run_id)
        return None if journal is None else self._info(run_id, journal)

    async def list(self, *, agent: str | None = None, status: str | None = None, limit: int = 100) -> Sequence[LogInfo]:
        """Return the runs; see `Runs`."""
        infos = [self._info(run_id, journal) for run_id, journal in reversed(self._journals.items())]
        return [info for info in infos if info.fits(None, status, None)][:limit]  # they are all of one agent

    async def open(
        self, opened: Opened, agent: str, asked: str, screening: Screening, environment: Environment
    ) -> LocalJournal:
        """Begin a run; see `Runs`."""
        run_id = opened.run_id
        self._in_progress.begin(run_id)
        if run_id in self._journals:
            self._in_progress.end(run_id)
            raise RunExists(f"the run {run_id!r} exists; choose another id")
        journal = LocalJournal(clock=environment.clock)
        screening(journal)
        journal.append(opened)
        if asked:
            self._asked[run_id] = asked
        self._in_progress.add(run_id, journal)
        return journal

    async def take(self, run_id: str, environment: Environment) -> LocalJournal:
        """Take over a run; see `Runs`."""
        kept = self._find(run_id)
        self._in_progress.begin(run_id)
        journal = kept.copy("resume", clock=environment.clock)
        self._in_progress.add(run_id, journal)
        return journal

    async def leave(self, run_id: str, journal: LocalJournal, *, mistaken: bool = False) -> None:
        """Keep a run that can be continued; see `Runs`."""
        self._in_progress.end(run_id)
        ended = journal.ended
        if not journal.went_on and (mistaken or journal.reopened):
            return
        if ended is not None and not is_resumable(ended.stop):
            self._journals.pop(run_id, None)
            self._asked.pop(run_id, None)
            return
        self._journals[run_id] = journal
        self._journals.move_to_end(run_id)
        while len(self._journals) > LIMIT:
            oldest, _ = self._journals.popitem(last=False)
            self._asked.pop(oldest, None)

    def announce(self, run_id: str, broadcast: Broadcast) -> None:
        """Let the events of a run be heard; see `Runs`."""
        self._in_progress.announce(run_id, broadcast)

    async def read(self, run_id: str, mode: Mode = "resume", clock: Clock = SYSTEM_CLOCK) -> LocalJournal:
        """Return a copy of a run's record; see `Runs`."""
        return self._find(run_id).copy(mode, clock=clock)

    async def plant(self, run_id: str, agent: str, entries: Sequence[JournalEntry]) -> None:
        """Create a run from entries; see `Runs`."""
        self._in_progress.begin(run_id)
        self._in_progress.end(run_id)
        if run_id in self._journals:
            raise RunExists(f"the run {run_id!r} exists; choose another id")
        journal = LocalJournal()
        journal.take_over(entries)
        self._journals[run_id] = journal

    def subscribe(self, run_id: str, after: int) -> AsyncGenerator[SubscribedItem, None]:
        """Yield the entries and events of a run; see `Runs`."""
        return subscribe(self._find(run_id), self._in_progress.broadcast(run_id), after=after)

    def _find(self, run_id: str) -> LocalJournal:
        journal = self._in_progress.journal(run_id) or self._journals.get(run_id)
        if journal is None:
            raise RunNotFound(f"no run {run_id!r} is kept here; an agent without a store keeps no finished ones")
        return journal

    def _info(self, run_id: str, journal: LocalJournal) -> LogInfo:
        opened, ended = journal.entries[0], journal.entries[-1]
        assert isinstance(opened, Opened)
        asked = self._asked.get(run_id) or digest(as_type(opened.request, AgentRequest))
        status = ended.stop if isinstance(ended, Ended) else "running"
        return LogInfo(run_log(run_id), "", asked, opened.at, status, opened.at, len(journal.entries))

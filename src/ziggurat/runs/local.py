"""LocalRuns: the runs of an agent without a store, by reference, in this process; `runs_of` those of any store."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.codec import as_type, digest
from ziggurat.core.errors import RunExists, RunNotFound
from ziggurat.journal.entries import Ended, JournalEntry, Opened
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.queue import Claim, InboxItem
from ziggurat.journal.store import UNFINISHED, LogInfo, Store, run_log
from ziggurat.messages.agent import AgentRequest
from ziggurat.runs.conditions import labels_of
from ziggurat.runs.options import Environment
from ziggurat.runs.runs import Runs, Screening

if TYPE_CHECKING:
    from ziggurat.runs.broadcast import SubscribedItem

_BY_STORE: "WeakValueDictionary[int, Runs]" = WeakValueDictionary()
"""The runs of each store in use, by its `id()`: one object per store."""

LIMIT = 1000
"""How many runs that can be continued are kept; beyond that the oldest are dropped."""


class LocalRuns(Runs):
    """Keep the journals of runs that can be continued, by reference; those that have ended for good are dropped."""

    keeps_ended = False

    def __init__(self) -> None:
        super().__init__()
        self._journals: OrderedDict[str, LocalJournal] = OrderedDict()
        self._fingerprints: dict[str, str] = {}
        self._inboxes: dict[str, list[InboxItem]] = {}
        self._keys: dict[str, set[str]] = {}  # of the items in each inbox

    @cached_property
    def store(self) -> Store:
        """The store of their sessions, made when it is first asked for."""
        from ziggurat.stores.local import InMemoryStore

        store = InMemoryStore()
        _BY_STORE[id(store)] = self
        return store

    async def find(self, run_id: str) -> LogInfo | None:
        """Return the status of a run."""
        journal = self._in_progress.get(run_id) or self._journals.get(run_id)
        return None if journal is None else self._info(run_id, journal)

    async def list(self, agent: str, status: str, labels: Mapping[str, object] | None, limit: int) -> Sequence[LogInfo]:
        """Return the runs, which are all of one agent."""
        infos = [self._info(run_id, journal) for run_id, journal in reversed(self._journals.items())]
        return [info for info in infos if info.fits(None, status, None, labels)][:limit]

    async def read(self, run_id: str, clock: Clock = SYSTEM_CLOCK) -> LocalJournal:
        """Return a copy of a run's record."""
        return _copy(self._find(run_id), clock)

    async def entry(self, run_id: str, number: int) -> JournalEntry | None:
        """Return one entry of a run's record."""
        entries = self._find(run_id).entries
        return entries[number - 1] if 0 < number <= len(entries) else None

    async def plant(
        self,
        run_id: str,
        agent: str,
        entries: Sequence[JournalEntry],
        *,
        fingerprint: str = "",
        due: float | None = None,
        priority: int = 0,
    ) -> None:
        """Create a run from entries."""
        journal = LocalJournal()
        journal.take_over(entries)
        self._check_new(run_id)
        self._journals[run_id] = journal

    async def put_item(self, run_id: str, key: str, data: bytes) -> bool:
        """Post an item to the inbox of a run."""
        if run_id not in self._in_progress:
            self._find(run_id)
        inbox, keys = self._inboxes.setdefault(run_id, []), self._keys.setdefault(run_id, set())
        if key in keys:
            return False
        keys.add(key)
        inbox.append(InboxItem(len(inbox) + 1, key, data))
        return True

    async def inbox(self, run_id: str, after: int = 0) -> Sequence[InboxItem]:
        """Return the items of a run's inbox."""
        return self._inboxes.get(run_id, [])[after:]

    def subscribe(self, run_id: str, after: int, *, live: bool = True) -> AsyncGenerator["SubscribedItem", None]:
        """Yield the entries and events of a run."""
        return self._follow(run_id, self._find(run_id), after)

    async def _open(
        self, opened: Opened, agent: str, fingerprint: str, screening: Screening, environment: Environment
    ) -> LocalJournal:
        run_id = opened.run_id
        self._check_new(run_id)
        journal = LocalJournal(clock=environment.clock)
        screening(journal)
        journal.append(opened)
        if fingerprint:
            self._fingerprints[run_id] = fingerprint
        return journal

    async def _take(self, run_id: str, environment: Environment, claim: Claim | None) -> LocalJournal:
        return _copy(self._find(run_id), environment.clock)

    async def _leave(self, run_id: str, journal: LocalJournal, mistaken: bool) -> None:
        ended = journal.ended
        if (mistaken or journal.reopened) and not journal.went_on:
            if mistaken and journal.is_new:
                self._journals.pop(run_id, None)
            return
        if ended is not None and ended.stop not in UNFINISHED:
            self._journals.pop(run_id, None)
            self._drop(run_id)
            return
        self._journals[run_id] = journal
        self._journals.move_to_end(run_id)
        while len(self._journals) > LIMIT:
            oldest, _ = self._journals.popitem(last=False)
            self._drop(oldest)

    def _drop(self, run_id: str) -> None:
        self._fingerprints.pop(run_id, None)
        self._inboxes.pop(run_id, None)
        self._keys.pop(run_id, None)

    def _check_new(self, run_id: str) -> None:
        if run_id in self._journals or self._in_progress.get(run_id) is not None:
            raise RunExists(f"the run {run_id!r} exists; choose another id")

    def _find(self, run_id: str) -> LocalJournal:
        journal = self._in_progress.get(run_id) or self._journals.get(run_id)
        if journal is None:
            raise RunNotFound(f"there is no run {run_id!r}; an agent without a store keeps no finished runs")
        return journal

    def _info(self, run_id: str, journal: LocalJournal) -> LogInfo:
        opened, ended = journal.entries[0], journal.entries[-1]
        assert isinstance(opened, Opened)
        fingerprint = self._fingerprints.get(run_id) or digest(as_type(opened.request, AgentRequest))
        status = ended.stop if isinstance(ended, Ended) else "running"
        labels = labels_of(opened)
        return LogInfo(
            run_log(run_id), "", fingerprint, opened.at, status, opened.at, len(journal.entries), labels=labels
        )


def _copy(journal: LocalJournal, clock: Clock) -> LocalJournal:
    copy = LocalJournal("resume", clock=clock)
    copy.take_over(journal.entries)
    return copy


def runs_of(store: str | Store | None) -> Runs:
    """Return the runs of a store; without one, runs of this process that are kept while they can be continued.

    Raises:
        ConfigurationError: there is no store at the address, or it is no store.
    """
    if store is None:
        return LocalRuns()
    from ziggurat.runs.stored import StoredRuns
    from ziggurat.stores.addresses import connect

    store = connect(store)
    runs = _BY_STORE.get(id(store))  # runs keep their store alive, so its id is not reused
    if runs is None:
        runs = _BY_STORE[id(store)] = StoredRuns(store)
    return runs

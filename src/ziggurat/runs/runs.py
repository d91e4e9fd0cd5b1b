"""Runs: the base of what keeps runs, and knows which of them are in progress in this process."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.containment import ring
from ziggurat.core.errors import ConfigurationError, JournalCorrupt
from ziggurat.journal.entries import JournalEntry, Opened
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.queue import Claim, InboxItem
from ziggurat.journal.store import LogInfo, Store
from ziggurat.runs.control import RunControl
from ziggurat.runs.options import Environment

if TYPE_CHECKING:
    from ziggurat.calls.inbox import Inbox
    from ziggurat.runs.broadcast import SubscribedItem
    from ziggurat.runs.driven import DrivenRun

POLL = 1.0
"""Seconds between two looks at a run that waits, and that another process may continue."""

Screening = Callable[[LocalJournal], None]
"""Sets the functions that redact entries before they are kept."""


class Runs(ABC):
    """Where the runs of agents are kept: only one caller at a time drives a run, anyone can read it."""

    keeps_ended: bool
    """Whether a run that completed can still be found by its id."""

    def __init__(self) -> None:
        self._in_progress: dict[str, LocalJournal | None] = {}  # None while a run is being opened or taken over
        self._driven: dict[str, DrivenRun] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store of their sessions and, if they outlive the process, of the runs."""

    @abstractmethod
    async def find(self, run_id: str) -> LogInfo | None:
        """Return the status of a run and the digest of its request, None if there is none."""

    @abstractmethod
    async def list(self, agent: str, status: str, labels: Mapping[str, object] | None, limit: int) -> Sequence[LogInfo]:
        """Return the runs of an agent that have a status and all of some labels, the most recently changed first."""

    async def was_interrupted(self, info: LogInfo) -> bool:
        """Return whether a run ended because it was cancelled from outside, and not through its handle."""
        return False

    @abstractmethod
    async def read(self, run_id: str, clock: Clock = SYSTEM_CLOCK) -> LocalJournal:
        """Return a copy of a run's record; the run may be in progress elsewhere."""

    async def read_ended(self, run_id: str, clock: Clock = SYSTEM_CLOCK) -> LocalJournal | None:
        """Return a copy of the record of a run that has ended or waits; None if it goes on by now."""
        known: LogInfo | None = None
        while True:
            journal, info = await self.read(run_id, clock), await self.find(run_id)
            stop = "running" if journal.ended is None else journal.ended.stop
            if info is None or info.status in ("running", stop):
                return None if journal.ended is None else journal
            if info == known:
                raise JournalCorrupt(
                    f"the run {run_id!r} has ended by its status, but not by its entries: its status was changed, or "
                    "its last entries are lost; restore the store from a backup"
                )
            known = info  # it may have gone on between the two

    @abstractmethod
    async def entry(self, run_id: str, number: int) -> JournalEntry | None:
        """Return one entry of a run's record, from 1, without reading the others; None if there is none."""

    @abstractmethod
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
        """Create a run from existing entries; take it to continue."""

    async def post(self, run_id: str, key: str, data: bytes) -> bool:
        """Post an item to the inbox of a run, whoever drives it; return whether its key is new."""
        new = await self.put_item(run_id, key, data)
        driven = self._driven.get(run_id)
        if driven is not None:
            driven.posted()
        return new

    @abstractmethod
    async def put_item(self, run_id: str, key: str, data: bytes) -> bool:
        """Do the same as `post`, without letting a driver in this process know."""

    @abstractmethod
    async def inbox(self, run_id: str, after: int = 0) -> Sequence[InboxItem]:
        """Return the items of a run's inbox numbered higher than `after`, in order."""

    def new_inbox(self, run_id: str, journal: LocalJournal) -> "Inbox":
        """Return the inbox of a run that nobody controls: it has neither a store nor a handle nor an id of its own."""
        from ziggurat.calls.inbox import Inbox

        return Inbox(self, run_id, journal, RunControl(run_id).receive)

    @abstractmethod
    def subscribe(self, run_id: str, after: int, *, live: bool = True) -> AsyncGenerator["SubscribedItem", None]:
        """Yield the entries and events of a run after an entry, until it has ended and its leases are free."""

    async def continued(self, run_id: str, count: int) -> bool:
        """Wait until a run that waits, or was interrupted, goes on; return False if it was removed."""
        while not self.is_in_progress(run_id):
            info = await self.find(run_id)
            if info is None:
                return False
            if info.status == "running" or info.count > count:
                break
            await self._begun(run_id, POLL)
        return True

    async def _begun(self, run_id: str, seconds: float) -> bool:
        """Wait until a run is in progress in this process, at most for some seconds; return whether it is."""
        if seconds:
            await self._wait_for_change(run_id, lambda: not self.is_in_progress(run_id), seconds)
        return self.is_in_progress(run_id)

    def open(
        self, opened: Opened, agent: str, fingerprint: str, screening: Screening, environment: Environment
    ) -> Coroutine[Any, Any, LocalJournal]:
        """Begin a run that this caller drives; when the coroutine returns, its first entry is recorded."""
        return self._drive(opened.run_id, self._open(opened, agent, fingerprint, screening, environment))

    def take(
        self, run_id: str, environment: Environment, claim: Claim | None = None
    ) -> Coroutine[Any, Any, LocalJournal]:
        """Take over a run that stopped, or was claimed, so that only this caller drives it."""
        return self._drive(run_id, self._take(run_id, environment, claim))

    async def leave(self, run_id: str, journal: LocalJournal, *, mistaken: bool = False) -> None:
        """Release the lease of a run."""
        try:
            await self._leave(run_id, journal, mistaken)
        finally:
            self._end(run_id)

    def is_in_progress(self, run_id: str) -> bool:
        """Return whether this process drives a run."""
        return run_id in self._in_progress

    def announce(self, run: "DrivenRun") -> None:
        """Send the events of a run in progress to its subscribers, and have it take in what is posted to it."""
        self._driven[run.id] = run
        self._wake(run.id)

    @abstractmethod
    async def _open(
        self, opened: Opened, agent: str, fingerprint: str, screening: Screening, environment: Environment
    ) -> LocalJournal: ...

    @abstractmethod
    async def _take(self, run_id: str, environment: Environment, claim: Claim | None) -> LocalJournal: ...

    @abstractmethod
    async def _leave(self, run_id: str, journal: LocalJournal, mistaken: bool) -> None: ...

    async def _drive(self, run_id: str, opens: Coroutine[Any, Any, LocalJournal]) -> LocalJournal:
        """Open a run, which is in progress from now on until `leave`."""
        if run_id in self._in_progress:
            opens.close()
            raise ConfigurationError(f"the run {run_id!r} is already running; wait for its end, or choose another id")
        self._in_progress[run_id] = None
        try:
            journal = self._in_progress[run_id] = await opens
        except BaseException:
            self._end(run_id)
            raise
        if run_id in self._waiting:
            self._wake(run_id)
        return journal

    def _end(self, run_id: str) -> None:
        self._in_progress.pop(run_id, None)
        self._driven.pop(run_id, None)
        if run_id in self._waiting:
            self._wake(run_id)

    def _wake(self, run_id: str) -> None:
        for waiting in self._waiting.pop(run_id, ()):
            ring(waiting)

    async def _opened(self, run_id: str) -> LocalJournal | None:
        """Return the journal of a run in progress, when its events are announced; None for other runs."""
        await self._wait_while(run_id, lambda: run_id in self._in_progress and run_id not in self._driven)
        return self._in_progress.get(run_id)

    async def _follow(self, run_id: str, journal: LocalJournal, after: int) -> AsyncGenerator["SubscribedItem", None]:
        """Yield the items of a run of this process, until it has ended and its leases are free."""
        from ziggurat.runs.broadcast import subscribe

        driven = self._driven.get(run_id)
        broadcast = None if driven is None else driven.broadcast
        async with aclosing(subscribe(journal, broadcast, after=after)) as items:
            async for item in items:
                yield item
        await self._wait_while(run_id, lambda: self._in_progress.get(run_id) is journal)

    async def _wait_while(self, run_id: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition on a run in progress no longer holds; the run may be driven by another thread."""
        while condition():
            await self._wait_for_change(run_id, condition)

    async def _wait_for_change(self, run_id: str, condition: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until a run begins or ends to be in progress here, at most for some seconds, if a condition holds."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        others = self._waiting.setdefault(run_id, [])
        others.append(waiting)
        try:
            if condition():  # otherwise it changed before we were registered
                await asyncio.wait([waiting], timeout=seconds)
        finally:
            others[:] = [other for other in others if other is not waiting]
            if not others and self._waiting.get(run_id) is others:
                self._waiting.pop(run_id, None)

"""Runs: the protocol of what keeps runs, and the registry of those in progress in this process."""

__all__ = ["BY_STORE", "InProgress", "Runs", "Screening", "is_resumable"]

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from ziggurat.core.broadcast import Broadcast, SubscribedItem
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.entries import JournalEntry, Opened
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.journal import LocalJournal
from ziggurat.core.recorder import Mode
from ziggurat.core.shield import ring
from ziggurat.core.store import UNFINISHED, LogInfo, Store
from ziggurat.runs.options import Environment

Screening = Callable[[LocalJournal], None]
"""Sets the functions that redact entries before they are kept."""


class Runs(Protocol):
    """Where the runs of agents are kept: only one caller at a time drives a run, anyone can read it."""

    @property
    def store(self) -> Store:
        """The store of their sessions and, if they outlive the process, of the runs."""
        ...

    @property
    def keeps_ended(self) -> bool:
        """Whether a run that completed can still be found by its id."""
        ...

    async def find(self, run_id: str) -> LogInfo | None:
        """Return the status of a run and the digest of its request, None if there is none."""
        ...

    async def list(self, *, agent: str | None = None, status: str | None = None, limit: int = 100) -> Sequence[LogInfo]:
        """Return the runs, the most recently changed first."""
        ...

    async def open(
        self, opened: Opened, agent: str, asked: str, screening: Screening, environment: Environment
    ) -> LocalJournal:
        """Begin a run that this caller drives; when this returns, its first entry is recorded.

        Args:
            opened: The first entry.
            agent: The name of its agent.
            asked: The digest that identifies the same request later; empty for the digest of the request itself.
            screening: Sets the functions that redact entries.
            environment: The clock and the probe.

        Raises:
            RunExists: there is a run with this id.
            ConfigurationError: it is in progress in this process.
            StoreError: the store cannot be written.
        """
        ...

    async def take(self, run_id: str, environment: Environment) -> LocalJournal:
        """Take over a run that stopped, so that only this caller drives it.

        What is appended until the run goes on is recorded together with what follows; `leave` before that, and nothing
        has changed.

        Raises:
            RunNotFound: there is no run with this id.
            LeaseHeld: another process drives it.
            ConfigurationError: it is in progress in this process.
            JournalCorrupt: an entry is damaged; the message names it.
        """
        ...

    async def leave(self, run_id: str, journal: LocalJournal, *, mistaken: bool = False) -> None:
        """Give up the right to drive a run.

        Args:
            run_id: The id of the run.
            journal: Its journal, of `open` or `take`.
            mistaken: Whether it stopped for a mistake of the caller; a new run that did nothing is removed then.
        """
        ...

    def announce(self, run_id: str, broadcast: Broadcast) -> None:
        """Let the events of a run in progress be heard by subscribers."""
        ...

    async def read(self, run_id: str, mode: Mode = "resume", clock: Clock = SYSTEM_CLOCK) -> LocalJournal:
        """Return a copy of a run's record; the run may be in progress elsewhere.

        Raises:
            RunNotFound: there is no run with this id.
            JournalCorrupt: an entry is damaged; the message names it.
        """
        ...

    async def plant(self, run_id: str, agent: str, entries: Sequence[JournalEntry]) -> None:
        """Create a run from existing entries; take it to continue.

        Raises:
            RunExists: there is a run with this id.
            StoreError: the store cannot be written.
        """
        ...

    def subscribe(self, run_id: str, after: int) -> AsyncGenerator[SubscribedItem, None]:
        """Yield the entries and events of a run after an entry, until it has ended."""
        ...


BY_STORE: "WeakValueDictionary[int, Runs]" = WeakValueDictionary()
"""The runs of each store in use, by its `id()`: one object per store."""


class InProgress:
    """The runs in progress in this process, and the broadcasts of their events."""

    def __init__(self) -> None:
        self._journals: dict[str, LocalJournal | None] = {}
        self._broadcasts: dict[str, Broadcast] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    def begin(self, run_id: str) -> None:
        """Mark a run as in progress, until `end`.

        Raises:
            ConfigurationError: it is in progress already.
        """
        if run_id in self._journals:
            raise ConfigurationError(f"the run {run_id!r} goes on already; wait for its end, or choose another id")
        self._journals[run_id] = None

    def end(self, run_id: str) -> None:
        """Mark a run as no longer in progress."""
        self._journals.pop(run_id, None)
        self._broadcasts.pop(run_id, None)
        self._wake(run_id)

    def add(self, run_id: str, journal: LocalJournal) -> None:
        """Register the journal of a run in progress."""
        self._journals[run_id] = journal
        self._wake(run_id)

    def _wake(self, run_id: str) -> None:
        for waiting in self._waiting.pop(run_id, ()):
            ring(waiting)

    def announce(self, run_id: str, broadcast: Broadcast) -> None:
        """Register the broadcast of a run's events."""
        self._broadcasts[run_id] = broadcast

    def journal(self, run_id: str) -> LocalJournal | None:
        """Return the journal of a run; None if it is not in progress here."""
        return self._journals.get(run_id)

    async def opened(self, run_id: str) -> None:
        """Wait while a run is being opened or taken over."""
        while run_id in self._journals and self._journals[run_id] is None:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(run_id, []).append(waiting)
            await waiting

    def broadcast(self, run_id: str) -> Broadcast | None:
        """Return the broadcast of a run's events; None if there is none."""
        return self._broadcasts.get(run_id)


def is_resumable(status: str) -> bool:
    """Return whether a run in this state can be continued; otherwise it has ended for good."""
    return status in UNFINISHED

"""StoredRuns: runs in a store; one process at a time drives a run, and any process can read it."""

__all__ = ["StoredRuns", "effects_of", "is_finished", "plant", "record_of", "runs_in"]

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from ziggurat.core.broadcast import Heard, subscribe
from ziggurat.core.clock import CLOCK, SYSTEM_CLOCK, Clock
from ziggurat.core.codec import SHAPE_VERSION, as_type, digest
from ziggurat.core.entries import LABELS, Ended, Entry, Opened
from ziggurat.core.errors import JournalCorrupt, RunExists, RunNotFound, StoreError
from ziggurat.core.ids import check_new_id, check_new_name
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.json_lines import read_entry, write_entry
from ziggurat.core.recorder import Mode
from ziggurat.core.shield import finished
from ziggurat.core.store import UNFINISHED, LogInfo, Store, Wakes, run_log
from ziggurat.core.stored_journal import PROBE, StoredJournal, lines_of, read_rows
from ziggurat.messages.agent import AgentRequest
from ziggurat.runs.conditions import RunConditions
from ziggurat.runs.fork import effects_gate
from ziggurat.runs.options import Deps
from ziggurat.stores.memory import InMemoryRunStore
from ziggurat.stores.running import Running
from ziggurat.tools.fork_effects import FORK_EFFECTS

logger = logging.getLogger("ziggurat")

POLL = 0.1
"""Seconds between checks of a run that another process drives."""

WAIT = 1.0
"""The same for stores that notify of writes by other processes."""


class StoredRuns(Running):
    """The runs of one store, shared by the agents of this process.

    Args:
        store: The store.
    """

    finished = True

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    async def find(self, run_id: str) -> LogInfo | None:
        """Return the status and request digest of a run, None if there is none."""
        return await self.store.find(run_log(run_id))

    async def create(
        self,
        run_id: str,
        agent: str,
        request: AgentRequest,
        deps: Deps,
        screen: Callable[[MemoryJournal], None],
        conditions: RunConditions | None = None,
        asked: str = "",
    ) -> StoredJournal:
        """Begin a run; when this returns, its first entry is stored and this process has its lease.

        Args:
            run_id: The id of the run.
            agent: The name of its agent.
            request: The request.
            deps: The dependencies.
            screen: Sets the functions that redact entries before they are stored.
            conditions: The grants and the session of the run.
            asked: The digest that identifies the same request later; the request's own digest if empty.

        Raises:
            RunExists: another process has begun a run with this id.
            StoreError: the store cannot be written.
            ConfigurationError: the id or a label's name has a character that it may not have.
        """
        check_new_id(run_id, "run_id")
        for name in deps.get(LABELS) or ():
            check_new_name(name, "a label's name")
        self.check_idle(run_id)
        self._running[run_id] = None
        try:
            clock = deps.get(CLOCK, SYSTEM_CLOCK)
            log = run_log(run_id)
            journal = StoredJournal(self.store, log, 1, clock=clock, probe=deps.get(PROBE))
            screen(journal)
            labels = deps.get(LABELS)
            opened = journal.screened(Opened("", run_id, SHAPE_VERSION, clock.now(), request, None, labels, conditions))
            rows, blobs = journal.rows_of([journal.written(opened)])
            info = LogInfo(log, agent, asked or digest(request), clock.now())
            creating = asyncio.ensure_future(self.store.create(info, rows, blobs))
            try:
                await finished(creating)
            finally:
                if not creating.cancelled() and creating.exception() is None:
                    journal.begun(opened)
        except asyncio.CancelledError:
            if journal.entries:  # the run exists, but nothing will drive it
                await self.let_go(run_id, journal)
            self._running.pop(run_id, None)
            raise
        except BaseException:
            del self._running[run_id]
            raise
        return journal

    async def take(self, run_id: str, deps: Deps) -> StoredJournal:
        """Take over a run that stopped, so that only this process drives it.

        Raises:
            RunNotFound: there is no run with this id.
            LeaseHeld: another process drives it.
            JournalCorrupt: an entry is damaged; the message names it.
        """
        self.check_idle(run_id)
        self._running[run_id] = None
        log = run_log(run_id)
        epoch = 0

        async def lease() -> None:
            nonlocal epoch
            epoch = await self.store.lease(log)

        try:
            self._check_sound(await self._known(run_id))
            await finished(lease())
            clock = deps.get(CLOCK, SYSTEM_CLOCK)
            journal = StoredJournal(self.store, log, epoch, "resume", clock=clock, probe=deps.get(PROBE))
            rows = await read_rows(self.store, log)
            journal.take_in(rows, await lines_of(self.store, log, rows))
        except BaseException:
            del self._running[run_id]
            if epoch:
                await finished(self.store.release(log, epoch))
            raise
        return journal

    async def plant(self, run_id: str, agent: str, lines: Sequence[bytes]) -> None:
        """Create a run with these entries, to be resumed later.

        Raises:
            RunExists: there is a run with this id.
            StoreError: the store cannot be written.
        """
        log = run_log(run_id)
        opened = read_entry(lines[0])
        assert isinstance(opened, Opened)
        rows, blobs = StoredJournal(self.store, log, 1).rows_of(list(lines))
        request = digest(as_type(opened.request, AgentRequest))
        epoch = await self.store.create(LogInfo(log, agent, request, opened.at), rows, blobs)
        await self.store.release(log, epoch)

    async def let_go(self, run_id: str, journal: StoredJournal) -> None:
        """Release a run that was opened but not driven; it is recorded as cancelled, unless it has ended before."""
        self._running.pop(run_id, None)
        if not isinstance(journal.entries[-1], Ended):
            waiting = journal.append(Ended("", "Cancelled", journal.elapsed))
            try:
                if waiting is not None:
                    await finished(waiting)
                return
            except StoreError as error:
                logger.warning("the end of the run %s could not be stored: %s", run_id, error)
        await finished(journal.release())

    async def read(self, run_id: str, mode: Mode = "resume", clock: Clock = SYSTEM_CLOCK) -> MemoryJournal:
        """Return a copy of a run's record; the run may be in progress elsewhere.

        Raises:
            RunNotFound: there is no run with this id.
            JournalCorrupt: an entry is damaged; the message names it.
        """
        log = run_log(run_id)
        self._check_sound(await self._known(run_id))
        journal = MemoryJournal(mode, clock=clock)
        journal.read_in(await lines_of(self.store, log, await read_rows(self.store, log)))
        return journal

    async def _known(self, run_id: str) -> LogInfo:
        info = await self.find(run_id)
        if info is None:
            kept = ", ".join(each.id for each in await self.store.logs("run:", limit=5)) or "none"
            raise RunNotFound(f"no run {run_id!r} is kept here (the latest: {kept})")
        return info

    @staticmethod
    def _check_sound(info: LogInfo) -> None:
        if info.status == "Quarantined":
            raise JournalCorrupt(f"the run {info.id!r} is set apart: {info.problem}")

    async def subscribe(self, run_id: str, after: int) -> AsyncGenerator[Heard, None]:
        """Yield the entries and events of a run, whichever process drives it."""
        journal = self._running.get(run_id)
        if journal is not None:
            async for heard in subscribe(journal, self.broadcast(run_id), after=after):
                yield heard
            return
        log, number, before = run_log(run_id), 0, ""
        await self._known(run_id)
        while True:
            info = await self._known(run_id)
            self._check_sound(info)
            rows = await read_rows(self.store, log, number, before)
            for row, line in zip(rows, await lines_of(self.store, log, rows), strict=True):
                number, before = row.number, row.digest
                if number > after:
                    yield Heard(number, 0, read_entry(line))
            if number >= info.count and info.status != "running":
                return
            if not rows:
                if isinstance(self.store, Wakes):
                    await self.store.changed(log, number, WAIT)
                else:
                    await SYSTEM_CLOCK.sleep(POLL)


_runs: "WeakValueDictionary[int, StoredRuns]" = WeakValueDictionary()


def runs_in(store: InMemoryRunStore | Store) -> InMemoryRunStore | StoredRuns:
    """Return the runs of a store, the same object for every agent that uses the store."""
    if isinstance(store, InMemoryRunStore):
        return store
    runs = _runs.get(id(store))  # a StoredRuns keeps its store alive, so the id is not reused
    if runs is None:
        runs = _runs[id(store)] = StoredRuns(store)
    return runs


async def record_of(runs: InMemoryRunStore | StoredRuns, run_id: str) -> bytes:
    """Return the record of a run as JSON lines.

    Raises:
        RunNotFound: there is no run with this id.
        JournalCorrupt: an entry is damaged; the message names it.
    """
    return runs.dump(run_id) if isinstance(runs, InMemoryRunStore) else (await runs.read(run_id)).dump()


async def plant(runs: InMemoryRunStore | StoredRuns, run_id: str, agent: str, entries: Sequence[Entry]) -> None:
    """Create a run from existing entries; resume it to continue.

    Raises:
        RunExists: there is a run with this id.
        StoreError: the store cannot be written.
        ConfigurationError: the id has a character that it may not have.
    """
    check_new_id(run_id, "new_id")
    lines = [write_entry(entry) for entry in entries]
    if isinstance(runs, StoredRuns):
        await runs.plant(run_id, agent, lines)
        return
    runs.check_idle(run_id)
    if runs.find(run_id) is not None:
        raise RunExists(f"the run {run_id!r} exists; choose another id")
    runs.load(run_id, b"\n".join(lines))


async def effects_of(runs: InMemoryRunStore | StoredRuns, journal: MemoryJournal, deps: Deps | None) -> Deps | None:
    """Return the dependencies, for a fork with the gate on its side effects added."""
    opened = journal.entries[0]
    if not isinstance(opened, Opened) or opened.forked is None:
        return deps
    before: list[Entry] = []
    if opened.forked.effects == "recorded":
        with suppress(RunNotFound):  # the original run may have been removed
            before = MemoryJournal.load(await record_of(runs, opened.forked.run_id)).entries
    kept = effects_gate(opened.forked, before)
    return deps if kept is None else dict[Any, Any](deps or {}) | {FORK_EFFECTS: kept}


def is_finished(info: LogInfo) -> bool:
    """Return whether a run has ended for good, so that it is answered from its record."""
    return info.status not in UNFINISHED

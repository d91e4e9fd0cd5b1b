"""Runs in a store: created, taken over by one process at a time, readable by any."""

__all__ = ["StoredRuns", "effects_of", "is_finished", "plant", "record_of", "runs_in"]

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from ziggurat.agents.fork import held
from ziggurat.agents.run_options import Deps
from ziggurat.agents.terms import Terms
from ziggurat.core.broadcast import Heard, subscribe
from ziggurat.core.clock import CLOCK, SYSTEM_CLOCK, Clock
from ziggurat.core.codec import SHAPE_VERSION, as_type, digest
from ziggurat.core.entries import LABELS, Entry, Opened
from ziggurat.core.errors import JournalCorrupt, RunExists, RunNotFound
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.json_lines import read_entry, write_entry
from ziggurat.core.recorder import Mode
from ziggurat.core.shield import finished
from ziggurat.core.store import UNFINISHED, LogInfo, Store, Wakes, run_log
from ziggurat.core.stored_journal import PROBE, StoredJournal, lines_of, read_rows
from ziggurat.messages.agent import AgentRequest
from ziggurat.stores.memory import InMemoryRunStore
from ziggurat.stores.running import Running
from ziggurat.tools.fork_effects import FORK_EFFECTS

POLL = 0.1
"""Seconds between looks at a run that goes on in another process."""

WAIT = 1.0
"""The same where the store tells of what other processes write."""


class StoredRuns(Running):
    """The runs of one store, as the agents of this process see them.

    Args:
        store: Where they are.
    """

    finished = True

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    async def find(self, run_id: str) -> LogInfo | None:
        """Return what is known of a run, None when there is none."""
        return await self.store.find(run_log(run_id))

    async def create(
        self,
        run_id: str,
        agent: str,
        request: AgentRequest,
        deps: Deps,
        screen: Callable[[MemoryJournal], None],
        terms: Terms | None = None,
        asked: str = "",
    ) -> StoredJournal:
        """Begin a run: its first entry is durable and its lease is ours when this returns.

        Args:
            run_id: Its id.
            agent: Who answers.
            request: What is asked.
            deps: What goes with it.
            screen: Sets what goes over entries before they are kept.
            terms: What it is begun under.
            asked: By what the same run is known again; by the request where this is empty.

        Raises:
            RunExists: another process has begun one of this id.
            StoreError: it cannot be written.
        """
        self.check_idle(run_id)
        self._running[run_id] = None
        try:
            clock = deps.get(CLOCK, SYSTEM_CLOCK)
            log = run_log(run_id)
            journal = StoredJournal(self.store, log, 1, clock=clock, probe=deps.get(PROBE))
            screen(journal)
            labels = deps.get(LABELS)
            opened = journal.screened(Opened("", run_id, SHAPE_VERSION, clock.now(), request, None, labels, terms))
            rows, blobs = journal.rows_of([journal.written(opened)])
            info = LogInfo(log, agent, asked or digest(request), clock.now())
            try:
                await finished(self.store.create(info, rows, blobs))
            except asyncio.CancelledError:
                await finished(self.store.release(log, 1))  # it may be begun by now, and nobody drives it
                raise
            journal.begun(opened)
        except BaseException:
            del self._running[run_id]
            raise
        return journal

    async def take(self, run_id: str, deps: Deps) -> StoredJournal:
        """Take a run up where it stopped, as the only process that drives it.

        Raises:
            RunNotFound: there is none of this id.
            LeaseHeld: another process drives it.
            JournalCorrupt: an entry was damaged; the message names it.
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
        """Begin a run with these entries, and leave it for whoever resumes it.

        Raises:
            RunExists: there is one of this id.
            StoreError: it cannot be written.
        """
        log = run_log(run_id)
        opened = read_entry(lines[0])
        assert isinstance(opened, Opened)
        rows, blobs = StoredJournal(self.store, log, 1).rows_of(list(lines))
        request = digest(as_type(opened.request, AgentRequest))
        epoch = await self.store.create(LogInfo(log, agent, request, opened.at), rows, blobs)
        await self.store.release(log, epoch)

    async def let_go(self, run_id: str, journal: StoredJournal) -> None:
        """Give a run back that was taken and not driven."""
        self._running.pop(run_id, None)
        await finished(journal.release())

    async def read(self, run_id: str, mode: Mode = "resume", clock: Clock = SYSTEM_CLOCK) -> MemoryJournal:
        """Return a copy of a run's record, which may go on elsewhere.

        Raises:
            RunNotFound: there is none of this id.
            JournalCorrupt: an entry was damaged; the message names it.
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
        """Yield what happens to a run, wherever it goes on."""
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
    """Return the runs of a store, the same for every agent that has it."""
    if isinstance(store, InMemoryRunStore):
        return store
    runs = _runs.get(id(store))  # which keeps the store, so that its id is not used again
    if runs is None:
        runs = _runs[id(store)] = StoredRuns(store)
    return runs


async def record_of(runs: InMemoryRunStore | StoredRuns, run_id: str) -> bytes:
    """Return the record of a run as JSON lines.

    Raises:
        RunNotFound: there is none of this id.
        JournalCorrupt: an entry was damaged; the message names it.
    """
    return runs.dump(run_id) if isinstance(runs, InMemoryRunStore) else (await runs.read(run_id)).dump()


async def plant(runs: InMemoryRunStore | StoredRuns, run_id: str, agent: str, entries: Sequence[Entry]) -> None:
    """Begin a run with a record that it did not make itself; resume it to go on.

    Raises:
        RunExists: there is one of this id.
        StoreError: it cannot be written.
    """
    lines = [write_entry(entry) for entry in entries]
    if isinstance(runs, StoredRuns):
        await runs.plant(run_id, agent, lines)
        return
    runs.check_idle(run_id)
    if runs.find(run_id) is not None:
        raise RunExists(f"the run {run_id!r} exists; choose another id")
    runs.load(run_id, b"\n".join(lines))


async def effects_of(runs: InMemoryRunStore | StoredRuns, journal: MemoryJournal, deps: Deps | None) -> Deps | None:
    """Return dependencies with what keeps a fork from having side effects; as they are for any other run."""
    opened = journal.entries[0]
    if not isinstance(opened, Opened) or opened.forked is None:
        return deps
    before: list[Entry] = []
    if opened.forked.effects == "recorded":
        with suppress(RunNotFound):  # it may have been removed since
            before = MemoryJournal.load(await record_of(runs, opened.forked.run_id)).entries
    kept = held(opened.forked, before)
    return deps if kept is None else dict[Any, Any](deps or {}) | {FORK_EFFECTS: kept}


def is_finished(info: LogInfo) -> bool:
    """Return whether a run came to its end, so that it is answered from its record."""
    return info.status not in UNFINISHED

"""StoredRuns: runs in a store; one process at a time drives a run, and any process can read it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import JournalCorrupt, RunExists, StoreError
from ziggurat.core.log import logger
from ziggurat.core.tasks import finished
from ziggurat.journal.entries import Ended, JournalEntry, Opened
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.lines import write_entry
from ziggurat.journal.rows import chain_of, known_run
from ziggurat.journal.store import Claim, InboxItem, LogInfo, Store, run_log
from ziggurat.journal.writer import LogWriter
from ziggurat.runs.broadcast import SubscribedItem
from ziggurat.runs.conditions import labels_of, loaded_by, request_of
from ziggurat.runs.driven import DrivenRun, DrivenRuns
from ziggurat.runs.following import followed
from ziggurat.runs.options import Environment
from ziggurat.runs.runs import Runs, Screening
from ziggurat.stores.records import entry_at, read_record, record_rows


class StoredRuns(Runs):
    """The runs of one store, shared by the agents of this process."""

    keeps_ended = True

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._polled: dict[asyncio.AbstractEventLoop, DrivenRuns] = {}

    @property
    def store(self) -> Store:
        """The store."""
        return self._store

    async def find(self, run_id: str) -> LogInfo | None:
        """Return the status and request digest of a run."""
        return await self._store.find(run_log(run_id))

    async def list(self, agent: str, status: str, labels: Mapping[str, object] | None, limit: int) -> Sequence[LogInfo]:
        """Return the runs."""
        return await self._store.logs("run:", agent=agent, status=status, labels=labels, limit=limit)

    async def asking(
        self, agent: str, labels: Mapping[str, object] | None, after: tuple[float, str], limit: int
    ) -> Sequence[LogInfo]:
        """Return the runs of an agent in which something waits for a person."""
        return await self._store.asking(agent, labels, after, limit)

    async def was_interrupted(self, info: LogInfo) -> bool:
        """Return whether a run was cancelled from outside; only its last entry is read."""
        try:
            entry = await self.entry(info.id, info.count)
        except JournalCorrupt:
            return False
        return isinstance(entry, Ended) and entry.interrupted

    async def entry(self, run_id: str, number: int) -> JournalEntry | None:
        """Return one entry of a run's record."""
        return await entry_at(self._store, run_log(run_id), number)

    async def _open(
        self, opened: Opened, agent: str, fingerprint: str, screening: Screening, environment: Environment
    ) -> LocalJournal:
        log = run_log(opened.run_id)
        journal = LocalJournal(clock=environment.clock)
        screening(journal)
        first = journal.screened(opened)
        writer = journal.writer = LogWriter(journal, self._store, log, 1, probe=environment.probe)
        writer.conversations.begun = loaded_by(opened)
        rows, blobs = writer.rows_of([writer.encoded(first)])
        info = LogInfo(log, agent, fingerprint or request_of(opened), opened.at, due=0.0, labels=labels_of(first))
        creating = asyncio.ensure_future(self._store.create(info, rows, blobs))
        try:
            await finished(creating)
        except asyncio.CancelledError:
            if not creating.cancelled() and creating.exception() is None:
                journal.begin(first)
                await finished(_cancel(journal))
            raise
        journal.begin(first)
        return journal

    async def _take(self, run_id: str, environment: Environment, claim: Claim | None) -> LocalJournal:
        log = run_log(run_id)
        epoch = 0 if claim is None else claim.epoch

        async def lease() -> None:
            nonlocal epoch
            epoch = await self._store.lease(log)

        try:
            if claim is None:
                await known_run(self._store, run_id)
                await finished(lease())
            rows, entries, begun = await record_rows(self._store, log)
            journal = LocalJournal("resume", clock=environment.clock)
            journal.take_over(entries)
            journal.writer = LogWriter(journal, self._store, log, epoch, rows, environment.probe)
            journal.writer.conversations.begun = begun
        except BaseException:
            if epoch:
                await finished(self._store.release(log, epoch))
            raise
        return journal

    async def _leave(self, run_id: str, journal: LocalJournal, mistaken: bool) -> None:
        try:
            if journal.ended is None or not journal.went_on:
                await finished(self._withdraw(run_id, journal, mistaken))
        finally:
            driven = self._polled.get(asyncio.get_running_loop())
            if driven is not None:
                await driven.end(run_id)

    async def _withdraw(self, run_id: str, journal: LocalJournal, mistaken: bool) -> None:
        """Release the lease of a run that did not end; what waits to be written is written first."""
        unbegun = mistaken and journal.is_new and not journal.went_on
        with suppress(StoreError):
            waiting = journal.settled(flush=journal.went_on)
            if waiting is not None:
                await waiting
        journal.close()
        await _release(journal)
        if unbegun:
            await self._store.delete(run_log(run_id))

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
        log, opened = run_log(run_id), entries[0]
        assert isinstance(opened, Opened)
        last = entries[-1] if isinstance(entries[-1], Ended) else None
        writer = LogWriter(LocalJournal(), self._store, log, 1)
        rows, blobs = writer.rows_of([write_entry(entry) for entry in entries], last)
        request, labels = fingerprint or request_of(opened), labels_of(opened)
        info = LogInfo(log, agent, request, opened.at, due=due, priority=priority, labels=labels)
        try:
            epoch = await self._store.create(info, rows, blobs)
        except RunExists:
            raise RunExists(f"the run {run_id!r} exists; choose another id") from None
        await self._store.release(log, epoch)

    async def _delete(self, run_id: str) -> bool:
        log = run_log(run_id)
        if await self._store.find(log) is None:
            return False
        epoch = await self._store.lease(log)
        try:
            return await finished(self._store.delete(log))
        except BaseException:
            await finished(self._store.release(log, epoch))
            raise

    async def put_item(self, run_id: str, key: str, data: bytes) -> bool:
        """Post an item to the inbox of a run."""
        log = run_log(run_id)
        return await self._store.post(log, *chain_of(self._store).sign(log, key, data))

    async def inbox(self, run_id: str, after: int = 0) -> Sequence[InboxItem]:
        """Return the items of a run's inbox."""
        log, chain = run_log(run_id), chain_of(self._store)
        return [chain.signed(log, item) for item in await self._store.inbox(log, after)]

    async def read(self, run_id: str, clock: Clock = SYSTEM_CLOCK) -> LocalJournal:
        """Return a copy of a run's record."""
        return await read_record(self._store, run_id, clock)

    async def subscribe(self, run_id: str, after: int, *, live: bool = True) -> AsyncGenerator[SubscribedItem, None]:
        """Yield the entries and events of a run, whichever process drives it."""
        begun = False

        async def watch(seconds: float) -> bool:
            nonlocal begun
            begun = await self._begun(run_id, seconds)
            return begun

        while True:
            journal = await self._opened(run_id)
            if journal is not None:
                async with aclosing(self._follow(run_id, journal, after)) as items:
                    async for item in items:
                        yield item
                return
            begun = False  # otherwise a run that began and has ended by now would be followed for ever
            async with aclosing(followed(self._store, run_id, watch, live=live)) as items:
                async for item in items:
                    if item.number > after or item.index:
                        after = item.number
                        yield item
            if not begun:
                return

    def announce(self, run: DrivenRun) -> None:
        """Send the events of a run in progress to its subscribers, and have it take in what is posted anywhere."""
        super().announce(run)
        loop = asyncio.get_running_loop()
        driven = self._polled.get(loop)
        if driven is None:
            driven = self._polled[loop] = DrivenRuns(self._store, lambda: self._polled.pop(loop, None))
        driven.begin(run)


async def _cancel(journal: LocalJournal) -> None:
    """Record that a run was cancelled while it was opened, so that nothing drives it."""
    try:
        waiting = journal.append(Ended("", "Cancelled", journal.watch.elapsed))
        if waiting is not None:
            await waiting
    except StoreError as error:
        logger.warning("the end of a run that was cancelled could not be stored: %s", error)
        await _release(journal)


async def _release(journal: LocalJournal) -> None:
    if journal.writer is not None:
        await journal.writer.release()

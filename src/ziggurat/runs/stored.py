"""StoredRuns: runs in a store; one process at a time drives a run, and any process can read it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Unpack
from weakref import WeakKeyDictionary

from ziggurat.core import errors
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.log import logger
from ziggurat.core.tasks import finished
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.rows import chain_of, known_run, read_inbox
from ziggurat.journal.store import InboxItem, LiveMessages, LogFilters, LogInfo, Store, run_log
from ziggurat.journal.writer import LogWriter
from ziggurat.runs import runs
from ziggurat.runs.control import RunControl, SubscribedItem
from ziggurat.runs.following import followed
from ziggurat.runs.live import EventSender
from ziggurat.runs.options import Environment
from ziggurat.stores import records

PERIOD = 0.2  # seconds between two polls of a store; a run that is shorter costs nothing

_LAST_SEND = 1.0  # seconds for which the end of a run waits until its last events are sent


class DrivenRuns:
    """The runs of one store that are driven in one event loop; a poll serves all of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live: LiveMessages | None = getattr(store, "live", None)
        self.runs: dict[str, RunControl] = {}
        self._read: dict[str, int] = {}  # the number of the last item of a run's inbox that was read
        self._senders: dict[str, tuple[EventSender, asyncio.Task[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None

    def begin(self, run: RunControl) -> None:
        self.runs[run.run_id] = run
        if self._timer is None:
            self._wait()

    async def end(self, run_id: str) -> None:
        """Serve a run no longer; what is left of its events is sent first."""
        self.runs.pop(run_id, None)
        self._read.pop(run_id, None)
        try:
            if run_id in self._senders:
                await finished(self._stop_sending(run_id))
        finally:
            if not self.runs and self._timer is not None:
                self._timer.cancel()
                self._timer = None
                if self._polling is not None:
                    self._polling.cancel()
                    self._polling = None

    def _wait(self) -> None:
        # Not a task that sleeps: most runs end before the first poll, and would have to wait for the end of the task.
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._begin_poll)

    def _begin_poll(self) -> None:
        self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        try:
            logs = {run_log(run_id): run_id for run_id in self.runs}
            await self._read_inboxes(logs)
            await self._find_readers(logs)
        except (errors.ZigguratError, OSError) as error:  # the next poll may succeed
            logger.debug("what other processes want of the runs of this one is unknown: %s", error)
        finally:
            if self._polling is asyncio.current_task():  # otherwise the last run has ended meanwhile
                self._polling = None
                self._wait()

    async def _read_inboxes(self, logs: dict[str, str]) -> None:
        for log, last in (await self._store.arrived()).items():
            run = self.runs.get(logs.get(log, ""))
            if run is not None and last > self._read.get(run.run_id, 0) and await run.read_posted():
                self._read[run.run_id] = last

    async def _find_readers(self, logs: dict[str, str]) -> None:
        if self._live is None:
            return
        followed = {logs[log] for log in await self._live.watched(list(logs))}
        for run_id in followed & self.runs.keys() - self._senders.keys():
            broadcast = self.runs[run_id].broadcast
            assert broadcast is not None  # the run is driven
            sender = EventSender(broadcast)
            task = asyncio.get_running_loop().create_task(self._send(run_id, sender))
            self._senders[run_id] = (sender, task)
        for run_id in self._senders.keys() - followed:
            await self._stop_sending(run_id)

    async def _send(self, run_id: str, sender: EventSender) -> None:
        assert self._live is not None  # it has found the readers
        try:
            async with self._live.sending(run_log(run_id)) as send:
                await sender.run(send)
        except (errors.ZigguratError, OSError) as error:
            logger.warning("the events of the run %s are not sent to other processes: %s", run_id, error)

    async def _stop_sending(self, run_id: str) -> None:
        sender, task = self._senders.pop(run_id, (None, None))
        if sender is None or task is None:  # its last reader left, and a poll came first
            return
        sender.end()
        await asyncio.wait([task], timeout=_LAST_SEND)
        task.cancel()


class StoredRuns(runs.Runs):
    """The runs of one store, shared by the agents of this process."""

    keeps_ended = True

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self._polled: WeakKeyDictionary[asyncio.AbstractEventLoop, DrivenRuns] = WeakKeyDictionary()

    async def find(self, run_id: str) -> LogInfo | None:
        return await self.store.find(run_log(run_id))

    async def known(self, run_id: str) -> LogInfo:
        return await known_run(self.store, run_id)

    async def logs(self, limit: int, **filters: Unpack[LogFilters]) -> Sequence[LogInfo]:
        return await self.store.logs("run:", limit=limit, **filters)

    async def entry(self, run_id: str, number: int) -> entries.JournalEntry | None:
        return await records.entry_at(self.store, run_log(run_id), number)

    async def open(
        self,
        opened: entries.Opened,
        fingerprint: str,
        screening: runs.Screening,
        environment: Environment,
        run: RunControl | None = None,
    ) -> LocalJournal:
        log = run_log(opened.run_id)
        journal = LocalJournal(clock=environment.clock)
        screening(journal)
        first = journal.screened(opened)
        writer = journal.writer = LogWriter(journal, self.store, log, 1, probe=environment.probe)
        writer.conversations.begun = runs.loaded_by(opened)
        rows, blobs = writer.rows_of([writer.encoded(first)])
        request, labels = fingerprint or runs.fingerprint_of(opened), entries.labels_of(first)
        info = LogInfo(log, opened.agent, request, opened.at, due=0.0, labels=labels)

        async def cancel(_: object) -> None:
            """Record that the run was cancelled while it was opened, so that nothing drives it."""
            journal.begin(first)
            interrupted = run is None or not run.cancelled
            try:
                await journal.write(entries.Ended("", "Cancelled", journal.watch.elapsed, interrupted=interrupted))
            except errors.StoreError as error:
                logger.warning("the end of a run that was cancelled could not be stored: %s", error)
                await writer.release()

        await finished(self.store.create(info, rows, blobs), cancel)
        journal.begin(first)
        return journal

    async def take(
        self, run_id: str, environment: Environment, epoch: int | None = None, known: LocalJournal | None = None
    ) -> LocalJournal:
        log = run_log(run_id)
        if epoch is None:
            epoch = await finished(self.store.lease(log), lambda leased: self.store.release(log, leased))
        try:
            if known is not None and known.writer is not None:
                last = await self.store.read(log, known.stable - 1)
                if [row.digest for row in last] == [known.writer.digest]:  # it is made of all rows before
                    known.write_again(LogWriter(known, self.store, log, epoch, last, environment.probe))
                    return known
            rows, record, begun = await records.record_rows(self.store, log)
            journal = LocalJournal(record=record, clock=environment.clock)
            journal.writer = LogWriter(journal, self.store, log, epoch, rows, environment.probe)
            journal.writer.conversations.begun = begun
        except BaseException:
            await finished(self.store.release(log, epoch))
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
        with contextlib.suppress(errors.StoreError):
            waiting = journal.settled(flush=journal.went_on)
            if waiting is not None:
                await waiting
        journal.close()
        if journal.writer is not None:
            await journal.writer.release()
        if unbegun:
            await self.store.delete(run_log(run_id))

    async def plant(
        self,
        run_id: str,
        agent: str,
        record: Sequence[entries.JournalEntry],
        *,
        fingerprint: str = "",
        due: float | None = None,
        priority: int = 0,
    ) -> None:
        log, opened = run_log(run_id), record[0]
        assert isinstance(opened, entries.Opened)
        last = record[-1] if isinstance(record[-1], entries.Ended) else None
        writer = LogWriter(LocalJournal(), self.store, log, 1)
        rows, blobs = writer.rows_of([entries.write_entry(entry) for entry in record], last)
        request, labels = fingerprint or runs.fingerprint_of(opened), entries.labels_of(opened)
        info = LogInfo(log, agent, request, opened.at, due=due, priority=priority, labels=labels)
        try:
            epoch = await self.store.create(info, rows, blobs)
        except errors.RunExists:
            raise errors.RunExists(f"the run {run_id!r} exists; choose another id") from None
        await self.store.release(log, epoch)

    async def _delete(self, run_id: str) -> bool:
        log = run_log(run_id)
        if await self.store.find(log) is None:
            return False
        epoch = await self.store.lease(log)
        try:
            return await finished(self.store.delete(log))
        except BaseException:
            await finished(self.store.release(log, epoch))
            raise

    async def put_item(self, run_id: str, key: str, data: bytes) -> bool:
        log = run_log(run_id)
        return await self.store.post(log, *chain_of(self.store).sign(log, key, data))

    async def inbox(self, run_id: str, after: int = 0) -> Sequence[InboxItem]:
        return await read_inbox(self.store, run_id, after)

    async def read(self, run_id: str, clock: Clock = SYSTEM_CLOCK) -> LocalJournal:
        return await records.read_record(self.store, run_id, clock)

    async def subscribe(self, run_id: str, after: int, *, live: bool = True) -> AsyncGenerator[SubscribedItem, None]:
        begun = False

        async def watch(seconds: float) -> bool:
            nonlocal begun
            begun = await self.begun(run_id, seconds)
            return begun

        while True:
            journal = await self._opened(run_id)
            if journal is not None:
                async with contextlib.aclosing(self._follow(run_id, journal, after)) as items:
                    async for item in items:
                        yield item
                return
            begun = False  # otherwise a run that began and has ended by now would be followed for ever
            async with contextlib.aclosing(followed(self.store, run_id, watch, live=live)) as items:
                async for item in items:
                    if item.number > after or item.index:
                        after = item.number
                        yield item
            if not begun:
                return

    def announce(self, run: RunControl) -> None:
        super().announce(run)
        loop = asyncio.get_running_loop()
        if loop not in self._polled:
            self._polled[loop] = DrivenRuns(self.store)
        self._polled[loop].begin(run)

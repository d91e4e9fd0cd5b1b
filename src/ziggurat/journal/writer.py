"""The writer behind a durable journal: it writes entries to a store, in batches, with a chain of digests."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from hashlib import blake2b
from typing import Any, cast

import msgspec

from ziggurat.core.errors import ConfigurationError, LeaseLost, StoreError
from ziggurat.core.path import is_question
from ziggurat.core.settings import implements
from ziggurat.journal.conversations import ConversationWriter
from ziggurat.journal.entries import Decided, Ended, Intent, JournalEntry, Opened, Pending, PlainResult, Result
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.rows import BLOB_BYTES, Blob, chain_of
from ziggurat.journal.store import Row, Store, SupportsImmediateWrites

_POINTS: dict[type[JournalEntry], str] = {
    Intent: "intent",
    Result: "result",
    PlainResult: "result",
    Pending: "wait",
    Decided: "decision",
    Ended: "end",
}


class _Written:
    """Awaited until an entry is durable."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self._future = future

    def __await__(self) -> Generator[object, None, None]:
        yield None
        yield from self._future


class LogWriter:
    """Writes the entries of one journal to a log of a store.

    Args:
        journal: The journal, whose readers are woken when entries are durable.
        store: The store.
        log: The name of the log.
        epoch: That of the lease with which this process writes it.
        written: The rows that the log has already; the journal has their entries.
        probe: Called before and after entries of some kinds, with the point and the path; an error that it raises ends
            the writing.
    """

    __slots__ = (
        "_asks", "_batch", "_chain", "_digest", "_epoch", "_immediate", "_journal", "_log", "_probe", "_rows", "_store",
        "_task", "_waiting", "_writing", "conversations", "failed", "stable",
    )  # fmt: skip

    def __init__(
        self,
        journal: LocalJournal,
        store: Store,
        log: str,
        epoch: int,
        written: Iterable[Row] = (),
        probe: Callable[[str, str], None] | None = None,
    ) -> None:
        self.failed: Exception | None = None  # with which every later entry is refused
        self.stable: int = 0  # the number of durable entries
        self.conversations: ConversationWriter = ConversationWriter(journal.entries)
        self._journal = journal
        self._store = store
        self._log = log
        self._epoch = epoch
        self._probe = probe
        self._chain = chain_of(store)
        self._immediate = cast("SupportsImmediateWrites", store) if implements(store, SupportsImmediateWrites) else None
        self._task: asyncio.Task[Any] | None = None
        self._digest = ""
        self._rows: list[tuple[JournalEntry, bytes]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._batch: list[asyncio.Future[None]] = []
        self._writing = False
        self._asks = any(entry.asks for entry in journal.waits.at())
        for row in written:
            self.stable, self._digest = row.number, row.digest

    # -- entries ---------------------------------------------------------------------------------------------------

    def encoded(self, entry: JournalEntry) -> bytes:
        """Return the JSON of an entry."""
        try:
            return self.conversations.line(entry)
        except TypeError as error:
            raise ConfigurationError(f"what is recorded at {entry.path or 'the root'} must be JSON: {error}") from error

    def hold(self, entry: JournalEntry, data: bytes) -> None:
        """Write an entry, with its JSON, together with the next one only."""
        self._rows.append((entry, data))

    def append(self, entry: JournalEntry, data: bytes) -> Awaitable[None] | None:
        """Write an entry, with its JSON; if an awaitable is returned, it ends when the entry is durable."""
        loop = asyncio.get_running_loop()
        self._rows.append((entry, data))
        if isinstance(entry, Result) and is_question(entry.path):
            if not self._writing:
                self._writing = True
                loop.call_soon(loop.call_soon, self._flush)  # a turn later, so that tool calls of the step can join
            return None
        if self._immediate is not None and not self._writing and self._is_alone(loop) and self._immediate.is_idle():
            self._writing = True
            self._flush()
            return None if self.stable == len(self._journal.entries) else self.settled()
        waiting = loop.create_future()
        self._waiting.append(waiting)
        if not self._writing:
            self._writing = True
            loop.call_soon(self._flush)
        return _Written(waiting)

    def settled(self, *, flush: bool = False) -> Awaitable[None] | None:
        """Return an awaitable for when all entries are durable; None if they are already."""
        if self.failed is not None:
            return self.refused()
        if flush and self._rows and not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._flush)
        if not self._writing:
            return None
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting if self._rows else self._batch).append(waiting)
        return _Written(waiting)

    def refused(self) -> Awaitable[None]:
        """Return an awaitable that raises the error with which entries are refused."""
        assert self.failed is not None
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        _refuse(waiting, self.failed)
        return waiting

    def call_probe(self, when: str, entry: JournalEntry) -> None:
        """Call the probe at an entry, if there is one for entries of its kind."""
        point = None if self._probe is None else _POINTS.get(type(entry))
        if point is not None and self._probe is not None:
            self._probe(f"{when} {point}", entry.path)

    def _is_alone(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether the task that appends has appended the entry before, too."""
        before, self._task = self._task, asyncio.current_task(loop)
        return self._task is before

    # -- the log -----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        entries, self._rows = self._rows, []
        self._batch, self._waiting = self._waiting, []
        if not entries:  # they were refused in the meantime
            return
        bounds = [entry for entry, _ in entries if isinstance(entry, (Ended, Opened))]
        last = bounds[-1] if bounds else None
        self._asks |= any(isinstance(entry, Pending) and entry.asks for entry, _ in entries)
        if isinstance(last, Ended):
            waits = [self._journal.entries[number - 1] for number in last.waits or ()]
            self._asks = any(isinstance(entry, Pending) and entry.asks for entry in waits)
        rows, blobs = self.rows_of([data for _, data in entries], last)
        release = isinstance(last, Ended)
        due = last.due if isinstance(last, Ended) else 0.0
        read = self._journal.inbox_read if rows[-1].status == "Suspended" else None
        try:
            writing = self._store.append(self._log, self._epoch, rows, blobs, release=release, due=due, read=read)
            done = asyncio.ensure_future(writing)
        except StoreError as error:
            self._fail(error)
            return
        except BaseException:  # such as KeyboardInterrupt, in a store that writes synchronously
            self._fail(StoreError(f"{self._log} was being written when the process was interrupted; resume the run"))
            raise
        if done.done():  # a store may write synchronously
            self._on_written(done, entries, release)
        else:
            done.add_done_callback(lambda done: self._on_written(done, entries, release))

    def rows_of(self, written: list[bytes], last: JournalEntry | None = None) -> tuple[list[Row], dict[str, bytes]]:
        """Return the next rows for entries, and their large values by digest; continues the digest chain."""
        rows: list[Row] = []
        blobs: dict[str, bytes] = {}
        number = self.stable
        status = last.stop if isinstance(last, Ended) else "running"
        for data in written:
            number += 1
            if len(data) > BLOB_BYTES:
                name = blake2b(data, digest_size=32).hexdigest()
                blobs[name] = data
                data = msgspec.json.encode(Blob(name, len(data)))
            self._digest = self._chain.link(self._log, self._digest, data)
            rows.append(Row(number, self._digest, data, status, self._asks, self._journal.inbox_taken))
        return rows, blobs

    def _on_written(
        self, done: "asyncio.Future[None]", entries: list[tuple[JournalEntry, bytes]], release: bool
    ) -> None:
        if done.cancelled():
            self._fail(StoreError(f"the event loop ended while {self._log} was being written; resume the run"))
            return
        error = done.exception()
        if error is not None:
            self._fail(error if isinstance(error, StoreError) else StoreError(f"{self._log}: {error}"))
            return
        self.stable += len(entries)
        try:
            for entry, _ in entries:
                self.call_probe("after", entry)
        except Exception as raised:  # noqa: BLE001 - raised where the entry is awaited: this is a callback
            self._fail(raised)
            return
        for waiting in self._batch:
            if not waiting.done():
                waiting.set_result(None)
        self._batch = []
        self._journal.wake()
        if release:
            self._fail(LeaseLost(f"{self._log} has ended in this process; resume it to continue"))
        elif self._rows:
            self._flush()
        else:
            self._writing = False

    def _fail(self, error: Exception) -> None:
        """Refuse all entries not written yet, and all later ones."""
        self.failed = error
        self._journal.refusing = True
        refused, self._batch, self._waiting = [*self._batch, *self._waiting], [], []
        self._rows = []
        for waiting in refused:
            _refuse(waiting, error)
        self._journal.wake()

    def close(self) -> None:
        """Write nothing more, not even the entries that are held."""
        if self.failed is None:
            self._fail(LeaseLost(f"{self._log} is no longer run by this process; resume it to continue"))

    def release(self) -> Awaitable[None]:
        """Release the lease; no effect if the run ended, or another process has it."""
        return self._store.release(self._log, self._epoch)


def _refuse(waiting: "asyncio.Future[None]", error: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # retrieve it; a caller that does not await this one gets the error at the next entry

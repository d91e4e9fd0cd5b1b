"""The writer of a record in a store: entries that come while it writes form the next batch."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from hashlib import blake2b

import msgspec

from ziggurat.core.errors import ConfigurationError, LeaseLost, StoreError
from ziggurat.core.path import is_question
from ziggurat.journal import entries
from ziggurat.journal.record import RunRecord
from ziggurat.journal.rows import BLOB_BYTES, Blob, chain_of
from ziggurat.journal.store import Row, Store

_POINTS: dict[type[entries.JournalEntry], str] = {
    entries.Intent: "intent",
    entries.Result: "result",
    entries.PlainResult: "result",
    entries.Pending: "wait",
    entries.Decided: "decision",
    entries.Ended: "end",
}


class _Written(asyncio.Future[None]):
    """Awaited until an entry is durable."""

    def __await__(self) -> Generator[object, None, None]:
        # One turn first: a write in memory is done by then. Waking the task by the future would take a turn more, and
        # calls beside it would come first.
        yield None
        yield from super().__await__()


class LogWriter:
    """Writes the entries of one journal to a log of a store."""

    def __init__(
        self,
        journal: RunRecord,
        store: Store,
        log: str,
        epoch: int,
        written: Sequence[Row] = (),
        probe: Callable[[str, str], None] | None = None,
    ) -> None:
        self.conversations: entries.ConversationWriter = entries.ConversationWriter(journal.entries)
        self._journal = journal
        self._store = store
        self._log = log
        self._epoch = epoch
        self._probe = probe
        self._chain = chain_of(store)
        self.digest: str = written[-1].digest if written else ""  # of the last row
        self._entries: list[entries.JournalEntry] = []  # those that are not written yet, and their JSON
        self._lines: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._batch: list[asyncio.Future[None]] = []
        self._writing = False
        self._asks = journal.index.asks

    # -- entries ---------------------------------------------------------------------------------------------------

    def encoded(self, entry: entries.JournalEntry) -> bytes:
        self._call_probe("before", entry)
        try:
            return self.conversations.line(entry)
        except TypeError as error:
            raise ConfigurationError(f"what is recorded at {entry.path or 'the root'} must be JSON: {error}") from error

    def append(self, entry: entries.JournalEntry, *, hold: bool = False) -> Awaitable[None] | None:
        """Write the next entry of the record; if an awaitable is returned, it ends when the entry is durable."""
        self._lines.append(self.encoded(entry))
        self._entries.append(entry)
        if hold:  # it is written with the next one
            return None
        loop = asyncio.get_running_loop()
        # A reply is not waited for: nothing outside has changed by it, and the intent of a call is written after it.
        if isinstance(entry, entries.Result) and is_question(entry.path):
            if not self._writing:
                self._writing = True
                loop.call_soon(loop.call_soon, self._flush)  # a turn later, so that tool calls of the step can join
            return None
        waiting = _Written(loop=loop)
        self._waiting.append(waiting)
        if not self._writing:
            self._writing = True
            loop.call_soon(self._flush)
        return waiting

    def settled(self, *, flush: bool = False) -> Awaitable[None] | None:
        """Return an awaitable for when all entries are durable; None if they are already."""
        if flush and self._entries and not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._flush)
        if not self._writing:
            return None
        waiting = _Written()
        (self._waiting if self._entries else self._batch).append(waiting)
        return waiting

    def _call_probe(self, when: str, entry: entries.JournalEntry) -> None:
        if self._probe is not None and type(entry) in _POINTS:
            self._probe(f"{when} {_POINTS[type(entry)]}", entry.path)

    # -- the log -----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        batch, lines, self._entries, self._lines = self._entries, self._lines, [], []
        self._batch, self._waiting = self._waiting, []
        if not batch:  # they were refused in the meantime
            return
        end: entries.Ended | None = None
        for entry in batch:
            if isinstance(entry, (entries.Ended, entries.Opened)):
                end = entry if isinstance(entry, entries.Ended) else None
            elif isinstance(entry, entries.Pending) and entry.asks:
                self._asks = True
        if end is not None:
            self._asks = (end.still or end.waits is not None) and self._journal.index.asks
        rows, blobs = self.rows_of(lines, end)
        release, due = end is not None, 0.0 if end is None else end.due
        read = self._journal.inbox_read if rows[-1].status == "Suspended" else None
        try:
            writing = self._store.append(self._log, self._epoch, rows, blobs, release=release, due=due, read=read)
            done = asyncio.ensure_future(writing)
        except StoreError as error:
            self._journal.fail(error)
            return
        except BaseException:  # such as KeyboardInterrupt, in a store that writes synchronously
            self._journal.fail(
                StoreError(f"{self._log} was being written when the process was interrupted; resume the run")
            )
            raise
        if done.done():  # a store may write synchronously
            self._on_written(batch, release, done)
        else:
            done.add_done_callback(partial(self._on_written, batch, release))

    def rows_of(self, lines: list[bytes], end: entries.Ended | None = None) -> tuple[list[Row], dict[str, bytes]]:
        """Return the next rows for entries, and their large values by digest; continues the digest chain."""
        rows: list[Row] = []
        blobs: dict[str, bytes] = {}
        status = "running" if end is None else end.stop
        for number, data in enumerate(lines, self._journal.stable + 1):
            if len(data) > BLOB_BYTES:
                name = blake2b(data, digest_size=32).hexdigest()
                blobs[name] = data
                data = msgspec.json.encode(Blob(name, len(data)))
            self.digest = self._chain.link(self._log, self.digest, data)
            rows.append(Row(number, self.digest, data, status, self._asks, self._journal.inbox_taken))
        return rows, blobs

    def _on_written(self, batch: list[entries.JournalEntry], release: bool, done: "asyncio.Future[None]") -> None:
        if done.cancelled():
            self._journal.fail(StoreError(f"the event loop ended while {self._log} was being written; resume the run"))
            return
        error = done.exception()
        if error is not None:
            self._journal.fail(error if isinstance(error, StoreError) else StoreError(f"{self._log}: {error}"))
            return
        self._journal.stable += len(batch)
        try:
            for entry in batch:
                self._call_probe("after", entry)
        except Exception as raised:  # noqa: BLE001 - raised where the entry is awaited: this is a callback
            self._journal.fail(raised)
            return
        for waiting in self._batch:
            if not waiting.done():
                waiting.set_result(None)
        self._batch = []
        self._journal.wake()
        if release:  # the lease is free, and the next entry may be that of another process
            self._journal.fail(LeaseLost(f"{self._log} has ended in this process; resume it to continue"))
        elif self._entries:
            self._flush()
        else:
            self._writing = False

    def drop(self, error: Exception) -> None:
        """Write nothing more, not even the entries that are held; who waits for one gets the error."""
        refused, self._batch, self._waiting = [*self._batch, *self._waiting], [], []
        self._entries, self._lines = [], []
        for waiting in refused:
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # retrieved: who does not await this one gets it at the next entry

    def release(self) -> Awaitable[None]:
        return self._store.release(self._log, self._epoch)

"""The protocol of stores: append-only logs of rows, each with one writer at a time.

A log is a run (``run:<id>``) or a session (``session:<id>``). A store does not interpret rows: it stores them in
order, refuses a writer that has lost its lease, and returns them. Check your own store with
`ziggurat.testing.stores`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import blake2b
from math import inf
from typing import Annotated, Any, Protocol, TypedDict, Unpack, runtime_checkable

from msgspec import Meta, Struct

from ziggurat.core.codec import canonical, encode
from ziggurat.core.errors import JournalCorrupt, MailboxFull
from ziggurat.core.path import next_id

UNFINISHED = frozenset({"running", "Suspended", "Cancelled", "Failed", "Timeout", "Denied", "BudgetExceeded"})
"""The states of runs that can be continued."""

OPEN = ("running", "Suspended")  # the states of runs that have not ended


class Row(Struct, frozen=True, gc=False):
    """One row of a log.

    Attributes:
        number: From 1, without gaps.
        digest: Made of the previous row's digest and this row's data, so that damage to a row is detected, but not rows
            missing at the end, nor, without a key, who changed it.
        data: One JSON document without line breaks.
        status: The state of the log from this row on.
        asks: Whether something in it waits for a person from this row on.
        taken: How many of the items in its inbox are taken from this row on.
    """

    number: int
    digest: str
    data: bytes
    status: str = "running"
    asks: bool = False
    taken: int = 0


class LogMark(Struct, frozen=True):
    """The last acknowledged row of a log, as remembered apart from the log."""

    number: int
    check: str = ""  # a digest of the row's digest; empty if that is unknown

    @classmethod
    def of(cls, row: Row) -> "LogMark":
        return cls(row.number, blake2b(row.digest.encode(), digest_size=16).hexdigest())

    def fits(self, row: Row) -> bool:
        """Return whether a row is the one that was acknowledged, as far as that is known."""
        return self.number == row.number and self.check in ("", LogMark.of(row).check)


class LogFilters(TypedDict, total=False):
    """Which logs `Store.logs` returns; what is left out or None chooses none."""

    agent: str | None
    """Only logs of this agent."""
    status: str | None
    """Only logs in this state."""
    before: float | None
    """Only logs last changed before this time, in POSIX seconds."""
    labels: Mapping[str, object] | None
    """Only logs that have each of these labels, with a value of the same JSON."""
    asking: tuple[float, str] | None
    """Only runs in which something waits for a person, in the order of their creation; of these, those after the run
    that was created at this time and has this log."""


class LogInfo(Struct, frozen=True):
    """The header of a log, available without reading its rows.

    Attributes:
        log: Its name, such as ``run:r-17``.
        agent: The name of the agent.
        request: A digest of the request, to recognise the same run.
        created: When it was created, in POSIX seconds.
        status: ``running``, how it ended, or ``Quarantined``.
        updated: When its last row was written, in POSIX seconds.
        count: The number of rows.
        owner: The holder of its lease; empty if there is none, its process is gone, or the lease has expired.
        problem: Why it is in quarantine.
        due: From when a worker may take it, in POSIX seconds, if nobody has its lease; None if no worker may. In
            `Store.create` and `Store.append`, 0 for at once.
        priority: Of those that are due, the ones with the highest are taken first; each minute since then adds one.
        asks: Whether something in it waits for a person, by its last row.
        labels: The labels of the run: plain values by name.
    """

    log: str
    agent: str = ""
    request: str = ""
    created: float = 0.0
    status: str = "running"
    updated: float = 0.0
    count: int = 0
    owner: str = ""
    problem: str = ""
    due: float | None = None
    priority: int = 0
    asks: bool = False
    labels: dict[str, Any] = {}

    @property
    def id(self) -> str:
        """The id of the run or session: the name without its prefix."""
        return self.log.partition(":")[2]

    @property
    def rank(self) -> float:
        """Its place among the logs that are due: the lowest is claimed first."""
        return inf if self.due is None else self.due - AGING * self.priority

    @property
    def next_id(self) -> str:
        """The id of the run that continues this one as new, if it stopped with `Continued`."""
        return next_id(self.id)

    def fits(self, **filters: Unpack[LogFilters]) -> bool:
        """Return whether `Store.logs` with these filters would list it, apart from its name."""
        before, asking, labels = filters.get("before"), filters.get("asking"), filters.get("labels") or {}
        return (
            filters.get("agent") in (None, self.agent)
            and filters.get("status") in (None, self.status)
            and (before is None or self.updated < before)
            and (asking is None or (self.asks and self.status in OPEN and (self.created, self.log) > asking))
            and (not labels or {*label_lines(labels)} <= {*label_lines(self.labels)})
        )

    @staticmethod
    def chosen(infos: "Iterable[LogInfo]", limit: int, **filters: Unpack[LogFilters]) -> "list[LogInfo]":
        """Return those of some logs that `Store.logs` returns, for a store without an index."""
        found = [info for info in infos if info.fits(**filters)]
        by_creation = filters.get("asking") is not None
        return sorted(found, key=lambda info: (info.created, info.log) if by_creation else (-info.updated, ""))[:limit]


MAX_ITEMS = 100_000
"""The largest number of items in an inbox that nothing has taken; those of `ALWAYS` are accepted beyond it."""

MAX_ITEM_BYTES = 4 << 20  # the largest size of an item, its key included

ALWAYS = ("cancel ", "decide ", "withdraw ")
"""What the keys of items begin with of which there are only as many as the run has entries."""


class InboxItem(Struct, frozen=True):
    """What somebody other than its writer has posted to a log.

    Attributes:
        number: From 1 in each log, without gaps.
        key: Chosen by the sender; an item with a key that the log has already is not posted again.
        data: The content, as found if it is damaged.
    """

    number: int
    key: str
    data: bytes

    @classmethod
    def following(cls, log: str, count: int, taken: int, key: str, data: bytes) -> "InboxItem":
        """Return a new item for an inbox with so many; raise MailboxFull if the item is too large, or the inbox full.

        A store does so in the write that adds it. The last row of the log says how many are `taken`.
        """
        size = len(key) + len(data)
        if size > MAX_ITEM_BYTES:
            raise MailboxFull(f"{size:,} bytes are too many to be sent to {log}; the maximum is {MAX_ITEM_BYTES:,}")
        if count - taken >= MAX_ITEMS and not key.startswith(ALWAYS):
            raise MailboxFull(f"{count - taken:,} items that were sent to {log} wait there, which is the maximum")
        return cls(count + 1, key, data)


@runtime_checkable
class Store(Protocol):
    """The protocol of a store of logs, such as `stores.SqliteStore`; `testing.CHECKS` tries one of your own.

    One from which workers take runs also has `claim` and `woken`. Every method may raise StoreError (the disk is full,
    the server is gone); then nothing was written. What an awaited method has written is durable: it survives a crash of
    the process and, unless the store is configured otherwise, a loss of power.
    """

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        """Create a log with its first rows, lease it, and return the epoch of the lease.

        Raises:
            RunExists: a log of this name exists.
        """

    async def lease(self, log: str) -> int:
        """Become the only writer of a log until `release`, and return the epoch, which is higher than any before.

        The store renews the lease while it is open in this process; another writer can take it when it has expired,
        or when its owner is known to be gone. In a store without a `Queue`, a lease may last as long as its process.

        Raises:
            LeaseHeld: another writer has the lease; try again later.
            RunNotFound: there is no such log.
        """

    def append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes] | None = None,
        *,
        release: bool = False,
        due: float | None = None,
        read: int | None = None,
    ) -> Awaitable[None]:
        """Append rows to a log, with the large values that they refer to.

        If it fails, none of the rows is kept; after a crash during the write, the first few may be there.

        Args:
            rows: In order; the number of the first is the log's count plus one.
            blobs: Large values by their digests.
            release: Release the lease with the last row.
            due: From when on a worker may take it, if these rows change its state or release the lease; see `LogInfo`.
            read: With `release`, the number of the last item of its inbox that the writer knows: if there are later
                ones, the log is due at once.

        Raises:
            LeaseLost: another writer has the lease, or the rows do not follow the last one in the log.
        """

    def release(self, log: str, epoch: int) -> Awaitable[None]:
        """Release a lease; no effect if another writer has it already."""

    async def post(self, log: str, key: str, data: bytes) -> bool:
        """Add an item to the inbox of a log, and return whether it is new; a log in the state Suspended becomes due.

        Raises:
            RunNotFound: there is no such log.
            MailboxFull: see `InboxItem.following`; nothing was added.
        """

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        """Return the items of a log numbered higher than `after`, in order; they stay until the log is deleted."""

    async def arrived(self) -> dict[str, int]:
        """Return the number of the last item of each log that this object has the lease of and that has any."""

    async def find(self, log: str) -> LogInfo | None:
        """Return the header of a log, or None if there is no such log."""

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows numbered higher than `after`, in order, at most `limit`; an empty list if there are none.

        A row that exists and cannot be read has its data as found, and an empty digest.

        Raises:
            JournalCorrupt: the boundaries between rows cannot be found; the message says where.
        """

    async def blob(self, log: str, digest: str) -> bytes | None:
        """Return a large value of a log, or None if it is missing."""

    async def logs(self, prefix: str = "", *, limit: int = 100, **filters: Unpack[LogFilters]) -> list[LogInfo]:
        """Return the headers of logs, the most recently changed first.

        Args:
            prefix: The start of their names: ``run:`` for runs.
            limit: The maximum number.
            filters: See `LogFilters`.
        """

    async def quarantine(self, log: str, problem: str) -> None:
        """Quarantine a damaged log: its status becomes ``Quarantined``, and the holder of its lease loses it."""

    async def delete(self, log: str) -> bool:
        """Delete a log with its rows and large values; return whether it existed."""

    async def vacuum(self, before: float, *, prefix: str = "run:", unfinished: bool = False) -> int:
        """Delete logs last changed before a time, in POSIX seconds, free their space, and return their number.

        Runs that could be continued are deleted only with `unfinished`.
        """

    async def close(self) -> None:
        """Write what is left, release leases, and close files, threads and connections."""


@runtime_checkable
class SupportsChangeSignal(Protocol):
    """A store that can signal writes of other processes, so that a follower of a log need not poll."""

    async def changed(self, log: str, count: int, seconds: float) -> None:
        """Wait until a log may have more rows than `count`, at most `seconds` seconds."""


@runtime_checkable
class SupportsLogMarks(Protocol):
    """A store that remembers the last acknowledged row of each log where damage to the log does not reach.

    What it remembers may be older than the log after a crash, never newer. Its `create` and `find` raise JournalCorrupt
    for a log of which rows were acknowledged and nothing is left; deleting such a log accepts that.
    """

    async def acknowledged(self, log: str) -> LogMark | None:
        """Return the last acknowledged row of a log, None if it is unknown; read it before the rows, not after."""

    async def accept_loss(self, log: str, epoch: int, rows: Sequence[Row]) -> None:
        """Append rows to a log that ends before its last acknowledged row; the missing rows are forgotten.

        Raises:
            LeaseLost: as for `Store.append`.
        """


async def acknowledged_in(store: Store, log: str) -> LogMark | None:
    """Return the last acknowledged row of a log, None if it is unknown; a store with one is a `SupportsLogMarks`."""
    acknowledged = getattr(store, "acknowledged", None)
    mark: LogMark | None = None if acknowledged is None else await acknowledged(log)
    return mark


def loss(log: str, count: int, acknowledged: int) -> JournalCorrupt:
    kind, _, name = log.partition(":")
    left = f"ends with entry {count}" if count else "has no entries"
    option = "--session " if kind == "session" else ""
    return JournalCorrupt(
        f"the {kind} {name} {left}, but entry {acknowledged} was acknowledged: entries {count + 1} to {acknowledged} "
        f"are lost. Restore the store from a backup, or accept the loss with: ziggurat accept-loss {option}{name!r}. "
        "Tools whose calls are lost may then run again"
    )


def run_log(run_id: str) -> str:
    return f"run:{run_id}"


def session_log(session_id: str) -> str:
    return f"session:{session_id}"


def label_lines(labels: Mapping[str, object]) -> list[str]:
    """Return each label as one line of JSON, equal for equal labels.

    >>> label_lines({"team": "blue", "size": {"b": 2, "a": 1}})
    ['"team":"blue"', '"size":{"a":1,"b":2}']
    """
    return [f"{encode(name).decode()}:{canonical(value).decode()}" for name, value in labels.items()]


def labels_text(labels: Mapping[str, object]) -> str:
    """Return labels as JSON in which each has a line of its own, so that a database can search for the line."""
    # JSON has no line breaks within a text, so a line that is found is a label, and never a part of a value.
    lines = "\n,\n".join(label_lines(labels))
    return f"{{\n{lines}\n}}" if labels else "{}"


def chained(before: str, data: bytes) -> str:
    """Return the plain digest of a row, made of the digest of the row before (empty for the first) and its data."""
    return blake2b(data, key=before.encode(), digest_size=16).hexdigest()


Priority = Annotated[int, Meta(ge=-100, le=100)]  # which of the runs that are due come first: those with the highest

AGING = 60.0  # seconds since it was due that count as one step of the priority of a run, so that none waits for ever


class Claim(Struct, frozen=True):
    """A log that was due, and that the claimant has the lease of now."""

    log: str
    epoch: int  # of the lease
    lost: bool = False  # whether its last writer was lost: its process is gone, or its lease expired
    at: float = 0.0  # when it was claimed, by the clock of the store, in POSIX seconds; 0 if that is unknown


@runtime_checkable
class Queue(Protocol):
    """A store from which workers claim the runs that are due; times are those of its clock, in POSIX seconds."""

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        """Lease logs of an agent that are due and that nobody else has, or whose holder is gone.

        Those of the highest priority come first, to which a minute since a log was due adds one; so a stream of higher
        priorities delays a log by as many minutes as they are above its own. A claim is atomic: of several processes
        one gets a log. While others are due, a store may look for lost holders only once a second.
        """

    async def woken(self, after: int, seconds: float) -> int:
        """Wait until something may have become due or been posted elsewhere, and return the number of signals so far.

        `after` is the number that the last call has returned, 0 at first; if there were more since, it returns at once.
        It waits for at most `seconds`; a store that receives no signals waits shorter.
        """


Send = Callable[[bytes], Awaitable[None]]  # sends a message to all that listen; one that cannot be passed is lost


class LiveReader(Protocol):
    """One that listens to the live messages of a log."""

    def take(self) -> list[bytes]:
        """Return the messages that have arrived since the last call, in order; of a slow reader the oldest are lost."""

    async def wait(self, seconds: float) -> None:
        """Wait until there may be messages, at most `seconds` seconds."""


class LiveMessages(Protocol):
    """The live messages of a store's logs, between all processes that use it: the attribute `live` of a store.

    With one, readers get pieces of replies from anywhere.
    """

    def listen(self, log: str) -> AbstractAsyncContextManager[LiveReader]:
        """Listen to the messages of a log; whoever drives it learns of it by `watched`, until the process ends."""

    async def watched(self, logs: Sequence[str]) -> Collection[str]:
        """Return those of some logs to which anybody listens."""

    def sending(self, log: str) -> AbstractAsyncContextManager[Send]:
        """Send messages, of JSON without line breaks, to those that listen to a log."""

"""The protocol of stores: append-only logs of rows, with one writer at a time each.

A log is a run (``run:<id>``) or a session (``session:<id>``). A store knows nothing of what the rows say: it keeps
them in order, refuses a writer whose lease has passed to another, and gives them back. Whoever builds one checks it
with `ziggurat.testing.stores`.
"""

__all__ = [
    "ID",
    "LONGEST",
    "UNFINISHED",
    "LogInfo",
    "Row",
    "Store",
    "Wakes",
    "chained",
    "is_id",
    "run_log",
    "session_log",
]

from collections.abc import Awaitable, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol, runtime_checkable

from msgspec import Struct

UNFINISHED = frozenset({"running", "Suspended", "Cancelled", "Failed", "Timeout"})
"""The states of runs that can go on."""


LONGEST = 500
"""The longest id of a run or a session that every store can keep, in characters."""

ID = f"a non-empty string, of {LONGEST} characters at most, without NUL and lone surrogates"
"""What such an id is, in words."""


class Row(Struct, frozen=True, gc=False):
    """One row of a log.

    Attributes:
        number: From 1, without gaps.
        digest: Of the row before and this one, so that a change anywhere shows; see `chained`.
        data: One JSON document without line breaks.
        status: What state the log is in from here on.
    """

    number: int
    digest: str
    data: bytes
    status: str = "running"


class LogInfo(Struct, frozen=True):
    """What is known of a log without reading it.

    Attributes:
        log: Its name, such as ``run:r-17``.
        agent: Who answers in it.
        request: A digest of what was asked, by which the same run is known again.
        created: POSIX seconds.
        status: ``running``, how it ended, or ``Quarantined``.
        updated: When its last row was written, in POSIX seconds.
        count: How many rows it has.
        owner: Who holds its lease; empty when nobody does.
        problem: Why it is in quarantine.
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

    @property
    def id(self) -> str:
        """The name without its kind: the run's or session's id."""
        return self.log.partition(":")[2]

    def fits(self, agent: str | None, status: str | None, before: float | None) -> bool:
        """Return whether `Store.logs` would list it, whatever its name."""
        return (
            agent in (None, self.agent) and status in (None, self.status) and (before is None or self.updated < before)
        )


@runtime_checkable
class Store(Protocol):
    """Keeps logs. Every verb may raise StoreError: the disk is full, the server is gone; nothing was written then.

    What an awaited verb has written is durable: it is there after a crash of the process, and, unless the store was
    told otherwise, after a loss of power.
    """

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        """Begin a log with its first rows, lease it, and return the epoch of the lease.

        Raises:
            RunExists: there is one of this name.
        """
        ...

    async def lease(self, log: str) -> int:
        """Become the only writer of a log until `release`, and return the epoch, which is higher than any before.

        A lease is renewed while the store lives in this process; it passes on when it has run out, or when its
        owner is known to be gone.

        Raises:
            LeaseHeld: another writer holds it; try again later.
            RunNotFound: there is no such log.
        """
        ...

    def append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes] | None = None,
        *,
        release: bool = False,
    ) -> Awaitable[None]:
        """Write rows after those there are, with the large values that they name.

        When it fails none of them stays; after a crash in the middle of it there may be a beginning of them.

        Args:
            log: The log's name.
            epoch: That of the writer's lease.
            rows: In order; the first is numbered one more than the log's count.
            blobs: Large values by their digests.
            release: Give the lease back with the last row.

        Raises:
            LeaseLost: the lease has passed to another, or the rows do not follow those there are.
        """
        ...

    def release(self, log: str, epoch: int) -> Awaitable[None]:
        """Give a lease back; harmless when it has passed on already."""
        ...

    async def find(self, log: str) -> LogInfo | None:
        """Return what is known of a log, None when there is none."""
        ...

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows numbered higher than `after`, in order, at most `limit`; empty when there are none.

        A row that is there and cannot be read has its data as found, and an empty digest.

        Raises:
            JournalCorrupt: rows cannot be told apart; the message says where.
        """
        ...

    async def blob(self, log: str, digest: str) -> bytes | None:
        """Return a large value of a log."""
        ...

    async def logs(
        self,
        prefix: str = "",
        *,
        agent: str | None = None,
        status: str | None = None,
        before: float | None = None,
        limit: int = 100,
    ) -> list[LogInfo]:
        """Return what is known of logs, the latest changed first.

        Args:
            prefix: Of their names: ``run:`` for runs.
            agent: Only those of this agent.
            status: Only those in this state.
            before: Only those last changed before this time, in POSIX seconds.
            limit: At most so many.
        """
        ...

    async def quarantine(self, log: str, problem: str) -> None:
        """Set a damaged log apart: its status is ``Quarantined`` from now on, whoever holds its lease loses it."""
        ...

    async def delete(self, log: str) -> bool:
        """Remove a log with all that it holds; return whether there was one."""
        ...

    async def vacuum(self, before: float, *, prefix: str = "run:", unfinished: bool = False) -> int:
        """Remove logs last changed before a time (POSIX seconds), give the room back, and return how many they were.

        Args:
            before: The time.
            prefix: Of their names.
            unfinished: Remove also those that could go on.
        """
        ...

    async def close(self) -> None:
        """Write what is left, give back leases, and close files, threads and connections."""
        ...


@runtime_checkable
class Wakes(Protocol):
    """A store that can tell when another process has written; who follows a log then need not look time and again."""

    async def changed(self, log: str, count: int, seconds: float) -> None:
        """Return when a log may have more rows than `count`, at the latest after so many seconds."""
        ...


def is_id(text: str) -> bool:
    """Return whether a text can be the id of a run or a session, or the name of an agent, in every store."""
    return len(text) <= LONGEST and "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def run_log(run_id: str) -> str:
    """Return the name of a run's log."""
    return f"run:{run_id}"


def session_log(session_id: str) -> str:
    """Return the name of a session's log."""
    return f"session:{session_id}"


def chained(before: str, data: bytes) -> str:
    """Return the digest of a row: of the digest of the row before (empty for the first) and its data."""
    return blake2b(data, key=before.encode(), digest_size=16).hexdigest()

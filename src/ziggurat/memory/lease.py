"""Leases on the memories of one owner, kept in the store itself: one worker at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LeaseHeld, LeaseLost
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import MemoryStore

KIND = "lease"
"""The kind of a lease record; it is always archived, so no recall finds it."""


class WorkLease:
    """The lease for one kind of work for one owner, until another worker takes it over."""

    def __init__(self, store: MemoryStore, record: MemoryRecord, number: int, seconds: float, ctx: Context) -> None:
        self._store = store
        self._record = record
        self._number = number
        self._seconds = seconds
        self._ctx = ctx

    async def confirm(self) -> None:
        """Renew the lease for another full period; call it before each write."""
        if await _highest(self._store, self._record) != self._number:
            raise LeaseLost(f"the {self._name} of {self._record.owner!r} took too long and was taken over by another")
        self._record = replace(self._record, used=self._ctx.clock.now() + self._seconds)
        await self._store.put([self._record])

    async def release(self) -> None:
        """Give the lease back."""
        if await _highest(self._store, self._record) == self._number:
            await self._store.put([replace(self._record, used=0.0)])

    @property
    def _name(self) -> str:
        return self._record.content


async def _highest(store: MemoryStore, lease: MemoryRecord) -> int:
    return max([number for number, _ in await _leases(store, lease.owner, lease.content)], default=0)


async def _leases(store: MemoryStore, owner: str, name: str) -> list[tuple[int, MemoryRecord]]:
    return [
        (int(record.id.rpartition(":")[2]), record)
        async for record in store.scan(owner=owner, kind=KIND, archived=True)
        if record.content == name
    ]


@asynccontextmanager
async def leased(store: MemoryStore, owner: str, name: str, ctx: Context, seconds: float) -> AsyncIterator[WorkLease]:
    """Hold the lease on one kind of work for one owner while the block runs."""
    now = ctx.clock.now()
    leases = await _leases(store, owner, name)
    number = max([number for number, _ in leases], default=0) + 1
    if any(record.used > now and each == number - 1 for each, record in leases):
        raise LeaseHeld(f"the {name} of {owner!r} is in progress elsewhere")
    record = MemoryRecord(
        id=f"{KIND}:{name}:{len(owner)}:{owner}:{number}",
        owner=owner,
        content=name,
        kind=KIND,
        origin="runtime",
        created=now,
        used=now + seconds,
        archived=True,
    )
    try:
        await store.add([record])
    except ConfigurationError:  # the id exists: another worker was quicker
        raise LeaseHeld(f"the {name} of {owner!r} is in progress elsewhere") from None
    lease = WorkLease(store, record, number, seconds, ctx)
    if await _highest(store, record) != number:  # the scan was out of date: other workers came and went meanwhile
        await store.remove([record.id])
        raise LeaseHeld(f"the {name} of {owner!r} is in progress elsewhere")
    await store.remove([old.id for _, old in leases])
    try:
        yield lease
    finally:
        await lease.release()

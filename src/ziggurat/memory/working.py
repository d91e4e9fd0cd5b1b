"""Working memory: a few named values; the least recently used is dropped first."""

from ziggurat.core.context import Context, root
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.memory.arguments import Words
from ziggurat.memory.record import MemoryRecord, Origin
from ziggurat.memory.store import OpenedStore

_INSTANT = 1e-6


class WorkingMemory:
    """Store a bounded number of texts by name; reading or setting one makes it the most recently used.

    It is a scratch pad: setting a name again overwrites its value, and values beyond the capacity are deleted.

    ::

        memory = WorkingMemory(store, "ann", capacity=2)
        await memory.set("goal", "book a flight")
        await memory.get("goal")

    Args:
        store: Where the values are stored.
        owner: The owner of the values.
        capacity: The maximum number of values.
        ctx: Supplies the clock; by default the system's.

    Raises:
        ConfigurationError: the capacity is below 1, or the owner is missing.
    """

    kind: str = "working"

    @checked
    def __init__(
        self, store: OpenedStore, owner: NonEmptyText, *, capacity: PositiveInt = 64, ctx: Context | None = None
    ) -> None:
        self.store = store
        self.owner = owner
        self.capacity = capacity
        self.ctx: Context = ctx or root("memory")
        self._last = 0.0

    def __repr__(self) -> str:
        return f"WorkingMemory({self.store!r}, {self.owner!r}, capacity={self.capacity})"

    @checked
    async def set(self, name: str, value: str, *, origin: Origin = "user", taint: Words = ()) -> None:
        """Store a value under a name, replacing the one that was there.

        Raises:
            ConfigurationError: the name or the value is not text.
        """
        now = self._instant()
        record = MemoryRecord(
            id=self._id(name),
            owner=self.owner,
            content=value,
            kind=self.kind,
            origin=origin,
            taint=tuple(taint) or (("tool",) if origin == "tool" else ()),
            created=now,
            used=now,
            facts={"name": name},
        )
        await self.store.put([record])
        over = await self.store.count(owner=self.owner, kind=self.kind) - self.capacity
        if over > 0:
            going = [each for each in await self.records() if each.id != record.id][:over]
            await self.store.remove([each.id for each in going])

    @checked
    async def get(self, name: str) -> str | None:
        """Return the value under a name, or None, and record that it was used."""
        for record in await self.store.get([self._id(name)]):
            await self.store.touch([record.id], self._instant())
            return record.content
        return None

    @checked
    async def discard(self, name: str) -> bool:
        """Delete the value under a name; return whether there was one."""
        return await self.store.remove([self._id(name)]) > 0

    async def clear(self) -> None:
        """Delete all values."""
        await self.store.remove([record.id for record in await self.records()])

    async def items(self) -> dict[str, str]:
        """Return all values by name, the least recently used first; this does not count as use."""
        return {str(record.facts["name"]): record.content for record in await self.records()}

    async def records(self) -> list[MemoryRecord]:
        """Return the records of all values, the least recently used first; this does not count as use."""
        records = [record async for record in self.store.scan(owner=self.owner, kind=self.kind)]
        return sorted(records, key=lambda record: record.used)

    def _id(self, name: str) -> str:
        return f"working:{len(self.owner)}:{self.owner}:{name}"

    def _instant(self) -> float:
        """Return the time, but later than any returned before, so that values set at the same moment stay ordered."""
        self._last = max(self.ctx.clock.now(), self._last + _INSTANT)
        return self._last

"""Tests of leases: only one worker at a time works on the memories of an owner."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.memory.making import context
from ziggurat.errors import LeaseHeld, LeaseLost
from ziggurat.memory import MemoryRecord
from ziggurat.memory.merging import leased
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.testing import HandClock


async def test_it_is_held_by_one_until_it_is_given_back() -> None:
    store, ctx = LocalMemoryStore(), context(HandClock())
    for _ in range(3):
        async with leased(store, "ann", "work", ctx, 10):
            with pytest.raises(LeaseHeld, match="work of 'ann'"):
                async with leased(store, "ann", "work", ctx, 10):
                    pass
            async with leased(store, "ann", "other work", ctx, 10), leased(store, "ben", "work", ctx, 10):
                pass
    assert await store.count(owner="ann") == 0
    assert await store.count(owner="ann", archived=True) == 2  # the last number of each kind of work


async def test_who_gives_no_sign_of_life_is_overtaken_and_told_so() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    async with leased(store, "ann", "work", ctx, 10) as slow:
        await clock.advance(9)
        await slow.confirm()
        await clock.advance(9)
        with pytest.raises(LeaseHeld):
            async with leased(store, "ann", "work", ctx, 10):
                pass
        await clock.advance(1)
        async with leased(store, "ann", "work", ctx, 10) as quick:
            with pytest.raises(LeaseLost, match="taken over by another"):
                await slow.confirm()
            await slow.release()  # does no harm to the other
            await quick.confirm()


class Yielding(LocalMemoryStore):
    """Lets another task write before every write, so that data read before is out of date."""

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        await asyncio.sleep(0)
        await super().add(records)


async def test_of_many_who_try_at_once_one_holds_it() -> None:
    store, ctx = Yielding(), context(HandClock())
    inside: list[int] = []
    most = 0

    async def work(number: int) -> bool:
        nonlocal most
        try:
            async with leased(store, "ann", "work", ctx, 10):
                inside.append(number)
                most = max(most, len(inside))
                await asyncio.sleep(0)
                inside.remove(number)
        except LeaseHeld:
            return False
        return True

    for _ in range(5):
        assert any(await asyncio.gather(*map(work, range(20))))
    assert most == 1


async def test_who_saw_an_old_number_is_refused() -> None:
    store, ctx = LocalMemoryStore(), context(HandClock())

    class Late(LocalMemoryStore):
        """Returns the state from before two other workers came and went."""

        async def add(self, records: Sequence[MemoryRecord], /) -> None:
            for _ in range(2):
                async with leased(store, "ann", "work", ctx, 10):
                    pass
            await store.add(records)

        scan = store.scan
        remove = store.remove

    with pytest.raises(LeaseHeld):
        async with leased(Late(), "ann", "work", ctx, 10):
            pass
    async with leased(store, "ann", "work", ctx, 10):
        pass

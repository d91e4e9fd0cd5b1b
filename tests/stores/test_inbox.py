"""The inbox of a log: an item costs the same, however many there are, and neither its size nor their number grows."""

import time
from pathlib import Path

import pytest

from tests.samples import amount, sample
from tests.stores.places import PLACES, stores
from ziggurat.errors import MailboxFull
from ziggurat.journal import LogInfo, Store
from ziggurat.journal.store import ALWAYS, MAX_ITEM_BYTES, MAX_ITEMS, InboxItem
from ziggurat.testing.stores import rows


async def _seconds(store: Store, reader: Store, log: str, count: int) -> float:
    """Return the processor time of so many posts, each followed by a look of the one that drives the run."""
    await store.create(LogInfo(log), rows(1))
    begun = time.process_time()
    for number in range(count):
        assert await reader.post(log, f"event paid {number}", b'{"type":"event","name":"paid"}')
        assert not await store.post(log, f"event paid {number // 2}", b"")
        assert await store.arrived() == {log: number + 1}
        assert [item.number for item in await store.inbox(log, number)] == [number + 1]
    used = time.process_time() - begun
    assert [item.number for item in await reader.inbox(log)] == [*range(1, count + 1)]
    assert await reader.delete(log)
    return used


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_an_item_costs_the_same_however_many_there_are(kind: str, tmp_path: Path) -> None:
    few = amount(100, 2_500)
    async with stores(kind, tmp_path) as (store, other):
        least = [
            min([await _seconds(store, other, f"run:{count}", count) for _ in range(3)]) for count in (few, 4 * few)
        ]
    assert least[1] < 8 * least[0], "16 times as much if each item costs as much as there are"


@pytest.mark.parametrize("kind", sample(["memory", "sqlite"], 1))
async def test_a_full_inbox_takes_what_ends_the_waiting_only(kind: str, tmp_path: Path) -> None:
    count = MAX_ITEMS if kind == "memory" else amount(0, MAX_ITEMS)
    async with stores(kind, tmp_path) as (store, other):
        await store.create(LogInfo("run:r"), rows(1))
        for number in range(count):
            await store.post("run:r", str(number), b"")
        if count:
            with pytest.raises(MailboxFull):
                await other.post("run:r", "event paid", b"")
            assert not await other.post("run:r", "1", b""), "it was posted before"
        assert [await other.post("run:r", f"{begin}1", b"") for begin in ALWAYS] == [True] * len(ALWAYS)
        assert len(await store.inbox("run:r", count)) == len(ALWAYS)


def test_what_is_too_large_is_refused_whatever_it_is() -> None:
    for begin in (*ALWAYS, "event ", ""):
        InboxItem.following("run:r", 0, 0, begin, bytes(MAX_ITEM_BYTES - len(begin)))
        for count, key, size in ((0, begin, MAX_ITEM_BYTES + 1), (0, begin + "k" * MAX_ITEM_BYTES, 1)):
            with pytest.raises(MailboxFull):
                InboxItem.following("run:r", count, 0, key, bytes(size))

"""Conformance checks for the queue of a store: what is due, claims, and the inbox of a log."""

import asyncio
from typing import Any

from ziggurat.core.errors import LeaseLost, RunNotFound
from ziggurat.core.store import LogInfo, Store, run_log
from ziggurat.testing.clock import HandClock
from ziggurat.testing.under_test import StoreUnderTest, refused, rows


async def submit(store: Store, name: str, **header: Any) -> None:
    """Create a log of one row that nobody has the lease of."""
    log = run_log(name)
    info = LogInfo(log, **{"agent": "desk", "due": 0.0, **header})
    await store.release(log, await store.create(info, rows(1)))


async def claimed(store: Store, limit: int = 1, agent: str = "desk") -> list[str]:
    """Claim logs, and return their ids."""
    return [claim.log.removeprefix("run:") for claim in await store.claim(agent, limit)]


async def what_is_due_is_claimed_in_order(opened: StoreUnderTest) -> None:
    """Check the order: priority, then how long it has been due; and that only one agent's logs are claimed, once."""
    store, now = opened.open(), opened.clock.now()
    await submit(store, "low", priority=-1, due=now - 9)
    await submit(store, "later", due=now + 20)
    await submit(store, "late", due=now - 1)
    await submit(store, "early", due=now - 2)
    await submit(store, "high", priority=5)
    await submit(store, "other", agent="clerk")
    await submit(store, "never", due=None)
    info = await store.find(run_log("later"))
    assert info is not None
    assert (info.due, info.priority, info.status) == (now + 20, 0, "running")
    assert await claimed(opened.open(), 2) == ["high", "early"]
    assert await claimed(store, 9) == ["late", "low"]
    assert await claimed(opened.open(), 9) == []
    await opened.clock.advance(20)
    assert await claimed(opened.open(), 9) == ["later"]
    assert await claimed(store, 9, "clerk") == ["other"]


async def a_claim_is_a_lease(opened: StoreUnderTest) -> None:
    """Check that who has claimed a log writes it, and that it is due again as the last row says."""
    store, other, log = opened.open(), opened.open(), run_log("r")
    await submit(store, "r")
    (claim,) = await store.claim("desk", 5)
    assert (claim.log, claim.lost) == (log, False)
    await refused(other.append(log, claim.epoch - 1, rows(1, 1)), LeaseLost)
    await store.append(log, claim.epoch, rows(1, 1), due=0.0)
    now = opened.clock.now()
    await store.append(log, claim.epoch, rows(1, 2, status="Suspended"), release=True, due=now + 20)
    assert await claimed(other) == []
    await opened.clock.advance(20)
    (again,) = await other.claim("desk")
    assert again.epoch > claim.epoch
    await other.append(log, again.epoch, rows(1, 3), due=0.0)
    await other.release(log, again.epoch)
    (third,) = await store.claim("desk")
    await store.append(log, third.epoch, rows(1, 4, status="Completed"), release=True)
    assert await claimed(other) == []
    info = await other.find(log)
    assert info is not None
    assert (info.due, info.status, info.owner) == (None, "Completed", "")


async def a_lost_log_is_claimed(opened: StoreUnderTest) -> None:
    """Check that a log whose lease has expired is due, and that it is known that its writer was lost."""
    one, other, log = opened.open(HandClock()), opened.open(), run_log("r")
    epoch = await one.create(LogInfo(log, "desk", due=0.0), rows(1))
    await one.create(LogInfo(run_log("waits"), "desk", due=opened.clock.now() + 200_000), rows(1))
    await one.create(LogInfo(run_log("session")), rows(1))
    assert await other.claim("desk") == []
    await opened.clock.advance(100_000)  # the clock of `other`; that of `one` stands still
    (claim,) = await other.claim("desk", 5)
    assert (claim.log, claim.lost) == (log, True)
    await refused(one.append(log, epoch, rows(1, 1)), LeaseLost)
    assert await other.claim("desk") == []


async def each_log_is_claimed_by_one(opened: StoreUnderTest) -> None:
    """Check that of several who claim at the same time each gets other logs."""
    stores = [opened.open() for _ in range(3)]
    await asyncio.gather(*(submit(stores[0], str(number)) for number in range(12)))
    ids: list[str] = []
    for _ in range(12):
        for names in await asyncio.gather(*(claimed(store, 2) for store in stores)):
            ids += names
    assert sorted(ids) == sorted(str(number) for number in range(12))


async def a_damaged_log_is_not_due(opened: StoreUnderTest) -> None:
    """Check that a log in quarantine, and one that was deleted, are claimed by nobody."""
    store = opened.open()
    await submit(store, "damaged")
    await submit(store, "gone")
    await store.quarantine(run_log("damaged"), "a test")
    await store.delete(run_log("gone"))
    assert await claimed(store, 5) == []


async def items_are_posted_once_and_in_order(opened: StoreUnderTest) -> None:
    """Check that items come back as they were posted, once for each key, and go with their log."""
    store, other, log = opened.open(), opened.open(), run_log("r")
    await refused(store.post(log, "a", b"{}"), RunNotFound)
    await store.create(LogInfo(log, "desk", due=0.0), rows(1))
    assert await store.inbox(log) == []
    assert await store.arrived() == {}
    text = b'{"text":"\xc3\xa4"}'
    assert await other.post(log, "a", text)
    assert await store.post(log, "b", b"2")
    assert not await other.post(log, "a", b"3")
    for reader in (store, other):
        items = await reader.inbox(log)
        assert [(item.number, item.key, item.data) for item in items] == [
            (1, "a", b'{"text":"\xc3\xa4"}'),
            (2, "b", b"2"),
        ]
        assert await reader.inbox(log, 1) == items[1:]
        assert await reader.inbox(run_log("other")) == []
    assert await store.arrived() == {log: 2}, "its lease is that of this store"
    assert await other.arrived() == {}
    posted = await asyncio.gather(*(each.post(log, str(key), b"") for key in range(5) for each in (store, other)))
    assert sum(posted) == 5
    assert [item.number for item in await store.inbox(log)] == [1, 2, 3, 4, 5, 6, 7]
    assert await store.delete(log)
    assert await other.inbox(log) == []
    await store.create(LogInfo(log), rows(1))
    assert await other.inbox(log) == []


async def what_is_posted_wakes_who_waits(opened: StoreUnderTest) -> None:
    """Check that an item makes a suspended log due, also one that its writer has not seen, and no other log."""
    store, other, log = opened.open(), opened.open(), run_log("r")
    epoch = await store.create(LogInfo(log, "desk", due=0.0), rows(1))
    await other.post(log, "early", b"")
    await store.append(log, epoch, rows(1, 1, status="Suspended"), release=True, read=0)
    (claim,) = await other.claim("desk")
    await other.append(log, claim.epoch, rows(1, 2), due=0.0)
    later = opened.clock.now() + 20
    await other.append(log, claim.epoch, rows(1, 3, status="Suspended"), release=True, due=later, read=1)
    assert await store.claim("desk") == []
    assert await store.post(log, "late", b"")
    (claim,) = await store.claim("desk")
    await store.append(log, claim.epoch, rows(1, 4, status="Completed"), release=True)
    await other.post(log, "too late", b"")
    assert await store.claim("desk") == []


async def a_wait_for_signals_ends(opened: StoreUnderTest) -> None:
    """Check that a wait for work ends in time, with or without a signal."""
    store, other = opened.open(), opened.open()
    seen = await store.woken(0, 0.01)
    await submit(other, "r")
    await asyncio.wait_for(store.woken(seen, 20.0), 10.0)
    assert await claimed(store) == ["r"]


QUEUE_CHECKS = (
    what_is_due_is_claimed_in_order,
    a_claim_is_a_lease,
    a_lost_log_is_claimed,
    each_log_is_claimed_by_one,
    a_damaged_log_is_not_due,
    items_are_posted_once_and_in_order,
    what_is_posted_wakes_who_waits,
    a_wait_for_signals_ends,
)
"""The checks of the queue of a store."""

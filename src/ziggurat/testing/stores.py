"""Conformance checks for stores of logs, for those who write their own.

::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_store(check: Check, tmp_path: Path) -> None:
        run_check(check, lambda clock: MyStore(tmp_path, clock=clock))

Each call of the factory opens the same data again, as another process would.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from msgspec.structs import replace

from ziggurat.core.clock import Clock
from ziggurat.core.errors import LeaseHeld, LeaseLost, MailboxFull, RunExists, RunNotFound, StoreError
from ziggurat.core.settings import checked, implements
from ziggurat.journal.store import (
    MAX_ITEM_BYTES,
    Claim,
    LogInfo,
    LogMark,
    Queue,
    Row,
    Store,
    SupportsLogMarks,
    acknowledged_in,
    chained,
    run_log,
    session_log,
)
from ziggurat.testing.loop import HandClock

LONG_AGO, LATER = 1.0, 10_000_000_000.0

Factory = Callable[[Clock], Store]

Check = Callable[["StoreUnderTest"], Awaitable[None]]


class StoreUnderTest:
    """The store under test, opened as often as a check needs, and the clock that it uses."""

    def __init__(self, factory: Factory) -> None:
        self.clock: HandClock = HandClock()
        self._factory = factory
        self._stores: list[Store] = []

    def open(self, clock: Clock | None = None) -> Store:
        """Open the store as another process would, optionally with its own clock."""
        store = self._factory(clock or self.clock)
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


@checked
def run_check(check: Check, factory: Factory) -> None:
    """Run one check of `CHECKS` on a store::

        @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
        def test_my_store(check, tmp_path):
            run_check(check, lambda clock: MyStore(tmp_path, clock=clock))

    Those of a queue are for a store that has `claim` and `woken`; another one passes them.

    Args:
        check: The check.
        factory: Opens the store, with the clock that it is to use; called again where a check opens it a second time.

    Raises:
        AssertionError: the store fails the check.
        ConfigurationError: the check or the factory is no function.
    """

    async def main() -> None:
        opened = StoreUnderTest(factory)
        try:
            if check not in QUEUE_CHECKS or implements(opened.open(), Queue):
                await check(opened)
        finally:
            await opened.close()

    asyncio.run(main())


def rows(count: int, after: int = 0, before: str = "", status: str = "running") -> list[Row]:
    result: list[Row] = []
    for number in range(after + 1, after + count + 1):
        data = b'{"entry":"Test","number":%d,"text":"\xc3\xa4 \\n"}' % number
        before = chained(before, data)
        result.append(Row(number, before, data, status))
    return result


async def refused(work: Awaitable[object], *kinds: type[Exception]) -> None:
    try:
        await work
    except kinds:
        return
    raise AssertionError(f"it must be refused with {' or '.join(kind.__name__ for kind in kinds)}")


async def rows_come_back_as_they_were_written(opened: StoreUnderTest) -> None:
    store, log = opened.open(), run_log("r")
    first = rows(2)
    epoch = await store.create(LogInfo(log, "desk", "digest"), first)
    more = rows(3, 2, first[-1].digest)
    await store.append(log, epoch, more)
    for reader in (store, opened.open()):
        assert await reader.read(log) == [*first, *more]
        assert await reader.read(log, 3) == more[1:]
        assert await reader.read(log, 1, 2) == [first[1], more[0]]
        assert await reader.read(log, 5) == []
        info = await reader.find(log)
        assert info is not None
        assert (info.log, info.agent, info.request, info.count, info.status) == (log, "desk", "digest", 5, "running")
        assert info.owner
    assert await store.read(run_log("other")) == []
    assert await store.find(run_log("other")) is None


async def a_name_is_taken_once(opened: StoreUnderTest) -> None:
    store, log = opened.open(), run_log("r")
    await store.create(LogInfo(log), rows(1))
    await refused(store.create(LogInfo(log), rows(1)), RunExists)
    await refused(opened.open().create(LogInfo(log), rows(1)), RunExists)
    assert len(await store.read(log)) == 1


async def rows_must_follow(opened: StoreUnderTest) -> None:
    """Check that rows that leave a gap or repeat a number are refused, and change nothing."""
    store, log = opened.open(), run_log("r")
    epoch = await store.create(LogInfo(log), rows(2))
    await refused(store.append(log, epoch, rows(1, 3)), LeaseLost)
    await refused(store.append(log, epoch, rows(1, 1)), LeaseLost)
    assert await store.read(log) == rows(2)


async def one_writes_at_a_time(opened: StoreUnderTest) -> None:
    """Check that a lease is held until it is released, and that the former holder is refused."""
    one, other, log = opened.open(), opened.open(), run_log("r")
    first = await one.create(LogInfo(log), rows(1))
    await refused(other.lease(log), LeaseHeld)
    await refused(other.append(log, first + 1, rows(1, 1)), LeaseLost)
    await one.release(log, first)
    await refused(one.append(log, first, rows(1, 1)), LeaseLost)
    second = await other.lease(log)
    assert second > first
    await refused(one.append(log, first, rows(1, 1)), LeaseLost)
    await one.release(log, first)  # no effect: the lease has passed on
    await refused(one.lease(log), LeaseHeld)
    stored = await other.read(log)
    await other.append(log, second, rows(1, 1, stored[-1].digest), release=True)
    assert await one.lease(log) > second
    await refused(one.lease(run_log("none")), RunNotFound)


async def a_lease_runs_out(opened: StoreUnderTest) -> None:
    """Check that a process that was suspended is refused after another has taken over its lease."""
    one, other, log = opened.open(HandClock()), opened.open(), run_log("r")
    first = await one.create(LogInfo(log), rows(1))
    await opened.clock.advance(100_000)  # the clock of `other`; that of `one` stands still
    if not implements(other, Queue):
        await one.release(log, first)  # the lease may last as long as its process
    second = await other.lease(log)
    await refused(one.append(log, first, rows(1, 1)), LeaseLost)
    await other.append(log, second, rows(1, 1))
    assert [row.number for row in await one.read(log)] == [1, 2]


async def a_lease_taken_again_by_its_holder_ends_the_former(opened: StoreUnderTest) -> None:
    """Check that only the newest epoch may write, also within one process."""
    store, log = opened.open(), run_log("r")
    first = await store.create(LogInfo(log), rows(1))
    second = await store.lease(log)
    await refused(store.append(log, first, rows(1, 1)), LeaseLost)
    await store.release(log, first)  # which is nothing to the newest
    await store.append(log, second, rows(1, 1))


async def large_values_stand_beside_their_log(opened: StoreUnderTest) -> None:
    store, log = opened.open(), run_log("r")
    large = bytes(range(256)) * 4096
    epoch = await store.create(LogInfo(log), rows(1), {"aa": b"\0small"})
    await store.append(log, epoch, rows(1, 1), {"bb": large})
    other = opened.open()
    assert await other.blob(log, "aa") == b"\0small"
    assert await other.blob(log, "bb") == large
    assert await other.blob(log, "cc") is None
    assert await other.blob(run_log("s"), "aa") is None


async def logs_are_listed(opened: StoreUnderTest) -> None:
    store = opened.open()
    for name, agent, status in (("a", "desk", "Completed"), ("b", "desk", "running"), ("c", "clerk", "Completed")):
        log = run_log(name)
        labels = {"name": name, "size": len(name), "of": {"agent": agent, "tags": ["x\ny", '"']}}
        epoch = await store.create(LogInfo(log, agent, labels=labels), rows(1))
        await store.append(log, epoch, rows(1, 1, status=status), release=True)
        await opened.clock.advance(10)
    await store.create(LogInfo(session_log("a")), rows(1))

    async def ids(**terms: object) -> set[str]:
        return {info.id for info in await store.logs("run:", **terms)}  # type: ignore[arg-type]

    assert await ids() == {"a", "b", "c"}
    assert await ids(agent="desk") == {"a", "b"}
    assert await ids(status="Completed") == {"a", "c"}
    assert await ids(agent="desk", status="running") == {"b"}
    assert await ids(before=LONG_AGO - 1) == set()
    assert await ids(labels={}) == {"a", "b", "c"}
    assert await ids(labels={"name": "a"}) == {"a"}
    assert await ids(labels={"of": {"tags": ["x\ny", '"'], "agent": "desk"}}) == {"a", "b"}
    assert await ids(labels={"name": "b", "size": 1}, agent="desk") == {"b"}
    for others in ({"name": "d"}, {"size": "1"}, {"siz": 1}, {"agent": "desk"}, {"name": "a", "size": 2}, {"": None}):
        assert await ids(labels=others) == set()
    info = await store.find(run_log("a"))
    assert info is not None
    assert info.labels == {"name": "a", "size": 1, "of": {"agent": "desk", "tags": ["x\ny", '"']}}
    assert len(await store.logs("run:", limit=2)) == 2
    assert [info.log for info in await store.logs("session:")] == [session_log("a")]
    assert len(await store.logs()) == 4
    updated = [info.updated for info in await store.logs("run:")]
    assert updated == sorted(updated, reverse=True)


async def those_that_ask_are_listed_in_order(opened: StoreUnderTest) -> None:
    """Check that the runs that ask a person something are listed by the time of their creation, and page by page."""
    store = opened.open()
    for name, agent, created in (("b", "desk", 2.0), ("a", "desk", 2.0), ("c", "other", 1.0), ("d", "desk", 3.0)):
        epoch = await store.create(LogInfo(run_log(name), agent, "digest", created), rows(1))
        more = rows(1, 1, rows(1)[0].digest, "Suspended")
        await store.append(run_log(name), epoch, [replace(more[0], asks=name != "d")], release=True)

    async def listed(agent: str | None, after: tuple[float, str] = (0.0, ""), limit: int = 10) -> list[str]:
        return [info.id for info in await opened.open().logs("run:", limit=limit, agent=agent, asking=after)]

    assert await listed(None) == ["c", "a", "b"]
    assert await listed("desk") == ["a", "b"]
    assert await listed(None, limit=1) == ["c"]
    assert await listed(None, (2.0, run_log("a"))) == ["b"]
    await store.quarantine(run_log("a"), "a test")
    epoch = await store.lease(run_log("b"))
    await store.append(run_log("b"), epoch, rows(1, 2, rows(2)[1].digest))
    assert await listed(None) == ["c"], "what is damaged, or asks no more, is not among them"


async def names_do_not_collide(opened: StoreUnderTest) -> None:
    store = opened.open()
    ids = [
        "a/b",
        "a_b",
        "a%2fb",
        "A",
        "a",
        ".",
        "..",
        "ä",
        "a b",
        "'; --",
        "x" * 500,
        "x" * 499 + "y",
        "%",
        "_",
        "a\nb",
    ]
    for number, name in enumerate(ids, 1):
        await store.create(LogInfo(run_log(name), str(number)), rows(number))
    for number, name in enumerate(ids, 1):
        info = await store.find(run_log(name))
        assert info is not None
        assert (info.id, info.agent, info.count) == (name, str(number), number)
        assert len(await store.read(run_log(name))) == number
    assert {info.id for info in await store.logs("run:")} == set(ids)


async def a_damaged_log_is_set_apart(opened: StoreUnderTest) -> None:
    store, log, other = opened.open(), run_log("r"), run_log("s")
    epoch = await store.create(LogInfo(log), rows(1))
    fine = await store.create(LogInfo(other), rows(1))
    await store.quarantine(log, "entry 1 is damaged")
    info = await store.find(log)
    assert info is not None
    assert (info.status, info.problem) == ("Quarantined", "entry 1 is damaged")
    await refused(store.append(log, epoch, rows(1, 1)), LeaseLost)
    await store.append(other, fine, rows(1, 1))


async def logs_are_removed(opened: StoreUnderTest) -> None:
    store = opened.open()
    for name, status in (("done", "Completed"), ("open", "Suspended"), ("gone", "Completed")):
        epoch = await store.create(LogInfo(run_log(name)), rows(1, status=status), {"aa": b"x"})
        await store.release(run_log(name), epoch)
    busy = await store.create(LogInfo(run_log("busy")), rows(1, status="Completed"))
    await store.create(LogInfo(session_log("s")), rows(1))
    assert await store.delete(run_log("gone"))
    assert not await store.delete(run_log("gone"))
    assert await store.find(run_log("gone")) is None
    assert await store.read(run_log("gone")) == []
    assert await store.blob(run_log("gone"), "aa") is None
    assert await store.vacuum(LONG_AGO - 1) == 0
    assert await store.vacuum(LATER) == 1
    assert {info.log for info in await store.logs()} == {run_log("open"), run_log("busy"), session_log("s")}
    await store.append(run_log("busy"), busy, rows(1, 1), release=True)
    assert await store.vacuum(LATER, unfinished=True) == 2
    assert [info.log for info in await store.logs()] == [session_log("s")]
    again = await store.create(LogInfo(run_log("gone")), rows(1))
    await store.append(run_log("gone"), again, rows(1, 1))


async def what_was_acknowledged_is_remembered(opened: StoreUnderTest) -> None:
    """Check that the last acknowledged rows are known to every process until their log is deleted, if to any."""
    store, log, other = opened.open(), run_log("r"), run_log("s")
    if not implements(store, SupportsLogMarks):
        return
    epoch = await store.create(LogInfo(log), rows(2))
    await store.create(LogInfo(other), rows(1))
    await store.append(log, epoch, rows(3, 2, rows(2)[-1].digest))
    again = opened.open()
    assert implements(again, SupportsLogMarks)
    for each in (store, again):
        for name, last in ((log, rows(5)[-1]), (other, rows(1)[-1])):
            mark = await acknowledged_in(each, name)
            assert mark is not None
            assert mark.fits(last)
            assert not LogMark(last.number + 1, mark.check).fits(last)
        assert await acknowledged_in(each, run_log("none")) is None
    await store.delete(log)
    assert await acknowledged_in(again, log) is None
    await store.create(LogInfo(log), rows(1))
    mark = await acknowledged_in(again, log)
    assert mark is not None
    assert mark.number == 1


async def many_write_at_once(opened: StoreUnderTest) -> None:
    store = opened.open()

    async def write(name: str) -> None:
        log, before = run_log(name), ""
        epoch = await store.create(LogInfo(log))
        for number in range(8):
            batch = rows(2, 2 * number, before)
            before = batch[-1].digest
            await store.append(log, epoch, batch)

    await asyncio.gather(*(write(str(number)) for number in range(10)))
    for number in range(10):
        assert await store.read(run_log(str(number))) == rows(16)


async def one_that_is_refused_does_no_harm_to_others(opened: StoreUnderTest) -> None:
    """Check that a refused write does not affect others, even in one transaction."""
    store, other = opened.open(), opened.open()
    good = await store.create(LogInfo(run_log("good")), rows(1))
    bad = await store.create(LogInfo(run_log("bad")), rows(1))
    await store.release(run_log("bad"), bad)
    await other.lease(run_log("bad"))
    went = await asyncio.gather(
        store.append(run_log("good"), good, rows(1, 1)),
        store.append(run_log("bad"), bad, rows(1, 1)),
        store.append(run_log("good"), good, rows(1, 2)),
        return_exceptions=True,
    )
    assert [type(each) for each in went] == [type(None), LeaseLost, type(None)]
    assert len(await store.read(run_log("good"))) == 3
    assert len(await store.read(run_log("bad"))) == 1


async def a_closed_store_gives_back_its_leases_and_refuses(opened: StoreUnderTest) -> None:
    """Check that a closed store refuses writes, and that its data and leases are available to others."""
    store, log = opened.open(), run_log("r")
    epoch = await store.create(LogInfo(log), rows(1))
    await store.append(log, epoch, rows(1, 1))
    await store.close()
    try:
        await store.append(log, epoch, rows(1, 2))
    except StoreError:
        pass
    else:
        raise AssertionError("a closed store must refuse")
    other = opened.open()
    assert len(await other.read(log)) == 2
    assert await other.lease(log) > epoch


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


async def what_is_posted_is_bounded(opened: StoreUnderTest) -> None:
    store, log = opened.open(), run_log("r")
    await store.create(LogInfo(log), rows(1))
    posts = [store.post(log, key, bytes(size)) for key, size in (("a", 1), ("b", MAX_ITEM_BYTES), ("c", 1))]
    went = await asyncio.gather(*posts, return_exceptions=True)
    assert [True if each is True else type(each) for each in went] == [True, MailboxFull, True]
    assert [(item.number, item.key) for item in await opened.open().inbox(log)] == [(1, "a"), (2, "c")]


async def _submit(store: Store, name: str, **header: Any) -> None:
    """Create a log of one row that nobody has the lease of."""
    log = run_log(name)
    info = LogInfo(log, **{"agent": "desk", "due": 0.0, **header})
    await store.release(log, await store.create(info, rows(1)))


async def _claims(store: Store, limit: int = 1, agent: str = "desk") -> list[Claim]:
    return await cast("Queue", store).claim(agent, limit)


async def _claimed(store: Store, limit: int = 1, agent: str = "desk") -> list[str]:
    return [claim.log.removeprefix("run:") for claim in await _claims(store, limit, agent)]


async def what_is_due_is_claimed_in_order(opened: StoreUnderTest) -> None:
    """Check the order: priority, then how long it has been due; and that only one agent's logs are claimed, once."""
    store, now = opened.open(), opened.clock.now()
    await _submit(store, "low", priority=-1, due=now - 9)
    await _submit(store, "later", due=now + 20)
    await _submit(store, "late", due=now - 1)
    await _submit(store, "early", due=now - 2)
    await _submit(store, "high", priority=5)
    await _submit(store, "other", agent="clerk")
    await _submit(store, "never", due=None)
    info = await store.find(run_log("later"))
    assert info is not None
    assert (info.due, info.priority, info.status) == (now + 20, 0, "running")
    assert await _claimed(opened.open(), 2) == ["high", "early"]
    assert await _claimed(store, 9) == ["late", "low"]
    assert await _claimed(opened.open(), 9) == []
    await opened.clock.advance(20)
    assert await _claimed(opened.open(), 9) == ["later"]
    assert await _claimed(store, 9, "clerk") == ["other"]


async def a_claim_is_a_lease(opened: StoreUnderTest) -> None:
    """Check that who has claimed a log writes it, and that it is due again as the last row says."""
    store, other, log = opened.open(), opened.open(), run_log("r")
    await _submit(store, "r")
    (claim,) = await _claims(store, 5)
    assert (claim.log, claim.lost) == (log, False)
    await refused(other.append(log, claim.epoch - 1, rows(1, 1)), LeaseLost)
    await store.append(log, claim.epoch, rows(1, 1), due=0.0)
    now = opened.clock.now()
    await store.append(log, claim.epoch, rows(1, 2, status="Suspended"), release=True, due=now + 20)
    assert await _claimed(other) == []
    await opened.clock.advance(20)
    (again,) = await _claims(other)
    assert again.epoch > claim.epoch
    await other.append(log, again.epoch, rows(1, 3), due=0.0)
    await other.release(log, again.epoch)
    (third,) = await _claims(store)
    await store.append(log, third.epoch, rows(1, 4, status="Completed"), release=True)
    assert await _claimed(other) == []
    info = await other.find(log)
    assert info is not None
    assert (info.due, info.status, info.owner) == (None, "Completed", "")


async def a_lost_log_is_claimed(opened: StoreUnderTest) -> None:
    """Check that a log whose lease has expired is due, and that it is known that its writer was lost."""
    one, other, log = opened.open(HandClock()), opened.open(), run_log("r")
    epoch = await one.create(LogInfo(log, "desk", due=0.0), rows(1))
    await one.create(LogInfo(run_log("waits"), "desk", due=opened.clock.now() + 200_000), rows(1))
    await one.create(LogInfo(run_log("session")), rows(1))
    assert await _claims(other) == []
    await opened.clock.advance(100_000)  # the clock of `other`; that of `one` stands still
    (claim,) = await _claims(other, 5)
    assert (claim.log, claim.lost) == (log, True)
    await refused(one.append(log, epoch, rows(1, 1)), LeaseLost)
    assert await _claims(other) == []


async def each_log_is_claimed_by_one(opened: StoreUnderTest) -> None:
    stores = [opened.open() for _ in range(3)]
    await asyncio.gather(*(_submit(stores[0], str(number)) for number in range(12)))
    ids: list[str] = []
    for _ in range(12):
        for names in await asyncio.gather(*(_claimed(store, 2) for store in stores)):
            ids += names
    assert sorted(ids) == sorted(str(number) for number in range(12))


async def a_damaged_log_is_not_due(opened: StoreUnderTest) -> None:
    store = opened.open()
    await _submit(store, "damaged")
    await _submit(store, "gone")
    await store.quarantine(run_log("damaged"), "a test")
    await store.delete(run_log("gone"))
    assert await _claimed(store, 5) == []


async def what_is_posted_wakes_who_waits(opened: StoreUnderTest) -> None:
    """Check that an item makes a suspended log due, also one that its writer has not seen, and no other log."""
    store, other, log = opened.open(), opened.open(), run_log("r")
    epoch = await store.create(LogInfo(log, "desk", due=0.0), rows(1))
    await other.post(log, "early", b"")
    await store.append(log, epoch, rows(1, 1, status="Suspended"), release=True, read=0)
    (claim,) = await _claims(other)
    await other.append(log, claim.epoch, rows(1, 2), due=0.0)
    later = opened.clock.now() + 20
    await other.append(log, claim.epoch, rows(1, 3, status="Suspended"), release=True, due=later, read=1)
    assert await _claims(store) == []
    assert await store.post(log, "late", b"")
    (claim,) = await _claims(store)
    await store.append(log, claim.epoch, rows(1, 4, status="Completed"), release=True)
    await other.post(log, "too late", b"")
    assert await _claims(store) == []


async def a_wait_for_signals_ends(opened: StoreUnderTest) -> None:
    store, other = opened.open(), opened.open()
    seen = await cast("Queue", store).woken(0, 0.01)
    await _submit(other, "r")
    await asyncio.wait_for(cast("Queue", store).woken(seen, 20.0), 10.0)
    assert await _claimed(store) == ["r"]


QUEUE_CHECKS = (
    what_is_due_is_claimed_in_order,
    a_claim_is_a_lease,
    a_lost_log_is_claimed,
    each_log_is_claimed_by_one,
    a_damaged_log_is_not_due,
    what_is_posted_wakes_who_waits,
    a_wait_for_signals_ends,
)


CHECKS: tuple[Check, ...] = (
    rows_come_back_as_they_were_written,
    a_name_is_taken_once,
    rows_must_follow,
    one_writes_at_a_time,
    a_lease_runs_out,
    a_lease_taken_again_by_its_holder_ends_the_former,
    large_values_stand_beside_their_log,
    logs_are_listed,
    those_that_ask_are_listed_in_order,
    names_do_not_collide,
    a_damaged_log_is_set_apart,
    logs_are_removed,
    what_was_acknowledged_is_remembered,
    many_write_at_once,
    one_that_is_refused_does_no_harm_to_others,
    a_closed_store_gives_back_its_leases_and_refuses,
    items_are_posted_once_and_in_order,
    what_is_posted_is_bounded,
    *QUEUE_CHECKS,
)
"""The checks that a store of your own must pass, each with `run_check`; some are of its queue."""

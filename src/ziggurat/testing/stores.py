"""Conformance checks for stores of logs, for those who write their own.

::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_store(check: Check, tmp_path: Path) -> None:
        run_check(check, lambda clock: MyStore(tmp_path, clock=clock))

Each call of the factory opens the same data again, as another process would.
"""

import asyncio

from ziggurat.core.errors import LeaseHeld, LeaseLost, RunExists, RunNotFound, StoreError
from ziggurat.core.protocols import implements
from ziggurat.core.store import (
    LogInfo,
    LogMark,
    SupportsLogMarks,
    acknowledged_in,
    run_log,
    session_log,
)
from ziggurat.testing.clock import HandClock
from ziggurat.testing.queue import QUEUE_CHECKS
from ziggurat.testing.under_test import Check, StoreUnderTest, refused, rows

LONG_AGO, LATER = 1.0, 10_000_000_000.0


async def rows_come_back_as_they_were_written(opened: StoreUnderTest) -> None:
    """Check that rows are read in order, completely, from any number on, in this process and in another."""
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
    """Check that a log cannot be created twice, also not by another process."""
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
    """Check that bytes of any kind are found by digest and log."""
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
    """Check that logs are listed by kind, agent, status and labels, the latest first."""
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


async def names_do_not_collide(opened: StoreUnderTest) -> None:
    """Check that every id names its own log, whatever characters it contains."""
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
    """Check that a quarantined log has its status, that its writer is refused, and that other logs are not affected."""
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
    """Check that a log is deleted by name, and that old finished ones are removed by age."""
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
    """Check that each log keeps its own order during concurrent writes."""
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


CHECKS: tuple[Check, ...] = (
    rows_come_back_as_they_were_written,
    a_name_is_taken_once,
    rows_must_follow,
    one_writes_at_a_time,
    a_lease_runs_out,
    a_lease_taken_again_by_its_holder_ends_the_former,
    large_values_stand_beside_their_log,
    logs_are_listed,
    names_do_not_collide,
    a_damaged_log_is_set_apart,
    logs_are_removed,
    what_was_acknowledged_is_remembered,
    many_write_at_once,
    one_that_is_refused_does_no_harm_to_others,
    a_closed_store_gives_back_its_leases_and_refuses,
    *QUEUE_CHECKS,
)
"""All checks."""

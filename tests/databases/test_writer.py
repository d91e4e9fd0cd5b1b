"""Tests of the writer thread: jobs that arrive while it writes form a batch, and each gets its own outcome."""

import asyncio
import threading
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from tests.samples import amount
from ziggurat.databases.writer import Job, Writer, is_busy
from ziggurat.errors import StoreError


class Written:
    """A writer whose thread waits at a gate, and the batches it ran."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.batches: list[list[str]] = []
        self.ended = False
        self.idled = 0
        self.writer = Writer("test", self._together, self._idle, 0.01, self._end)

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        self.begun.set()
        self.gate.wait()
        self.batches.append([job.log for job in jobs])
        for job in jobs:
            job.do()

    def _idle(self) -> None:
        self.idled += 1
        raise StoreError("a lease could not be renewed")

    def _end(self) -> None:
        self.ended = True


def _fail() -> str:
    raise StoreError("no room")


async def test_what_comes_while_it_writes_is_written_together_next_and_reading_stands_alone() -> None:
    written = Written()
    submit = written.writer.submit
    first = submit(lambda: 1, "a")
    await asyncio.to_thread(written.begun.wait)
    later = [submit(lambda: 2, "b"), submit(lambda: 3, "c"), submit(lambda: 4), submit(lambda: 5, "d")]
    await asyncio.sleep(0)
    assert is_busy(asyncio.get_running_loop())
    written.gate.set()
    assert await asyncio.gather(first, *later) == [1, 2, 3, 4, 5]
    assert not is_busy(asyncio.get_running_loop())
    assert written.batches == [["a"], ["b", "c"], ["d"]]
    written.writer.close()
    assert written.ended


async def test_a_failure_is_told_to_its_own_job_and_one_that_was_cancelled_is_done_all_the_same() -> None:
    written = Written()
    done: list[str] = []
    submit = written.writer.submit
    cancelled, failing = submit(lambda: done.append("cancelled"), "a"), submit(_fail, "b")
    good = submit(lambda: "good", "c")
    await asyncio.sleep(0)
    cancelled.cancel()
    written.gate.set()
    with pytest.raises(StoreError, match="no room"):
        await failing
    assert await good == "good"
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert done == ["cancelled"]
    written.writer.close()


def test_an_event_loop_that_ended_meanwhile_stops_nothing() -> None:
    written = Written()

    async def leave() -> None:
        written.writer.submit(lambda: "never heard", "a")
        await asyncio.sleep(0)

    async def after() -> str:
        return await written.writer.submit(lambda: "heard", "b")

    asyncio.run(leave())
    written.gate.set()
    assert asyncio.run(after()) == "heard"
    written.writer.close()


async def test_closed_it_does_what_was_given_and_refuses_the_rest() -> None:
    written = Written()
    written.gate.set()
    given = written.writer.submit(lambda: "given", "a")
    written.writer.close()
    written.writer.close()
    assert await given == "given"
    with pytest.raises(StoreError, match="is closed"):
        written.writer.submit(lambda: 0, "b")
    assert written.ended


async def test_what_goes_wrong_between_jobs_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    written = Written()
    written.gate.set()
    await written.writer.submit(lambda: 0, "a")
    assert await written.writer.submit(lambda: "still there", "b") == "still there"
    written.writer.close()
    assert written.idled
    assert "could not be renewed" in caplog.text


class AtOnce:
    """A writer that runs small jobs at once unless told not to, and the thread of each job."""

    def __init__(self) -> None:
        self.refuses = False
        self.interrupted = False
        self.rested = threading.Event()
        self.done: list[tuple[bool, list[str]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.writer = Writer("test", self._together, self.rested.set, 1000.0, lambda: None, self._at_once)

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        self.rested.clear()
        self.begun.set()
        self.gate.wait()
        self.done.append((False, [job.log for job in jobs]))
        for job in jobs:
            job.do()

    def _at_once(self, jobs: Sequence[Job[Any]]) -> bool:
        if self.interrupted:
            raise KeyboardInterrupt
        if not self.refuses:
            self.done.append((True, [job.log for job in jobs]))
            for job in jobs:
                job.do()
        return not self.refuses

    def rest(self) -> None:
        """Wait until the thread, which has reported its last job, waits for the next."""
        self.rested.wait()
        with self.writer._working:  # it holds that while it sees to what it does between jobs
            pass

    def submit(self, log: str, *, small: bool = True) -> "asyncio.Future[str]":
        return self.writer.submit(lambda: log, log, small=small)


async def test_small_jobs_of_one_task_are_done_as_they_come_and_those_of_others_together() -> None:
    here = AtOnce()

    async def other(log: str) -> None:
        await here.submit(log)

    first, second = here.submit("a"), here.submit("b")
    assert first.done()
    assert second.done()
    async with asyncio.TaskGroup() as tasks:
        for log in "cde":
            tasks.create_task(other(log))
    assert not is_busy(asyncio.get_running_loop())
    here.writer.close()
    assert here.done == [(True, ["a"]), (True, ["b"]), (True, ["c"]), (True, ["d", "e"])]


@pytest.mark.parametrize("count", [1, 8, 9, 24, 40])
async def test_a_task_submits_a_few_jobs_at_once_before_others_have_a_turn(count: int) -> None:
    here = AtOnce()
    jobs = [here.submit(str(number)) for number in range(count)]
    assert [job.done() for job in jobs] == [number < 8 for number in range(count)]
    await asyncio.gather(*jobs)
    assert not is_busy(asyncio.get_running_loop())
    here.writer.close()
    rest = [str(number) for number in range(8, count)]
    assert here.done[: min(8, count)] == [(True, [str(number)]) for number in range(min(8, count))]
    assert here.done[8:] == ([(len(rest) <= 16, rest)] if rest else [])


async def test_a_task_that_waits_for_each_job_lets_others_have_a_turn() -> None:
    here = AtOnce()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for number in range(80):
        assert await here.submit(str(number)) == str(number)
    counting.cancel()
    here.writer.close()
    assert turns >= 80 // 8 - 1


async def test_what_is_large_or_refused_or_comes_after_what_is_under_way_is_done_in_the_thread() -> None:
    here = AtOnce()
    here.gate.clear()
    large = here.submit("large", small=False)
    await asyncio.sleep(0)
    after = here.submit("after")
    assert not after.done()
    here.gate.set()
    assert list(await asyncio.gather(large, after)) == ["large", "after"]
    here.rest()
    here.refuses = True
    assert await here.submit("refused") == "refused"
    here.refuses = False
    here.rest()
    assert here.submit("again").done()
    here.writer.close()
    done = [(at_once, log) for at_once, logs in here.done for log in logs]
    assert done == [(False, "large"), (False, "after"), (False, "refused"), (True, "again")]


async def test_while_another_event_loop_keeps_the_thread_at_work_nobody_waits_for_it_here() -> None:
    here = AtOnce()

    async def large() -> str:
        return await here.submit("large", small=False)

    here.gate.clear()
    elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, large()))
    await asyncio.to_thread(here.begun.wait)
    waiting = here.submit("small")
    await asyncio.sleep(0)
    assert not waiting.done()
    here.gate.set()
    assert (await elsewhere, await waiting) == ("large", "small")
    here.writer.close()
    assert here.done == [(False, ["large"]), (False, ["small"])]


async def test_an_interrupt_of_what_is_done_at_once_leaves_nobody_waiting() -> None:
    here = AtOnce()
    waiting: list[asyncio.Future[str]] = []
    loop = asyncio.get_running_loop()
    for _ in range(8):
        here.submit("first")
    waiting.append(here.submit("second"))
    here.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        here.writer._hand_over(loop)
    assert waiting[0].cancelled()
    assert not is_busy(loop)
    here.interrupted = False
    await asyncio.sleep(0)
    assert here.submit("third").done()
    here.writer.close()


def test_what_another_thread_gives_while_it_is_closed_is_done_or_refused_and_never_lost() -> None:
    written = Written()
    written.gate.set()
    given, closed = threading.Event(), threading.Event()
    told: list[object] = []

    async def other() -> None:
        job = written.writer.submit(lambda: "done", "a")
        given.set()
        closed.wait()  # its event loop comes to hand it over only when all is over
        told.extend(await asyncio.gather(job, return_exceptions=True))
        assert not is_busy(asyncio.get_running_loop())

    thread = threading.Thread(target=asyncio.run, args=(other(),))
    thread.start()
    given.wait()
    written.writer.close()
    closed.set()
    thread.join()
    assert isinstance(told[0], StoreError)
    assert written.ended


def test_threads_that_give_while_it_is_closed_all_hear_what_became_of_it() -> None:
    for _ in range(amount(10, 100)):
        here = AtOnce()
        outcomes: list[object] = []
        many = threading.Event()

        async def give(submit: Any = here.submit, outcomes: list[object] = outcomes, many: Any = many) -> None:
            jobs: list[asyncio.Future[str]] = []
            try:
                for number in count():  # until it is closed
                    jobs.append(submit(str(number), small=number % 3 != 0))
                    if number == 3:
                        many.set()
                    await asyncio.sleep(0)
            except StoreError:
                outcomes.extend(await asyncio.gather(*jobs, return_exceptions=True))

        thread = threading.Thread(target=asyncio.run, args=(give(),))
        thread.start()
        many.wait()
        here.writer.close()
        thread.join()
        done = {log for _, logs in here.done for log in logs}
        assert {str(each) for each in outcomes if not isinstance(each, StoreError)} == done


async def test_closed_before_it_was_used_it_leaves_no_thread() -> None:
    written = Written()
    written.writer.close()
    with pytest.raises(StoreError, match="is closed"):
        written.writer.submit(lambda: 0, "a")
    assert written.writer._thread is None


async def test_an_interrupt_as_soon_as_the_lock_is_held_does_not_keep_it() -> None:
    here = AtOnce()

    class Interrupted:
        """A lock whose first acquisition raises an interrupt."""

        def __init__(self, lock: Any) -> None:
            self.lock = lock

        def acquire(self, *, blocking: bool) -> bool:
            here.writer._working = self.lock
            self.lock.acquire(blocking=blocking)
            raise KeyboardInterrupt

    here.writer._working = Interrupted(here.writer._working)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        here.submit("first")
    assert await here.submit("second", small=False) == "second"
    here.writer.close()

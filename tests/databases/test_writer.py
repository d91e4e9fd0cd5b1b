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
    await written.writer.finish()
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
    await written.writer.finish()


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
    asyncio.run(written.writer.finish())


async def test_closed_it_does_what_was_given_and_refuses_the_rest() -> None:
    written = Written()
    written.gate.set()
    given = written.writer.submit(lambda: "given", "a")
    await written.writer.finish()
    await written.writer.finish()
    assert await given == "given"
    with pytest.raises(StoreError, match="is closed"):
        written.writer.submit(lambda: 0, "b")
    assert written.ended


async def test_what_goes_wrong_between_jobs_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    written = Written()
    written.gate.set()
    await written.writer.submit(lambda: 0, "a")
    assert await written.writer.submit(lambda: "still there", "b") == "still there"
    await written.writer.finish()
    assert written.idled
    assert "could not be renewed" in caplog.text


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
    asyncio.run(written.writer.finish())
    closed.set()
    thread.join()
    assert isinstance(told[0], StoreError)
    assert written.ended


def test_threads_that_give_while_it_is_closed_all_hear_what_became_of_it() -> None:
    for _ in range(amount(10, 100)):
        written = Written()
        written.gate.set()
        outcomes: list[object] = []
        many = threading.Event()

        async def give(
            submit: Any = written.writer.submit, outcomes: list[object] = outcomes, many: Any = many
        ) -> None:
            jobs: list[asyncio.Future[str]] = []
            try:
                for number in count():  # until it is closed
                    jobs.append(submit(lambda: None, str(number)))
                    if number == 3:
                        many.set()
                    await asyncio.sleep(0)
            except StoreError:
                outcomes.extend(await asyncio.gather(*jobs, return_exceptions=True))

        thread = threading.Thread(target=asyncio.run, args=(give(),))
        thread.start()
        many.wait()
        asyncio.run(written.writer.finish())
        thread.join()
        done = [log for logs in written.batches for log in logs]
        assert len(done) == sum(each is None for each in outcomes)


async def test_closed_before_it_was_used_it_leaves_no_thread() -> None:
    written = Written()
    await written.writer.finish()
    with pytest.raises(StoreError, match="is closed"):
        written.writer.submit(lambda: 0, "a")
    assert written.writer._thread is None

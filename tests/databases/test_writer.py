"""The thread of a store: what comes while it writes goes together, and each job hears how it went itself."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ziggurat.core.errors import StoreError
from ziggurat.databases.writer import Job, Writer, is_busy


class Written:
    """A writer whose thread waits at a gate, and what it did together."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.batches: list[list[str]] = []
        self.ended = False
        self.idled = 0
        self.writer = Writer("test", self._together, self._idle, 0.01, self._end)

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        self.begun.set()
        self.gate.wait(10)
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


def test_what_comes_while_it_writes_is_written_together_next_and_reading_stands_alone() -> None:
    written = Written()

    async def main() -> list[object]:
        submit = written.writer.submit
        first = submit(lambda: 1, "a")
        await asyncio.to_thread(written.begun.wait, 10)
        later = [submit(lambda: 2, "b"), submit(lambda: 3, "c"), submit(lambda: 4), submit(lambda: 5, "d")]
        await asyncio.sleep(0)
        assert is_busy(asyncio.get_running_loop())
        written.gate.set()
        outcome = await asyncio.gather(first, *later)
        assert not is_busy(asyncio.get_running_loop())
        return list(outcome)

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]
    assert written.batches == [["a"], ["b", "c"], ["d"]]
    written.writer.close()
    assert written.ended


def test_a_failure_is_told_to_its_own_job_and_one_that_was_cancelled_is_done_all_the_same() -> None:
    written = Written()
    done: list[str] = []

    async def main() -> None:
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

    asyncio.run(main())
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


def test_closed_it_does_what_was_given_and_refuses_the_rest() -> None:
    written = Written()
    written.gate.set()

    async def main() -> None:
        given = written.writer.submit(lambda: "given", "a")
        written.writer.close()
        written.writer.close()
        assert await given == "given"
        with pytest.raises(StoreError, match="is closed"):
            written.writer.submit(lambda: 0, "b")

    asyncio.run(main())
    assert written.ended


def test_what_goes_wrong_between_jobs_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    written = Written()
    written.gate.set()

    async def main() -> str:
        await written.writer.submit(lambda: 0, "a")
        return await written.writer.submit(lambda: "still there", "b")

    assert asyncio.run(main()) == "still there"
    written.writer.close()
    assert written.idled
    assert "could not be renewed" in caplog.text

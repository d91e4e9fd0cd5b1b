"""Work that is completed despite cancellation."""

import asyncio

import pytest

from ziggurat.core.tasks import finished


async def test_the_end_is_awaited_however_often_one_is_told_to_stop() -> None:
    ended: list[str] = []

    async def work(gate: asyncio.Event, fails: bool) -> int:
        await gate.wait()
        ended.append("done")
        if fails:
            raise ValueError("on purpose")
        return 3

    for fails in (False, True):
        gate = asyncio.Event()
        task = asyncio.get_running_loop().create_task(finished(work(gate, fails)))
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended == ["done", "done"]


async def test_without_a_word_it_is_as_awaited() -> None:
    async def answer() -> int:
        return 3

    async def fail() -> int:
        raise ValueError("on purpose")

    assert await finished(answer()) == 3
    with pytest.raises(ValueError, match="on purpose"):
        await finished(fail())

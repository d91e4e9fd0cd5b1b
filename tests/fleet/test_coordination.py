import asyncio
from contextlib import suppress

import pytest

from ziggurat.fleet.coordination import check_cancelled


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_cancellation_that_was_lost_is_raised_again(cancelled: bool) -> None:
    begun, passed = asyncio.Event(), False

    async def work() -> None:
        nonlocal passed
        begun.set()
        with suppress(asyncio.CancelledError):  # as `asyncio.wait_for` may do on Python 3.11
            await asyncio.sleep(0)
        check_cancelled()
        passed = True

    task = asyncio.create_task(work())
    await begun.wait()
    if cancelled:
        task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), passed) == (cancelled, not cancelled)

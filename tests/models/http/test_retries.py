"""The retry header, and that abandoned calls leave nothing behind."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.models.http.support import Asked, model_at, request, serving
from tests.samples import amount
from tests.turns import until
from ziggurat import stack
from ziggurat.core import root
from ziggurat.layers import retry

OPEN_FILES = Path("/proc/self/fd")


@pytest.mark.parametrize(
    ("headers", "told"),
    [({}, [None, "1", "2"]), ({"X-Retry-Count": "7"}, ["7", "7", "7"]), ({"x-retry-count": ""}, [None, None, None])],
    ids=["sent", "overridden", "omitted"],
)
async def test_the_server_is_told_how_many_tries_were_made(headers: Mapping[str, str], told: list[str | None]) -> None:
    seen: list[str | None] = []

    async def answer(asked: Asked) -> None:
        lines = dict(line.split(": ", 1) for line in asked.head.lower().splitlines() if ": " in line)
        seen.append(lines.get("x-retry-count"))
        if asked.number < 3:
            await asked.reply(b"busy", "503 Service Unavailable")
        else:
            await asked.reply(b'{"say": "Hello"}')

    async with serving(answer) as server:
        model = stack(model_at(server.url, headers=headers), retry(attempts=3, base=0))
        await model(request(), root())
    assert seen == told


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="open files are counted on Linux")
async def test_many_calls_that_are_given_up_leave_nothing_behind() -> None:
    async def hang(asked: Asked) -> None:
        await asked.hang()

    async def given_up(model: object, turns: int) -> None:
        call = asyncio.ensure_future(model(request(), root()))  # type: ignore[operator]
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    async with serving(hang) as server:
        model = model_at(server.url)
        await given_up(model, 8)
        before = len(os.listdir(OPEN_FILES))
        for batch in range(amount(4, 100)):
            await asyncio.gather(*(given_up(model, (batch + number) % 12) for number in range(100)))
        await model.close()
        await until(lambda: server.now_open == 0)
        await until(lambda: len(os.listdir(OPEN_FILES)) <= before)
        await until(lambda: len(asyncio.all_tasks()) <= 2)  # this one and the server's own

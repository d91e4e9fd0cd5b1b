"""Timers of the system clock: they refer to nothing of the call that set them, and belong to one event loop."""

import asyncio
import time
from contextvars import ContextVar
from operator import itemgetter
from weakref import ref

from ziggurat.core.clock import SYSTEM_CLOCK

NUMBER = ContextVar("NUMBER", default=0)


async def test_a_timer_does_not_refer_to_the_call_that_set_it() -> None:
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    NUMBER.set(7)
    SYSTEM_CLOCK.call_at(time.monotonic(), lambda: done.set_result(NUMBER.get()))
    assert await done == 0


async def test_a_timer_that_is_overdue_when_it_is_set_lets_others_go_first() -> None:
    turns: list[str] = []
    done = asyncio.Event()

    def again() -> None:
        turns.append("timer")
        if len(turns) < 20:
            SYSTEM_CLOCK.call_at(0, again)
            asyncio.get_running_loop().call_soon(turns.append, "other")
        else:
            done.set()

    SYSTEM_CLOCK.call_at(0, again)
    await done.wait()
    assert turns == ["timer", "other"] * 10 + ["timer"]


def test_each_event_loop_has_timers_of_its_own() -> None:
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    rung: list[tuple[int, asyncio.AbstractEventLoop]] = []

    async def rings(number: int, *, waits: bool) -> None:
        done = asyncio.Event()
        SYSTEM_CLOCK.call_at(time.monotonic(), lambda: rung.append((number, asyncio.get_running_loop())))
        SYSTEM_CLOCK.call_at(time.monotonic(), done.set)
        if waits:
            await done.wait()

    first.run_until_complete(rings(1, waits=False))
    second.run_until_complete(rings(2, waits=True))
    first.run_until_complete(rings(3, waits=True))
    first.close()
    second.close()
    assert sorted(rung, key=itemgetter(0)) == [(1, first), (2, second), (3, first)]


def test_an_event_loop_that_is_closed_leaves_none_of_its_timers() -> None:
    class Connection:
        def close(self) -> None: ...

    async def main() -> "ref[Connection]":
        connection = Connection()
        SYSTEM_CLOCK.call_at(time.monotonic() + 60, connection.close)
        return ref(connection)

    assert asyncio.run(main())() is None

"""Threads for tools: reused, bounded, written off when they hang."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from ziggurat.core.errors import ToolError
from ziggurat.tools.threads import ThreadCall, ThreadPool, ThreadRaised, loop_of_this_thread

HERE: contextvars.ContextVar[str] = contextvars.ContextVar("here", default="nowhere")


async def _until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until threads have come so far."""
    for _ in range(1_000_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the threads did not come so far")


def test_calls_run_in_threads_in_the_callers_context() -> None:
    async def go() -> None:
        pool = ThreadPool(2)
        HERE.set("there")
        assert await pool.submit(HERE.get) == "there"
        assert await pool.submit(threading.current_thread) is not threading.current_thread()
        assert await pool.submit(loop_of_this_thread) is asyncio.get_running_loop()

    asyncio.run(go())
    assert loop_of_this_thread() is None


def test_a_thread_is_reused() -> None:
    async def go() -> set[int]:
        pool, seen = ThreadPool(4), set()
        for _ in range(20):
            seen.add(await pool.submit(threading.get_ident))
            await _until(lambda: pool._busy == 0)
        return seen

    assert len(asyncio.run(go())) == 1


def test_no_more_than_its_size_run_at_once() -> None:
    async def go() -> None:
        pool, gate, running = ThreadPool(3), threading.Event(), []

        def work() -> None:
            running.append(1)
            gate.wait(30)
            running.pop()

        jobs = [pool.submit(work) for _ in range(10)]
        await _until(lambda: len(running) == 3)
        assert len(running) == 3
        gate.set()
        await asyncio.gather(*jobs)

    asyncio.run(go())


def test_a_thread_that_was_written_off_is_replaced_and_too_many_are_refused() -> None:
    async def go() -> None:
        pool, gate = ThreadPool(2), threading.Event()
        hanging = [pool.submit(lambda: gate.wait(30)) for _ in range(2)]
        pool.write_off()
        assert await pool.submit(lambda: "served") == "served", "one thread has taken its place"
        pool.write_off()
        with pytest.raises(ToolError, match="2 tool threads hang") as caught:
            pool.submit(lambda: "never")
        assert caught.value.transient
        gate.set()
        await asyncio.gather(*hanging)
        pool.return_write_off()
        pool.return_write_off()
        assert await pool.submit(lambda: "again") == "again"

    asyncio.run(go())


def test_a_thread_that_waits_for_another_run_frees_its_place() -> None:
    async def go() -> None:
        pool, gate = ThreadPool(1), threading.Event()

        def outer() -> str:
            with pool.away():
                gate.wait(30)
            return "outer"

        waiting = pool.submit(outer)
        await _until(lambda: pool._away == 1)
        assert await pool.submit(lambda: "inner") == "inner"
        gate.set()
        assert await waiting == "outer"

    asyncio.run(go())


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), StopIteration(), GeneratorExit()])
def test_what_a_future_cannot_hold_is_carried(error: BaseException) -> None:
    def work() -> None:
        raise error

    async def go() -> None:
        with pytest.raises(ThreadRaised) as caught:
            await ThreadPool(1).submit(work)
        assert caught.value.error is error

    asyncio.run(go())


def test_an_answer_after_the_loop_was_closed_is_dropped() -> None:
    pool, gate = ThreadPool(1), threading.Event()

    async def go() -> None:
        pool.submit(lambda: gate.wait(30))

    asyncio.run(go())
    gate.set()

    async def later() -> str:
        return await pool.submit(lambda: "well")

    assert asyncio.run(later()) == "well"


def test_a_tool_that_hangs_does_not_hold_the_process() -> None:
    code = """
import asyncio, threading
from ziggurat.tools.threads import POOL
async def main():
    POOL.submit(threading.Event().wait)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=30, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_call_that_is_given_up_gives_up_what_it_waits_for() -> None:
    log: list[str] = []

    async def inner() -> None:
        log.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            log.append("ended")

    async def go(early: bool) -> None:
        pool, call, loop = ThreadPool(1), ThreadCall(), asyncio.get_running_loop()
        if early:
            call.give_up()
        future = pool.submit(lambda: pool.run_on(loop, inner), call)
        if not early:
            await _until(lambda: bool(log))
            waited_for = call.give_up()
            assert waited_for is not None
            await asyncio.wait([waited_for])
        with pytest.raises(ThreadRaised) as caught:
            await future
        assert isinstance(caught.value.error, asyncio.CancelledError)
        assert call.give_up() is None

    asyncio.run(go(early=False))
    assert log == ["begun", "ended"]
    asyncio.run(go(early=True))
    assert log == ["begun", "ended"], "what was given up before it began never begins"


def test_an_idle_thread_keeps_nothing_of_the_call_it_made() -> None:
    class Held:
        pass

    async def main(pool: ThreadPool) -> "weakref.ref[Held]":
        held = Held()
        known = weakref.ref(held)
        await pool.submit(lambda: held is None)
        await _until(lambda: pool._busy == 0)
        return known

    known = asyncio.run(main(ThreadPool(1)))
    gc.collect()
    assert known() is None

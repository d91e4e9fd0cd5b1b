"""Threads for tools: reused, limited in number, written off when they hang."""

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.turns import until
from ziggurat import ToolError
from ziggurat.tools import threads
from ziggurat.tools.threads import ThreadCall, ThreadPool, ThreadRaised, loop_of_this_thread

HERE: contextvars.ContextVar[str] = contextvars.ContextVar("here", default="nowhere")


async def test_calls_run_in_threads_in_the_callers_context() -> None:
    pool = ThreadPool(2)
    HERE.set("there")
    assert await pool.submit(HERE.get) == "there"
    assert await pool.submit(threading.current_thread) is not threading.current_thread()
    assert await pool.submit(loop_of_this_thread) is asyncio.get_running_loop()
    assert loop_of_this_thread() is None


async def test_a_thread_is_reused() -> None:
    pool, seen = ThreadPool(4), set()
    for _ in range(20):
        seen.add(await pool.submit(threading.get_ident))
        await until(lambda: pool._busy == 0)
    assert len(seen) == 1


async def test_no_more_than_its_size_run_at_once() -> None:
    pool, gate, running = ThreadPool(3), threading.Event(), []

    def work() -> None:
        running.append(1)
        gate.wait()
        running.pop()

    jobs = [pool.submit(work) for _ in range(10)]
    await until(lambda: len(running) == 3)
    assert len(running) == 3
    gate.set()
    await asyncio.gather(*jobs)


async def test_a_thread_that_was_written_off_is_replaced_and_too_many_are_refused() -> None:
    pool, gate, calls = ThreadPool(2), threading.Event(), [ThreadCall(), ThreadCall()]
    hanging = [pool.submit(lambda: gate.wait(), call) for call in calls]
    await until(lambda: all(call.begun for call in calls))
    pool.write_off(calls[0])
    assert await pool.submit(lambda: "served") == "served", "one thread has taken its place"
    pool.write_off(calls[0])
    assert pool.written_off == 1, "once is enough"
    pool.write_off(calls[1])
    with pytest.raises(ToolError, match="2 tool threads hang") as caught:
        pool.submit(lambda: "never")
    assert caught.value.transient
    gate.set()
    await asyncio.gather(*hanging)
    await until(lambda: pool.written_off == 0)
    assert await pool.submit(lambda: "again") == "again"
    await until(lambda: pool._threads <= 2)


async def test_a_thread_that_waits_for_another_run_frees_its_place() -> None:
    pool, gate = ThreadPool(1), threading.Event()

    def outer() -> str:
        with pool.away():
            gate.wait()
        return "outer"

    waiting = pool.submit(outer)
    await until(lambda: pool._room == 2)
    assert await pool.submit(lambda: "inner") == "inner"
    gate.set()
    assert await waiting == "outer"


async def test_a_call_that_waits_is_made_when_the_one_before_it_is_written_off_or_goes_away() -> None:
    pool, gate, hangs, waits = ThreadPool(1), threading.Event(), ThreadCall(), threading.Event()

    def away() -> None:
        waits.wait()
        with pool.away():
            gate.wait()

    hanging = pool.submit(lambda: gate.wait(), hangs)
    await until(lambda: hangs.begun)
    leaving, queued = pool.submit(away), pool.submit(lambda: "served")
    pool.write_off(hangs)
    waits.set()
    assert await queued == "served"
    gate.set()
    await asyncio.gather(hanging, leaving)
    await until(lambda: (pool._busy, pool._threads) == (0, 1))


async def test_a_call_that_was_given_up_before_a_thread_came_to_it_is_not_made_and_holds_no_place() -> None:
    made: list[str] = []
    pool, gate, call, first = ThreadPool(1), threading.Event(), ThreadCall(), ThreadCall()
    hanging = pool.submit(lambda: gate.wait(), first)
    await until(lambda: first.begun)
    waiting = pool.submit(lambda: made.append("late"), call)
    pool.write_off(call)
    assert pool.written_off == 0
    gate.set()
    await hanging
    with pytest.raises(ThreadRaised):
        await waiting
    assert await pool.submit(lambda: "next") == "next"
    assert not made


def test_a_thread_that_comes_back_when_the_event_loop_has_ended_is_written_off_no_longer() -> None:
    pool, gate, call = ThreadPool(1), threading.Event(), ThreadCall()

    async def leave() -> None:
        pool.submit(lambda: gate.wait(), call)
        await until(lambda: call.begun)
        pool.write_off(call)

    async def after() -> str:
        await until(lambda: pool.written_off == 0)
        return await pool.submit(lambda: "served")

    asyncio.run(leave())
    assert pool.written_off == 1
    gate.set()
    assert asyncio.run(after()) == "served"


def test_calls_of_an_event_loop_within_a_thread_do_not_wait_for_that_thread() -> None:
    async def go() -> list[str]:
        pool = ThreadPool(2)

        async def inner() -> str:
            return await pool.submit(lambda: "inner")

        return await asyncio.gather(*(pool.submit(lambda: asyncio.run(inner())) for _ in range(5)))

    assert asyncio.run(go()) == ["inner"] * 5


async def test_what_cannot_even_be_begun_is_told_to_the_thread_that_asked() -> None:
    pool, loop = ThreadPool(1), asyncio.get_running_loop()

    def refused() -> Coroutine[Any, Any, None]:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        await pool.submit(lambda: pool.run_on(loop, refused))


def test_a_thread_does_not_wait_for_an_event_loop_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_PATIENCE", 0.01)
    begun, ended, raised = threading.Event(), threading.Event(), list[BaseException]()

    async def never() -> None:
        raise AssertionError

    def ask(loop: asyncio.AbstractEventLoop) -> None:
        try:
            ThreadPool(1).run_on(loop, never)
        except BaseException as error:
            raised.append(error)
        ended.set()

    loop = asyncio.new_event_loop()
    vars(loop)["call_soon_threadsafe"] = lambda *given, **named: begun.set()  # its last turn is over
    threading.Thread(target=ask, args=(loop,)).start()
    assert begun.wait()
    loop.close()
    assert ended.wait()
    assert isinstance(raised[0], asyncio.CancelledError)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_was_forked_has_threads_of_its_own_and_stands_in_no_run() -> None:
    code = """
import asyncio, os
from ziggurat.agents.agent import Agent
from ziggurat.messages.message import tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.function import tool

@tool
def quick() -> str:
    "Be quick."
    return "done"

def agent():
    return Agent(ScriptedModel(tool_call("quick"), "end"), tools=[quick])

@tool
def forks() -> str:
    "Fork."
    child = os.fork()
    if child == 0:
        os._exit(7 if agent().run_sync("go").text == "end" else 1)
    return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

run = Agent(ScriptedModel(tool_call("quick"), tool_call("forks"), "end"), tools=[quick, forks]).run_sync("go")
print(run.messages[-2].text, run.messages[-2].tool_results[0].text, run.usage.requests)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stdout.split() == ["7", "3"]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), StopIteration(), GeneratorExit()])
async def test_what_a_future_cannot_hold_is_carried(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(ThreadRaised) as caught:
        await ThreadPool(1).submit(work)
    assert caught.value.error is error


def test_an_answer_after_the_loop_was_closed_is_dropped() -> None:
    pool, gate = ThreadPool(1), threading.Event()

    async def go() -> None:
        pool.submit(lambda: gate.wait())

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
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
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
            await until(lambda: bool(log))
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


async def test_an_idle_thread_keeps_nothing_of_the_call_it_made() -> None:
    class Held:
        pass

    async def main(pool: ThreadPool) -> "weakref.ref[Held]":
        held = Held()
        known = weakref.ref(held)
        await pool.submit(lambda: held is None)
        await until(lambda: pool._busy == 0)
        return known

    known = await main(ThreadPool(1))
    gc.collect()
    assert known() is None

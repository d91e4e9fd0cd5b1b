"""A function that catches the Suspend of its wait, or the cancellation of its call, makes no further recorded call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.samples import pairs
from ziggurat import ConfigurationError
from ziggurat.agents import Answer, Environment
from ziggurat.flows import ask, event, first, flow, gather, sleep, step
from ziggurat.messages.stops import Completed, Suspended
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock

done: list[str] = []


@step
async def note(what: str) -> str:
    done.append(what)
    return what


@step
async def hang() -> None:
    await asyncio.Event().wait()


WAITS: dict[str, Callable[[], Awaitable[Any]]] = {
    "ask": lambda: ask("Sure?", default="no", expires=86_400),
    "sleep": lambda: sleep(days=1),
    "event": lambda: event("sure", str, timeout=86_400, default="no"),
    "gather": lambda: gather(sleep(days=1), note("beside")),
}
NEXT: dict[str, Callable[[], Awaitable[Any]]] = {
    "step": lambda: note("after"),
    "wait": lambda: ask("Really?"),
    "gather": lambda: gather(note("after"), note("after")),
    "nothing": lambda: asyncio.sleep(0),
}


@pytest.mark.parametrize(("wait", "then"), pairs(WAITS, NEXT))
async def test_a_run_that_waits_goes_on_only_when_the_wait_is_over(wait: str, then: str) -> None:
    done.clear()
    clock = HandClock()
    environment = Environment(clock=clock)

    @flow(store=InMemoryStore())
    async def careless() -> str:
        try:
            await WAITS[wait]()
        except BaseException:
            done.append("caught")
        await NEXT[then]()
        return "end"

    for _ in range(2):
        run = await careless.run(run_id="r", environment=environment)
        assert (run.stop, len(run.pending)) == (Suspended(), 1)
    assert "after" not in done
    done.clear()
    await clock.advance(86_400)
    run = await careless.resume("r", environment=environment)
    assert "caught" not in done
    if then == "wait":
        run = await careless.resume("r", {run.pending[0].id: Answer("yes")}, environment=environment)
    assert (run.stop, run.output) == (Completed(), "end")


@pytest.mark.parametrize("call", [hang, lambda: gather(hang(), hang()), lambda: first(hang(), hang())])
@pytest.mark.parametrize("then", ["step", "wait", "gather"])
async def test_a_call_after_one_that_was_cancelled_is_refused(call: Callable[[], Awaitable[Any]], then: str) -> None:
    done.clear()

    @flow(store=InMemoryStore())
    async def hasty() -> None:
        try:
            async with asyncio.timeout(0):
                await call()
        except TimeoutError:
            await NEXT[then]()

    with pytest.raises(ConfigurationError, match="timeout layer"):
        await hasty.run()
    assert done == []


async def test_a_flow_that_is_cancelled_itself_cleans_up() -> None:
    done.clear()
    started = asyncio.Event()

    @step
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    @flow(store=InMemoryStore())
    async def tidy() -> None:
        try:
            await work()
        finally:
            await note("cleaned up")

    task = asyncio.ensure_future(tidy.run())
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert done == ["cleaned up"]

"""Concurrent agents in one tool: one that waits for a person first lets the others finish."""

import asyncio

import pytest

from ziggurat.agents.program import ConcurrentAgents
from ziggurat.errors import Suspend


async def _waits(what: str) -> str:
    raise Suspend((what,))


async def test_the_last_to_end_lets_go_those_that_wait_and_all_is_told_in_the_order_of_beginning() -> None:
    beside, gate, heard = ConcurrentAgents(), asyncio.Event(), list[str]()

    async def slow() -> str:
        await gate.wait()
        heard.append("slow")
        return "done"

    async def late() -> str:
        await gate.wait()
        heard.append("late")
        return await _waits("late")

    calls = [beside.run(work) for work in (_waits("first"), slow(), late(), _waits("second"))]
    all_of_them = asyncio.gather(*calls, return_exceptions=True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not all_of_them.done()
    assert heard == []
    gate.set()
    outcomes = await all_of_them
    assert heard == ["slow", "late"]
    assert outcomes[1] == "done"
    waiting = [outcome.pending for outcome in outcomes if isinstance(outcome, Suspend)]
    assert waiting == [("first", "late", "second")] * 3


async def test_one_after_the_other_nothing_is_waited_for_and_errors_pass() -> None:
    async def fails() -> str:
        raise ValueError("broken")

    beside = ConcurrentAgents()
    with pytest.raises(ValueError, match="broken"):
        await beside.run(fails())
    for _ in range(2):
        with pytest.raises(Suspend) as raised:
            await beside.run(_waits("x"))
    assert raised.value.pending == ("x", "x")


async def test_who_is_cancelled_while_the_others_go_on_is_cancelled() -> None:
    beside = ConcurrentAgents()
    other = asyncio.ensure_future(beside.run(asyncio.Event().wait()))
    waiting = asyncio.ensure_future(beside.run(_waits("x")))
    for _ in range(3):
        await asyncio.sleep(0)
    for task in (waiting, other):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

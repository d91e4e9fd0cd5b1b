import asyncio
from typing import Any

import pytest

from tests.samples import amount
from ziggurat import ConfigurationError, Context, Event, stack
from ziggurat.core import root
from ziggurat.core.context import JOURNAL
from ziggurat.errors import LimitExceeded, Suspend
from ziggurat.events import UnderPressure
from ziggurat.journal import LocalJournal
from ziggurat.layers import Gate
from ziggurat.layers.concurrency_limit import backpressure
from ziggurat.testing import run_until_idle
from ziggurat.testing.expect import expect


async def hang(request: str, ctx: Context) -> None:
    await asyncio.get_running_loop().create_future()


async def answer(request: str, ctx: Context) -> str:
    return request


async def test_at_the_hard_limit_calls_are_refused_at_once() -> None:
    gate = Gate(2)
    inside = [asyncio.create_task(stack(hang, backpressure(gate=gate))("q", root())) for _ in range(2)]
    await run_until_idle()
    with pytest.raises(LimitExceeded, match="2 calls are in progress") as raised:
        await stack(answer, backpressure(gate=gate))("q", root())
    assert (raised.value.kind, raised.value.limit, raised.value.used) == ("backpressure", 2, 2)
    assert raised.value.transient
    for task in inside:
        task.cancel()
    await asyncio.wait(inside)
    assert await stack(answer, backpressure(gate=gate))("q", root()) == "q"
    assert gate.depth == 0


async def test_from_the_soft_limit_on_it_warns() -> None:
    gate, heard = Gate(4, soft=2), list[Event]()
    ctx = root().heard_by(heard.append)
    inside = [asyncio.create_task(stack(hang, backpressure(gate=gate))("q", ctx)) for _ in range(6)]
    await run_until_idle()
    for task in inside:
        task.cancel()
    await asyncio.gather(*inside, return_exceptions=True)
    assert heard == [UnderPressure("run", 3, 2, 4), UnderPressure("run", 4, 2, 4)]


@pytest.mark.parametrize("error", [ValueError("bad"), Suspend(()), asyncio.CancelledError()])
async def test_whatever_ends_a_call_gives_its_slot_back(error: Exception) -> None:
    gate = Gate(1)
    service, handle = expect()
    for _ in range(10):
        task = asyncio.create_task(stack(service, backpressure(gate=gate))("q", root()))
        _, reply = await handle.next()
        reply.fail(error)
        with pytest.raises(type(error)):
            await task
    assert gate.depth == 0


async def test_no_slot_is_lost_over_many_cancelled_calls() -> None:
    gate = Gate(64, soft=32)
    service = stack(hang, backpressure(gate=gate))
    ctx, refused = root(), 0
    for number in range(rounds := amount(60, 999)):
        tasks = [asyncio.create_task(service("q", ctx)) for _ in range(100)]
        for _ in range(number % 3):
            await asyncio.sleep(0)
        assert gate.depth == (64 if number % 3 else 0)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        refused += sum(isinstance(end, LimitExceeded) for end in ends)
        assert gate.depth == 0
    assert refused == rounds * 2 // 3 * 36


async def test_a_listener_that_hangs_keeps_no_slot() -> None:
    gate = Gate(2, soft=1)

    async def stuck(event: Event) -> None:
        await asyncio.Event().wait()

    tasks = [asyncio.create_task(stack(hang, backpressure(gate=gate))("q", root().heard_by(stuck))) for _ in range(2)]
    await run_until_idle()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert gate.depth == 0


async def test_in_a_replay_nothing_is_refused() -> None:
    gate = Gate(1)
    gate.depth = 1
    service = stack(answer, backpressure(gate=gate))
    assert await service("q", root().within(JOURNAL, LocalJournal("replay"))) == "q"


@pytest.mark.parametrize("settings", [{"hard": 0}, {"hard": 5, "soft": 0}, {"hard": 5, "soft": 5}, {"hard": 2.0}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=list(settings)[-1]):
        Gate(**settings)


def test_the_layer_takes_a_gate_and_shows_it() -> None:
    wrong: Any = 100
    with pytest.raises(ConfigurationError, match="made once and passed"):
        backpressure(gate=wrong)
    assert repr(backpressure(gate=Gate(10, soft=8))) == "backpressure(gate=Gate(10, soft=8))"

"""Of two decisions on one wait the first in the inbox stands, and a decision makes its run due at once."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.samples import amount, sample
from tests.stores.places import PLACES, QUEUES, Place, stores
from ziggurat.agents import Answer, Environment
from ziggurat.errors import AlreadyDecided
from ziggurat.flows import Flow, ask, event, first, flow, gather, send, sleep, step
from ziggurat.journal import Store
from ziggurat.messages.stops import Suspended
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock


def _asking(store: Store) -> Flow[None, str]:
    @flow(store=store, name="asking")
    async def asking() -> str:
        return await ask("Pay?")

    return asking


@pytest.mark.parametrize("kind", sample([*PLACES], 3))
async def test_of_two_that_decide_differently_at_the_same_moment_one_is_refused(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (one, two):
        for number in range(amount(5, 100)):
            run_id = f"r{number}"
            (item,) = (await _asking(one).run(run_id=run_id)).pending
            answers = ("no", "yes")
            told = await asyncio.gather(
                *(
                    _asking(store).decide(run_id, {item.id: Answer(answer)})
                    for store, answer in zip((one, two), answers, strict=True)
                ),
                return_exceptions=True,
            )
            assert sorted(type(each).__name__ for each in told) == ["AlreadyDecided", "NoneType"]
            stands = answers[told.index(None)]
            assert (await _asking(two).resume(run_id)).output == stands
            await _asking(one).decide(run_id, {item.id: Answer(stands)})
            with pytest.raises(AlreadyDecided):
                await _asking(one).decide(run_id, {item.id: Answer("neither")})


async def _shipped(what: str) -> str:
    return await _ship(what) if await ask(f"Ship {what}?", bool) else "kept"


@step
async def _ship(what: str) -> str:
    return what


async def _tomorrow() -> str:
    await sleep(days=1)
    return "tomorrow"


BODIES: dict[str, Any] = {
    "first, timer": lambda: first(_shipped("a"), _tomorrow()),
    "first, event": lambda: first(_shipped("a"), event("paid", str)),
    "gather, question": lambda: gather(_shipped("a"), _shipped("b")),
    "gather, timer": lambda: gather(_shipped("a"), _tomorrow()),
}


@pytest.mark.parametrize("new_store", sample(["by reference", *QUEUES], 2), indirect=True)
@pytest.mark.parametrize("body", BODIES)
async def test_a_decision_makes_a_run_due_whatever_else_waits(new_store: Place, body: str) -> None:
    def order() -> Flow[None, Any]:
        @flow(name="order", store=new_store())
        async def order() -> Any:
            work: Coroutine[Any, Any, Any] = BODIES[body]()
            return await work

        return order

    run = await order().run(run_id="r")
    asked = next(item for item in run.pending if item.reason == "Ship a?")
    assert not (await order().recover()).runs
    await order().decide("r", {asked.id: Answer(True)})
    recovered = (await order().recover()).runs["r"]
    assert asked.id not in {item.id for item in recovered.pending}
    assert "order/" in recovered.pending[0].path if body.startswith("gather") else recovered.output == "a"
    assert not (await order().recover()).runs, "it is due once"


@pytest.mark.parametrize("seconds", [59, 60, 61])
@pytest.mark.parametrize("kind", ["question", "event"])
async def test_nothing_late_is_taken_whenever_the_run_is_looked_at(kind: str, seconds: int) -> None:
    clock, store, in_time = HandClock(), InMemoryStore(), seconds < 60
    environment = Environment(clock=clock)

    @flow(store=store)
    async def waiting() -> list[int]:
        if kind == "question":
            return [await ask("How many?", int, expires=60, default=-1)]
        return [await event("paid", int, timeout=60, default=-1), await event("paid", int, timeout=1, default=-2)]

    run = await waiting.run(run_id="r", environment=environment)
    await clock.advance(seconds)
    if kind == "event":
        await send("r", "paid", 7, store=store, environment=environment)
    elif in_time:
        await waiting.decide("r", {run.pending[0].id: Answer(7)}, environment=environment)
    else:
        with pytest.raises(AlreadyDecided):
            await waiting.decide("r", {run.pending[0].id: Answer(7)}, environment=environment)
    await clock.advance(1000)
    run = await waiting.resume("r", environment=environment)
    if kind == "event" and in_time:
        assert isinstance(run.stop, Suspended)
        await clock.advance(1000)
        run = await waiting.resume("r", environment=environment)
    taken = [7] if in_time else [-1]
    assert run.output == taken + ([] if kind == "question" else [-2 if in_time else 7]), "a later wait gets it"

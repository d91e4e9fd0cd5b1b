"""Of two decisions on a wait one stands, and only its author is told so, by whatever verb and at whatever moment."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.samples import LONG, SEED, pairs
from tests.stores.places import PLACES, stores
from tests.stores.watched import WatchedStore
from ziggurat.agents import Answer
from ziggurat.errors import AlreadyDecided, LeaseHeld
from ziggurat.flows import Flow, ask, flow
from ziggurat.journal import Store

MOMENTS = 40


def _asking(store: Any) -> Flow[None, str]:
    @flow(store=store, name="asking")
    async def asking() -> str:
        return await ask("Pay?")

    return asking


Verb = Callable[[Flow[None, str], str, str], Awaitable[Any]]

VERBS: dict[str, Verb] = {
    "decide": lambda asking, item, answer: asking.decide("r", {item: Answer(answer)}),
    "resume": lambda asking, item, answer: asking.resume("r", {item: Answer(answer)}),
    "start": lambda asking, item, answer: asking.start(run_id="r", decisions={item: Answer(answer)}).result(),
    "attach": lambda asking, item, answer: asking.attach("r").decide({item: Answer(answer)}),
}


async def _told(verb: Verb, store: Any, item: str, answer: str) -> bool:
    """Decide, and return whether the decision is said to stand."""
    try:
        run = await verb(_asking(store), item, answer)
    except (AlreadyDecided, LeaseHeld):
        return False
    assert run is None or run.output == answer
    return True


async def _decided(first: Verb, second: Verb, one: Store, two: Store, moment: int) -> int:
    """Let somebody decide at a moment of another decision; return how many moments there were."""
    (item,) = (await _asking(one).run(run_id="r")).pending
    told: dict[str, bool] = {}

    async def reached(number: int) -> None:
        if number == moment:
            told["no"] = await _told(second, two, item.id, "no")

    watched: Any = WatchedStore(one, reached)
    told["yes"] = await _told(first, watched, item.id, "yes")
    stands = [answer for answer, stood in told.items() if stood]
    assert len(stands) == 1, told
    assert (await _asking(two).resume("r")).output == stands[0]
    for answer, stood in told.items():
        assert await _told(VERBS["decide"], two, item.id, answer) == stood
    assert await two.delete("run:r")
    return watched.moments


@pytest.mark.parametrize(("kind", "first", "second"), pairs(PLACES, VERBS, VERBS))
async def test_of_two_decisions_one_stands_at_any_moment(kind: str, first: str, second: str, tmp_path: Path) -> None:
    step = 1 if LONG or kind == "memory" else 3
    async with stores(kind, tmp_path) as (one, two):
        count = await _decided(VERBS[first], VERBS[second], one, two, 0)
        assert 4 < count < MOMENTS
        for moment in range(1 + SEED % step, count + 1, step):
            await _decided(VERBS[first], VERBS[second], one, two, moment)

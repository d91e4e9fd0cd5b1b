"""Of two decisions on a wait one stands, and only its author is told so, by whatever verb and at whatever moment."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.samples import LONG, SEED, pairs
from tests.stores.places import PLACES, stores
from tests.stores.watched import WatchedStore
from ziggurat.agents import Answer, Decision, runs_of
from ziggurat.core.codec import encode
from ziggurat.errors import AlreadyDecided, LeaseHeld
from ziggurat.flows import Flow, ask, flow, gather
from ziggurat.journal import Store
from ziggurat.messages.posted import PostedDecisions
from ziggurat.stores import InMemoryStore

MOMENTS = 40


def _asking(store: Any) -> Flow[None, str]:
    @flow(store=store, name="asking")
    async def asking() -> str:
        return await ask("Pay?")

    return asking


Verb = Callable[[Any, dict[str, Decision]], Awaitable[Any]]

VERBS: dict[str, Verb] = {
    "decide": lambda asking, decisions: asking.attach("r").decide(decisions),
    "resume": lambda asking, decisions: asking.resume("r", decisions),
    "start": lambda asking, decisions: asking.start(run_id="r", decisions=decisions).result(),
    "attach": lambda asking, decisions: asking.attach("r").decide(decisions),
}


async def _told(verb: Verb, store: Any, item: str, answer: str) -> bool:
    """Decide, and return whether the decision is said to stand."""
    try:
        run = await verb(_asking(store), {item: Answer(answer)})
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

    watched = WatchedStore(one, reached)
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


@pytest.mark.parametrize(("kind", "verb"), pairs(PLACES, VERBS))
async def test_of_decisions_that_are_made_together_none_stands_if_one_is_refused(
    kind: str, verb: str, tmp_path: Path
) -> None:
    def asking(store: Any) -> Flow[None, list[str]]:
        @flow(store=store, name="asking")
        async def asking() -> list[str]:
            return [*await gather(ask("Pay?"), ask("Ship?"))]

        return asking

    async def reached(number: int) -> None:
        if number == moment:
            with suppress(AlreadyDecided):
                await asking(two).attach("r").decide({second: Answer("no")})

    refused = 0
    async with stores(kind, tmp_path) as (one, two):
        for moment in range(1, MOMENTS, 1 if LONG or kind == "memory" else 4):
            first, second = (item.id for item in (await asking(one).run(run_id="r")).pending)
            watched: Any = WatchedStore(one, reached)
            decisions: dict[str, Decision] = {first: Answer("yes"), second: Answer("yes")}
            try:
                await VERBS[verb](asking(watched), decisions)
            except AlreadyDecided:
                refused += 1
                await asking(two).attach("r").decide({first: Answer("perhaps")})
                assert (await asking(two).resume("r")).output == ["perhaps", "no"]
            else:
                assert (await asking(two).resume("r")).output == ["yes", "yes"]
            await two.delete("run:r")
            if watched.moments < moment:
                break
    assert refused


@pytest.mark.parametrize("driven", [False, True])
async def test_a_decision_that_cannot_be_used_is_in_nobodys_way(driven: bool) -> None:
    store = InMemoryStore()
    other = InMemoryStore(shared=store)
    (item,) = (await _asking(store).run(run_id="r")).pending
    (wait,) = (await runs_of(store).read("r")).index.waits()
    unfit = PostedDecisions({item.id: Answer([1])})
    await store.post("run:r", f"decide {wait} {item.id}", encode(unfit))
    epoch = await other.lease("run:r") if driven else 0
    await _asking(store).attach("r").decide({item.id: Answer("yes")})
    with pytest.raises(AlreadyDecided):
        await _asking(store).attach("r").decide({item.id: Answer("no")})
    await other.release("run:r", epoch)
    assert (await _asking(other).resume("r")).output == "yes"

"""Parts of a group whose results are not used leave their events in the inbox, for later waits."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.samples import rows
from tests.stores.places import PLACES, Place, new_store
from ziggurat.agents import Environment
from ziggurat.flows import Flow, event, first, flow, gather, quorum, step
from ziggurat.testing import HandClock


@step
async def _note(what: str) -> str:
    return what


async def _noted(name: str) -> str:
    return await _note(await event(name, str))


async def _both(one: str, two: str) -> str:
    return "+".join(await gather(event(one, str), event(two, str)))


async def _inner(one: str, two: str) -> str:
    return await first(event(one, str), event(two, str))


GROUPS: dict[str, Any] = {
    "first": lambda: first(event("a", str), event("b", str)),
    "first of works": lambda: first(event("a", str), _noted("b")),
    "quorum": lambda: quorum(1, event("a", str), event("b", str)),
    "quorum of three": lambda: quorum(2, event("a", str), event("a", str), event("b", str)),
    "nested": lambda: first(event("a", str), _inner("b", "b")),
    "nested gather": lambda: first(event("a", str), _both("b", "b")),
}


def _order(group: str) -> Flow[None, list[Any]]:
    @flow(name="order", store=new_store())
    async def order() -> list[Any]:
        won = await GROUPS[group]()
        return [
            list(won) if isinstance(won, tuple) else won,
            [await event(name, str, timeout=0.01, default="lost") for name in "bb"],
        ]

    return order


async def _outcome(group: str, sent: Sequence[str]) -> Any:
    await _order(group).run(run_id="r")
    for number, name in enumerate(sent):
        await _order(group).attach("r").send(name, f"{name}{number}")
    run = await _order(group).resume("r")
    assert (await _order(group).resume("r")).output == run.output, "the same from the record"
    return run.output


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("group", "place"), rows(GROUPS, PLACES), indirect=["place"])
async def test_a_later_wait_gets_the_events_of_those_that_have_lost(group: str) -> None:
    sent = "aabb"
    won, later = await _outcome(group, sent)
    used = [each for each in (won if isinstance(won, list) else won.split("+")) if each]
    events = [f"{name}{number}" for number, name in enumerate(sent) if name == "b"]
    assert later == [each for each in events if each not in used][:2] + ["lost"] * sum(each in events for each in used)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("place", ["memory", "sqlite"], indirect=True)
async def test_a_wait_beside_the_group_gets_what_is_given_back(place: Place) -> None:
    def order() -> Flow[None, list[str]]:
        @flow(name="order", store=new_store())
        async def order() -> list[str]:
            return list(await gather(first(event("a", str), event("b", str)), event("b", str)))

        return order

    await order().run(run_id="r")
    await order().attach("r").send("a", "for a")
    await order().attach("r").send("b", "for b")
    outputs = [run.output for _ in range(3) for run in (await order().recover()).runs.values()]
    assert outputs[-1] == ["for a", "for b"]


async def test_a_flow_with_the_name_of_a_group_has_taken_its_events() -> None:
    store = new_store()

    @flow(name="first")
    async def inner() -> dict[str, list[int]]:
        return {"parts": [int(await event("a", str))]}

    @flow(name="order", store=store)
    async def order() -> list[Any]:
        return [(await inner.run()).output, await event("a", str, timeout=0.01, default="none")]

    clock = HandClock()
    environment = Environment(clock=clock)
    await order.run(run_id="r", environment=environment)
    await order.attach("r").send("a", "7")
    await order.resume("r", environment=environment)
    await clock.advance(1)
    assert (await order.resume("r", environment=environment)).output == [{"parts": [7]}, "none"]

"""Tests of readers who subscribe in the middle of a reply: they hear all of it."""

import asyncio
from itertools import product

import pytest

from tests.samples import sample
from ziggurat import Agent
from ziggurat.events import Delta, TextDelta
from ziggurat.runs.control import SubscribedItem
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

PIECES = [f"{number} " for number in range(40)]


class Paced:
    """Lets a model reply piece by piece, each when the test says so."""

    def __init__(self) -> None:
        self.said = asyncio.Semaphore(0)

    async def __call__(self, event: object) -> None:
        if isinstance(event, Delta):
            await self.said.acquire()


def text_of(items: list[SubscribedItem]) -> str:
    deltas = [item.what.delta for item in items if isinstance(item.what, Delta)]
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@pytest.mark.parametrize(("kind", "after"), sample(product(["memory", "none"], [0, 1, 17, 39]), 4))
async def test_who_joins_in_the_middle_of_a_reply_hears_all_of_it(kind: str, after: int) -> None:
    paced = Paced()
    store = InMemoryStore() if kind == "memory" else None
    agent = Agent(ScriptedModel([TextDelta(piece) for piece in PIECES]), store=store)
    handle = agent.start("go", run_id="r-1", listeners=[paced])
    for _ in range(after):
        paced.said.release()
    for _ in range(200):
        await asyncio.sleep(0)
    read: list[list[SubscribedItem]] = [[], []]

    async def follow(items: list[SubscribedItem]) -> None:
        async for item in agent.attach("r-1").events():
            items.append(item)

    readers = [asyncio.ensure_future(follow(items)) for items in read]
    for _ in PIECES[after:]:
        paced.said.release()
        await asyncio.sleep(0)
    run = await handle.result()
    await asyncio.gather(*readers)
    assert text_of(read[0]) == "".join(PIECES) == run.output
    places = [(item.number, item.index) for item in read[0]]
    assert places == sorted(set(places))
    assert read[0] == read[1]

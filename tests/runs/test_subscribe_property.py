"""Readers that join, leave and rejoin at any place get every entry once and in order."""

import asyncio
import random
from itertools import product
from pathlib import Path

import pytest

from tests.samples import amount
from tests.stores.places import PLACES, stores
from ziggurat import Agent, Event, tool
from ziggurat.journal import Store
from ziggurat.journal.entries import Ended, JournalEntry
from ziggurat.messages import tool_call
from ziggurat.testing import Pause, ScriptedModel

STEPS = 6


@tool(effect="none")
async def look(page: int) -> str:
    """Look at a page."""
    for _ in range(page % 3):
        await asyncio.sleep(0)
    return f"page {page}"


def agent(store: Store) -> Agent:
    replies = [[tool_call("look", id=f"{n}-{m}", page=n + m) for m in range(2)] for n in range(STEPS)]
    return Agent(ScriptedModel(*replies, ["all ", Pause(), "read"]), tools=[look], store=store)


async def reader(one: Agent, chance: random.Random) -> list[tuple[int, JournalEntry | Event]]:
    """Read to the end, stopping at random places and continuing after the last entry's number."""
    heard: list[tuple[int, JournalEntry | Event]] = []
    for _ in range(chance.randrange(40)):
        await asyncio.sleep(0)
    while not heard or not isinstance(heard[-1][1], Ended):
        cut = chance.randrange(1, 12)
        events = one.attach("r").events(after=len(heard))
        async for each in events:
            if each.index == 0:
                heard.append((each.number, each.what))
                cut -= 1
                if not cut:
                    break
        await events.aclose()
        for _ in range(chance.randrange(5)):
            await asyncio.sleep(0)
    return heard


@pytest.mark.parametrize(("kind", "seed"), list(product(PLACES, range(amount(2, 20)))))
async def test_no_gap_and_no_double(kind: str, seed: int, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        await check(here, elsewhere, random.Random(seed))


async def check(here: Store, elsewhere: Store, chance: random.Random) -> None:
    one, other = agent(here), agent(elsewhere)
    run = one.start("Read it", run_id="r")
    while await here.find("run:r") is None:  # noqa: ASYNC110
        await asyncio.sleep(0)
    near = [asyncio.create_task(reader(one, random.Random(chance.random()))) for _ in range(4)]
    far = [asyncio.create_task(reader(other, random.Random(chance.random()))) for _ in range(2)]
    assert (await run.result()).text == "all read"
    late = [asyncio.create_task(reader(one, random.Random(chance.random())))]
    count = len(await here.read("run:r"))
    for heard in await asyncio.gather(*near, *far, *late):
        assert [number for number, _ in heard] == list(range(1, count + 1))

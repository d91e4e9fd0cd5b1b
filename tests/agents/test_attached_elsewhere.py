"""A run followed from another store, as another process would: live events in their places, or marked as skipped."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import QUEUES, stores
from ziggurat import Agent, Context, tool
from ziggurat.events import Skipped, ToolDelta
from ziggurat.journal import Store
from ziggurat.messages import tool_call
from ziggurat.runs.control import SubscribedItem
from ziggurat.testing import ScriptedModel


class Audience:
    """Readers that are there once each has got a first piece."""

    def __init__(self, count: int) -> None:
        self.present = [asyncio.Event() for _ in range(count)]

    async def gathered(self, ctx: Context) -> None:
        """Greet until everybody has heard it."""
        for each in self.present:
            while not each.is_set():
                await ctx.emit(ToolDelta(ctx.path, "talk", "hello"))
                await asyncio.wait([asyncio.ensure_future(each.wait())], timeout=0.05)

    async def follow(self, agent: Agent[Any], number: int) -> list[SubscribedItem]:
        """Return what a reader gets of the run, without the greetings."""
        items = []
        async for item in agent.attach("r").events():
            if isinstance(item.what, ToolDelta):
                self.present[number].set()
                if item.what.text == "hello":
                    continue
            items.append(item)
        return items


def talking(store: Store, pieces: list[str], audience: Audience | None = None) -> Agent[Any]:
    @tool(effect="none")
    async def talk(ctx: Context, turn: int) -> str:
        """Report pieces of text, once everybody listens."""
        if audience is not None:
            await audience.gathered(ctx)
        for number, piece in enumerate(pieces):
            await ctx.emit(ToolDelta(ctx.path, "talk", f"{turn}:{piece}"))
            if not number % 7:
                await asyncio.sleep(0)
        return "said"

    model = ScriptedModel(*[tool_call("talk", turn=turn) for turn in range(2)], "done")
    return Agent(model, tools=[talk], store=store)


def texts(items: list[SubscribedItem]) -> list[str]:
    return [item.what.text for item in items if isinstance(item.what, ToolDelta)]


@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_readers_elsewhere_get_every_entry_and_every_piece_in_order(kind: str, tmp_path: Path) -> None:
    pieces = ["short", "über\n\x00 \u2028 'quoted'", "long " * 3000, *map(str, range(40))]

    async with stores(kind, tmp_path, 3) as (here, *elsewhere):
        audience = Audience(len(elsewhere))
        driver = talking(here, pieces, audience)
        handle = driver.start("Go", run_id="r")
        await handle.recorded()
        readers = [
            asyncio.create_task(audience.follow(talking(store, pieces), number))
            for number, store in enumerate(elsewhere)
        ]
        run = await handle.result()
        assert run.text == "done"
        recorded = [item async for item in driver.attach("r").events()]
        for reader in readers:
            items = await reader
            assert [item for item in items if not item.index] == recorded
            places = [(item.number, item.index) for item in items]
            assert places == sorted(set(places))
            assert not [item for item in items if isinstance(item.what, Skipped)]
            assert texts(items) == [f"{turn}:{piece}" for turn in range(2) for piece in pieces]

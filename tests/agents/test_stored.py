"""Runs in stores: begun, resumed in what could be another process, answered from the record, followed, fenced."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.places import PLACES, Place
from ziggurat.agents.agent import Agent
from ziggurat.core.entries import Ended, Opened
from ziggurat.core.errors import (
    RunExists,
    RunNotFound,
)
from ziggurat.core.store import Store, run_log
from ziggurat.messages import stops
from ziggurat.messages.agent import Approve
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.function import tool


class World:
    """What the tools have done, outside of the runs."""

    def __init__(self) -> None:
        self.looked = 0
        self.sent: list[str] = []

    def agent(self, store: Store | str, *replies: object, name: str = "agent") -> Agent:
        @tool
        def look_up(name: str) -> str:
            """Look an address up."""
            self.looked += 1
            return f"{name}@example.org"

        @tool(effect="once", approval=True)
        def send_mail(to: str) -> str:
            """Send a mail."""
            self.sent.append(to)
            return "sent"

        said = replies or (tool_call("look_up", name="ada"), tool_call("send_mail", to="ada"), "Sent.")
        return Agent(ScriptedModel(*said), tools=[look_up, send_mail], store=store, name=name)  # type: ignore[arg-type]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    opened: list[Store] = []
    opens = PLACES[request.param](tmp_path)

    def again() -> Store:
        opened.append(opens())
        return opened[-1]

    yield again

    async def close() -> None:
        for store in opened:
            await store.close()

    asyncio.run(close())


def test_a_run_waits_and_goes_on_in_another_process(place: Place) -> None:
    world = World()

    async def main() -> None:
        run = await world.agent(place()).run("Write to Ada", run_id="r")
        assert run.stop == stops.Suspended()
        assert not world.sent
        later = world.agent(place(), "Sent.")
        run = await later.resume("r", {item.id: Approve() for item in run.pending})
        assert (run.text, run.steps) == ("Sent.", 3)
        assert (world.looked, world.sent) == (1, ["ada"])
        assert run.usage.requests == 3

    asyncio.run(main())


def test_the_same_id_and_request_is_the_same_run(place: Place) -> None:
    async def main() -> None:
        world, store = World(), place()
        first = await world.agent(store, "Hello.").run("Hi", run_id="r")
        before = await store.find(run_log("r"))
        silent = World().agent(place(), "never said")
        again = await silent.run("Hi", run_id="r")
        assert again.messages == first.messages
        assert again.usage == first.usage
        assert (await silent.resume("r")).text == "Hello."
        assert await store.find(run_log("r")) == before, "a finished run is answered without a word in its record"
        with pytest.raises(RunExists, match="another request"):
            await silent.run("Bye", run_id="r")
        with pytest.raises(RunNotFound, match="named 'clerk'"):
            await World().agent(store, "x", name="clerk").resume("r")
        with pytest.raises(RunNotFound, match="the latest: r"):
            await silent.resume("s")

    asyncio.run(main())


def test_a_run_is_replayed_and_followed_from_its_record(place: Place) -> None:
    async def main() -> None:
        world = World()
        first = world.agent(place())
        run = await first.run("Write to Ada", run_id="r")
        run = await first.resume("r", {item.id: Approve() for item in run.pending})
        other = World().agent(place())
        assert (await other.replay("r")).messages == run.messages
        heard = [each async for each in other.subscribe("r")]
        assert [each.number for each in heard] == list(range(1, len(heard) + 1))
        assert isinstance(heard[0].what, Opened)
        assert isinstance(heard[-1].what, Ended)
        assert [each.number async for each in other.subscribe("r", after=5)] == [each.number for each in heard[5:]]

    asyncio.run(main())

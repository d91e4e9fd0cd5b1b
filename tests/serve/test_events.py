"""One stream follows a run over waits, decisions, other processes and restarts of the server, to its end."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_app import Gate
from ziggurat import Agent, ConfigurationError, tool
from ziggurat.events import TextDelta
from ziggurat.http.sse import EventParser, ServerEvent
from ziggurat.messages import tool_call
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp
from ziggurat.testing import ScriptedModel, ScriptedReply


class Reader:
    """Reads a stream as the standard says an EventSource does, and connects again when it is told to.

    Attributes:
        heard: What it has heard, over all connections.
    """

    def __init__(self, run_id: str) -> None:
        self.path = f"/runs/{run_id}/events"
        self.heard: list[ServerEvent] = []
        self.last = ""
        self._news = asyncio.Event()

    async def read(self, server: Serving) -> int:
        """Read one connection to its end, and return its status."""
        parser = EventParser()
        async with server.client.stream("GET", self.path, headers={"Last-Event-ID": self.last}) as reply:
            try:
                async for chunk in reply.aiter_raw():
                    self.heard += parser.feed(chunk)
                    self.last = self.heard[-1].id if self.heard else ""
                    self._news.set()
            except httpx.TransportError:
                pass
            assert reply.status_code == 204 or parser.retry == 500
            return reply.status_code

    async def until(self, name: str, times: int = 1) -> None:
        """Wait until it has heard events of a name."""
        while self.names.count(name) < times:
            self._news.clear()
            await self._news.wait()

    @property
    def names(self) -> list[str]:
        return [event.event for event in self.heard]

    @property
    def entries(self) -> list[str]:
        """The ids of the entries that it has heard."""
        return [event.id for event in self.heard if event.id.isdigit() and event.event not in ("waiting", "bye")]


@asynccontextmanager
async def reading(server: Serving, run_id: str) -> AsyncIterator[Reader]:
    reader = Reader(run_id)
    task = asyncio.ensure_future(reader.read(server))
    try:
        yield reader
        assert await task == 200
    finally:
        task.cancel()


async def approve(server: Serving, run_id: str) -> None:
    items = (await server.get(f"/runs/{run_id}"))["pending"]
    await server.post(
        f"/runs/{run_id}/decisions", {"decisions": [{"id": item["id"], "action": "approve"} for item in items]}
    )


def desk(*replies: ScriptedReply) -> Agent:
    """Return an agent that must ask before it pays."""

    @tool(effect="once", approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    return Agent(ScriptedModel(*replies), name="desk", tools=[pay])


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
async def test_a_stream_goes_on_with_a_run_that_waited(stored: bool, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}" if stored else None
    calls = [tool_call("pay", amount=amount) for amount in (1, 2)]
    agent = desk(*calls, [TextDelta("All "), TextDelta("done.")])
    async with serving(app(agent, token=TOKEN, store=store)) as server:
        await server.post("/runs", {"agent": "desk", "prompt": "Pay.", "run_id": "r-1"}, 201)
        async with reading(server, "r-1") as reader:
            for times in (1, 2):
                await reader.until("waiting", times)
                await approve(server, "r-1")
        count = (await server.get("/runs/r-1"))["entries"]
        assert reader.entries == [str(number) for number in range(1, count + 1)]
        assert reader.names.count("waiting") == 2
        assert reader.heard[-1] == ServerEvent("end", "{}", f"{count}.end")
        said = [event.data for event in reader.heard if event.event == "Delta"]
        assert ["All " in each for each in said[-2:]] == [True, False]


async def test_a_run_that_another_process_goes_on_with_is_followed(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    async with serving(app(desk(tool_call("pay", amount=3)), token=TOKEN, store=address)) as server:
        await server.post("/runs", {"agent": "desk", "prompt": "Pay.", "run_id": "r-1"}, 201)
        async with reading(server, "r-1") as reader:
            await reader.until("waiting")
            code = f"""
import asyncio
from tests.serve.test_events import desk
from ziggurat.messages.agent import Approve

async def main() -> None:
    agent = desk("All done.").with_store({address!r})
    [item] = (await agent.attach("r-1").status()).pending
    await agent.resume("r-1", {{item.id: Approve()}})
    await agent.store.close()

asyncio.run(main())
"""
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
            assert await process.wait() == 0
        assert reader.names[-1] == "end"
        assert "All done." in str(reader.heard)
        assert reader.entries == [str(number + 1) for number in range(len(reader.entries))]


async def test_a_reader_goes_on_over_a_restart_in_the_middle_of_a_reply(tmp_path: Path) -> None:
    """A run is in the middle of a reply when its server ends; another one goes on with it."""
    gate = Gate()
    reply = [TextDelta("Once "), TextDelta("upon.")]

    def create() -> ServedApp:
        return app(Agent(ScriptedModel(reply), name="teller"), token=TOKEN, store=f"sqlite:///{tmp_path / 'runs.db'}")

    first = create()
    async with serving(first) as server:
        teller = first.agents.agent("teller")
        await first.agents.drive(teller, "r-1", partial(teller.run, "Tell.", run_id="r-1"), [gate])
        async with reading(server, "r-1") as reader:
            await reader.until("Delta")
            first.agents.closing.close()
    assert reader.names[-1] == "bye"
    async with serving(create(), server.port) as second:
        task = asyncio.ensure_future(reader.read(second))
        await reader.until("waiting")
        await second.post("/runs/r-1/resume")
        assert await task == 200
        assert reader.names[-1] == "end"
        count = (await second.get("/runs/r-1"))["entries"]
        assert reader.entries == [str(number) for number in range(1, count + 1)]
        assert (await second.get("/runs/r-1"))["output"] == "Once upon."
        heard = len(reader.heard)
        assert await reader.read(second) == 204  # an EventSource does not come again
        assert len(reader.heard) == heard


async def test_a_run_that_failed_is_followed_again_when_it_was_resumed() -> None:
    agent = Agent(ScriptedModel(ValueError("no"), "Done."), name="a")
    async with serving(app(agent, token=TOKEN)) as server:
        await server.post("/runs", {"agent": "a", "prompt": "x", "run_id": "r-1"}, 201)
        reader = Reader("r-1")
        assert await reader.read(server) == 200
        await server.post("/runs/r-1/resume")
        assert await reader.read(server) == 200
        assert reader.names.count("end") == 2
        assert reader.entries == [str(number + 1) for number in range(len(reader.entries))]


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
async def test_the_stream_of_a_run_that_is_removed_for_a_mistake_ends(stored: bool, tmp_path: Path) -> None:
    heard = asyncio.Event()
    agent = Agent(ScriptedModel([heard, ConfigurationError("a mistake of the caller")]), name="a")
    store = f"sqlite:///{tmp_path / 'runs.db'}" if stored else None
    async with serving(app(agent, token=TOKEN, store=store)) as server:
        await server.post("/runs", {"agent": "a", "prompt": "x", "run_id": "r-1"}, 201)
        async with reading(server, "r-1") as reader:
            await reader.until("Opened")
            heard.set()
        assert reader.names[-1] == "end"
        assert (await server.client.get("/runs/r-1/events")).status_code == 404
        assert "a mistake of the caller" in (await server.get("/runs/r-1", 404))["error"]["message"]


async def test_a_place_that_is_none_is_refused() -> None:
    async with serving(app(Agent(ScriptedModel("x"), name="a"), token=TOKEN)) as server:
        await server.post("/runs", {"agent": "a", "prompt": "x", "run_id": "r-1"}, 201)
        for place in ("x", "1.x", "1.end.2", "-1", "1..", "²", "1.ended"):
            refused = await server.client.get("/runs/r-1/events", params={"after": place})
            assert (refused.status_code, "after" in refused.json()["error"]["message"]) == (422, True), place

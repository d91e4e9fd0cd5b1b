"""Many readers of one run, each at its own pace and from its own place, are served by one reading of the run."""

import asyncio
import random
from typing import Any

import pytest

from tests.samples import amount
from ziggurat import Agent, Approve, ConfigurationError, tool
from ziggurat.errors import LeaseLost
from ziggurat.events import TextDelta
from ziggurat.http.sse import EventParser, ServerEvent
from ziggurat.journal import Row, Store
from ziggurat.messages import tool_call
from ziggurat.serve.feed import EventFeed, Feeds, Position
from ziggurat.serve.sse import KEEP_ALIVE, Closing
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel

WAITS = 2
TEXT = "All is paid, and nothing is left to do."


class Client:
    """A client of a stream, which may be slow, and may go.

    Attributes:
        heard: What it has heard.
        alive: Is set when it is told that the connection is.
        told: Is set when it hears that the run waits, or that the stream ends.
    """

    def __init__(self, feeds: Feeds, agent: Agent, after: Position, pace: int) -> None:
        self.heard: list[ServerEvent] = []
        self.alive = asyncio.Event()
        self.told = asyncio.Event()
        self.after = after
        self._pace = pace
        self._parser = EventParser()
        self._gone = asyncio.Event()
        self.task = asyncio.ensure_future(EventFeed(feeds, agent, "r-1", after)({}, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        for _ in range(self._pace):
            await asyncio.sleep(0)
        if KEEP_ALIVE in message.get("body", b""):
            self.alive.set()
        fresh = self._parser.feed(message.get("body", b""))
        self.heard += fresh
        if {"waiting", "end", "bye"} & {event.event for event in fresh}:
            self.told.set()
        if message["type"] == "http.response.body" and not message["more_body"]:
            self._gone.set()

    def leave(self) -> None:
        self._gone.set()

    @property
    def names(self) -> list[str]:
        return [event.event for event in self.heard]

    @property
    def places(self) -> list[tuple[int, int]]:
        """Of what it has heard, but for what has no id of its own."""
        ids = [event.id.split(".") for event in self.heard if event.event not in ("waiting", "bye", "end")]
        return [(int(number), int(index[0]) if index else 0) for number, *index in ids]

    @property
    def said(self) -> str:
        """The text of the answer, by its pieces."""
        pieces = [event.data for event in self.heard if event.event == "Delta"]
        return "".join(piece.split('"text":"')[1].split('"')[0] for piece in pieces if '"text":"' in piece)


class CountingStore(InMemoryStore):
    """Counts how often records are read.

    Attributes:
        reads: How often.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: int = 0

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return entries; see `Store`."""
        self.reads += 1
        return await super().read(log, after, limit)


def paying(store: Store) -> Agent:
    """Return an agent that waits some times for an approval, and ends with a text in pieces."""

    @tool(effect="once", approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    calls = [tool_call("pay", amount=amount) for amount in range(WAITS)]
    pieces = [TextDelta(word) for word in TEXT]
    return Agent(ScriptedModel(*calls, pieces), name="desk", tools=[pay], store=store)


async def approve(agent: Agent) -> None:
    """Approve what waits, and go on to the next wait, or the end."""
    [items] = (await agent.pending()).values()
    await agent.resume("r-1", {item.id: Approve() for item in items})


async def all_told(clients: list[Client]) -> None:
    """Wait until all clients know that the run waits or has ended."""
    async with asyncio.timeout(10):
        for client in clients:
            await client.told.wait()
            client.told.clear()


@pytest.mark.parametrize("seed", range(amount(12, 40)))
async def test_each_reader_hears_each_entry_once_and_in_order_however_slow_and_from_wherever(seed: int) -> None:
    chance = random.Random(seed)
    agent = paying(InMemoryStore())
    feeds = Feeds(Closing(), chance.choice([1, 600, 3000, 256 * 1024]))
    await agent.run("Pay.", run_id="r-1")
    clients: list[Client] = []
    waits: list[int] = []
    for wait in range(WAITS):
        count = (await agent.attach("r-1").status()).entries
        for _ in range(chance.randint(0, 3)):
            place = Position(chance.randint(0, count))
            clients.append(Client(feeds, agent, place, chance.choice([0, 1, 5, 50])))
            waits.append(wait)
        if clients and chance.random() < 0.3:
            clients.pop().leave()
            waits.pop()
        await all_told(clients)
        await approve(agent)
    await asyncio.gather(*(client.task for client in clients))
    count = (await agent.attach("r-1").status()).entries
    for client, wait in zip(clients, waits, strict=True):
        entries = [number for number, index in client.places if index == 0]
        assert entries == list(range(client.after.number + 1, count + 1))
        assert client.places == sorted(set(client.places))
        assert client.names.count("waiting") == WAITS - wait
        assert client.heard[-1] == ServerEvent("end", "{}", f"{count}.end")


async def test_readers_at_once_hear_each_piece_of_a_reply_once() -> None:
    agent = paying(InMemoryStore())
    feeds = Feeds(Closing())
    await agent.run("Pay.", run_id="r-1")
    clients = [Client(feeds, agent, Position(), pace) for pace in (0, 1, 2, 9)]
    for _ in range(WAITS):
        await all_told(clients)
        await approve(agent)
    await asyncio.gather(*(client.task for client in clients))
    assert [client.said for client in clients] == [TEXT] * 4


async def test_many_readers_cost_the_store_no_more_than_one() -> None:
    reads = []
    for count in (1, 50):
        store = CountingStore()
        agent = paying(store)
        feeds = Feeds(Closing())
        await agent.run("Pay.", run_id="r-1")
        clients = [Client(feeds, agent, Position(), 0) for _ in range(count)]
        before = store.reads
        for _ in range(WAITS):
            await all_told(clients)
            await approve(agent)
        await asyncio.gather(*(client.task for client in clients))
        reads.append(store.reads - before)
    assert reads[0] == reads[1]


async def test_who_stops_reading_keeps_no_more_than_the_limit_and_holds_up_nobody() -> None:
    agent = paying(InMemoryStore())
    feeds = Feeds(Closing(), 600)
    await agent.run("Pay.", run_id="r-1")
    deaf = Client(feeds, agent, Position(), 10**9)
    others = [Client(feeds, agent, Position(), 0) for _ in range(3)]
    for _ in range(WAITS):
        await all_told(others)
        await approve(agent)
    await asyncio.gather(*(client.task for client in others))
    assert deaf.heard == []
    deaf.leave()
    deaf.task.cancel()
    await asyncio.gather(deaf.task, return_exceptions=True)


async def test_readers_are_told_that_the_server_ends_wherever_they_are() -> None:
    agent = paying(InMemoryStore())
    closing = Closing()
    feeds = Feeds(closing)
    await agent.run("Pay.", run_id="r-1")
    clients = [Client(feeds, agent, Position(), pace) for pace in (0, 3, 30)]
    await clients[0].told.wait()
    closing.close()
    clients.append(Client(feeds, agent, Position(), 0))
    await asyncio.gather(*(client.task for client in clients))
    assert [client.names[-1] for client in clients] == ["bye"] * 4


@pytest.mark.parametrize("wrong", [ValueError("no"), OSError("disk")])
async def test_a_record_that_cannot_be_read_is_raised_to_the_server_by_each_reader(wrong: Exception) -> None:
    class Broken(InMemoryStore):
        failing = False

        async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
            if self.failing:
                raise wrong
            return await super().read(log, after, limit)

    store = Broken()
    agent = paying(store)
    await agent.run("Pay.", run_id="r-1")
    store.failing = True
    feeds = Feeds(Closing())
    clients = [Client(feeds, agent, Position(), 0) for _ in range(2)]
    errors = await asyncio.gather(*(client.task for client in clients), return_exceptions=True)
    assert errors == [wrong, wrong]


async def test_a_run_that_has_lost_its_process_waits_for_whoever_goes_on_with_it() -> None:
    clock, gate = HandClock(), asyncio.Event()
    store = InMemoryStore(clock=clock)
    lost = Agent(ScriptedModel(["Once ", gate]), name="desk", store=store)
    beside = InMemoryStore(clock=clock, shared=store)
    whole = Agent(ScriptedModel("Done."), name="desk", store=beside)
    handle = lost.start("Go.", run_id="r-1")
    await handle.recorded()
    client = Client(Feeds(Closing(), heartbeat=0.01), whole, Position(), 0)
    await client.alive.wait()
    assert "waiting" not in client.names
    assert (await whole.attach("r-1").status()).driven
    await clock.advance(31)
    await all_told([client])
    assert not (await whole.attach("r-1").status()).driven
    assert not (await whole.attach("r-1").status()).driven
    assert (await whole.recover()).runs["r-1"].output == "Done."
    await client.task
    assert client.names[-1] == "end"
    assert client.names.count("waiting") == 1
    gate.set()
    with pytest.raises(LeaseLost):
        await handle.result()


async def test_a_run_that_stops_without_an_end_waits_for_whoever_goes_on_with_it() -> None:
    """A mistake, such as a model that has no reply, is no end of a run; it is gone on with when it is mended."""
    store, looking, seen = InMemoryStore(), asyncio.Event(), asyncio.Event()

    @tool
    async def look() -> str:
        """Look."""
        looking.set()
        await seen.wait()
        return "nothing"

    broken = Agent(ScriptedModel(tool_call("look")), name="desk", tools=[look], store=store)
    whole = Agent(ScriptedModel(tool_call("look"), "Done.", per_run=True), name="desk", tools=[look], store=store)
    running = asyncio.ensure_future(broken.run("Go.", run_id="r-1"))
    await looking.wait()
    client = Client(Feeds(Closing()), broken, Position(), 0)
    await asyncio.sleep(0)
    seen.set()
    with pytest.raises(ConfigurationError):
        await running
    await all_told([client])
    assert client.names[-1] == "waiting"
    await whole.resume("r-1")
    await client.task
    assert client.names[-1] == "end"
    assert client.names.count("Opened") == 2

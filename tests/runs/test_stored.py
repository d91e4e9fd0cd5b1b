"""Runs in stores: begun, resumed as by another process, answered from the record, followed, fenced."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import PLACES, Place, opening
from ziggurat import Agent, Approve, ConfigurationError, tool
from ziggurat.agents import DidNotHappen, Environment, Happened
from ziggurat.errors import JournalCorrupt, LeaseHeld, LeaseLost, RunExists, RunNotFound, StoreError
from ziggurat.journal import LogInfo, Row, Store
from ziggurat.journal.entries import Ended, Opened
from ziggurat.journal.store import run_log
from ziggurat.messages import stops, tool_call
from ziggurat.stores import FileStore, InMemoryStore, SqliteStore, connect
from ziggurat.testing import HandClock, ScriptedModel, ScriptedReply


class World:
    """Records the actions of the tools, outside the runs."""

    def __init__(self) -> None:
        self.looked = 0
        self.sent: list[str] = []

    def agent(self, store: Store | str, *replies: object, name: str = "agent") -> Agent:
        @tool
        def look_up(name: str) -> str:
            self.looked += 1
            return f"{name}@example.org"

        @tool(effect="once", approval=True)
        def send_mail(to: str) -> str:
            self.sent.append(to)
            return "sent"

        said = replies or (tool_call("look_up", name="ada"), tool_call("send_mail", to="ada"), "Sent.")
        return Agent(ScriptedModel(*said), tools=[look_up, send_mail], store=store, name=name)  # type: ignore[arg-type]


@pytest.fixture(params=sample(PLACES, 2))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


async def test_a_run_waits_and_goes_on_in_another_process(place: Place) -> None:
    world = World()

    run = await world.agent(place()).run("Write to Ada", run_id="r")
    assert run.stop == stops.Suspended()
    assert not world.sent
    later = world.agent(place(), "Sent.")
    run = await later.resume("r", {item.id: Approve() for item in run.pending})
    assert (run.text, run.steps) == ("Sent.", 3)
    assert (world.looked, world.sent) == (1, ["ada"])
    assert run.usage.requests == 3


async def test_the_same_id_and_request_is_the_same_run(place: Place) -> None:
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
    with pytest.raises(RunNotFound, match="clerk"):
        await World().agent(store, "x", name="clerk").resume("r")
    with pytest.raises(RunNotFound, match="'s'"):
        await silent.resume("s")


class _LateStore(FileStore):
    """A store on which a look-up happens just before another process begins the run."""

    looks = 0

    async def find(self, log: str) -> LogInfo | None:
        self.looks += 1
        return None if self.looks == 1 else await super().find(log)


async def test_a_run_that_another_process_begins_meanwhile_is_the_same_run(tmp_path: Path) -> None:
    stores = [FileStore(tmp_path), _LateStore(tmp_path), _LateStore(tmp_path)]
    first = await World().agent(stores[0], "Hello.").run("Hi", run_id="r")
    again = await World().agent(stores[1], "never said").run("Hi", run_id="r")
    assert again.messages == first.messages
    with pytest.raises(RunExists, match="another request"):
        await World().agent(stores[2], "never said").run("Bye", run_id="r")
    for store in stores:
        await store.close()


async def test_a_run_is_replayed_and_followed_from_its_record(place: Place) -> None:
    world = World()
    first = world.agent(place())
    run = await first.run("Write to Ada", run_id="r")
    run = await first.resume("r", {item.id: Approve() for item in run.pending})
    other = World().agent(place())
    assert (await other.replay("r")).messages == run.messages
    heard = [each async for each in other.attach("r").events()]
    assert [each.number for each in heard] == list(range(1, len(heard) + 1))
    assert isinstance(heard[0].what, Opened)
    assert isinstance(heard[-1].what, Ended)
    assert [each.number async for each in other.attach("r").events(after=5)] == [each.number for each in heard[5:]]


ENOUGH = 8
"""The number of batches that a run of `_payer` writes after its first entry."""


class Failing(InMemoryStore):
    """A store whose disk is full from the k-th write until there is room again."""

    def __init__(self, shared: InMemoryStore, after: int) -> None:
        super().__init__(shared=shared)
        self.left = after

    def append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes] | None = None,
        *,
        release: bool = False,
        due: float | None = None,
        read: int | None = None,
    ) -> Awaitable[None]:
        self.left -= 1
        if self.left < 0:
            done = asyncio.get_running_loop().create_future()
            done.set_exception(StoreError("the disk is full"))
            return done
        return super().append(log, epoch, rows, blobs, release=release, due=due, read=read)


def _payer(store: Store, paid: list[str]) -> Agent:
    @tool
    def look_up(name: str) -> str:
        return name

    @tool(effect="once")
    def pay(to: str) -> str:
        paid.append(to)
        return "paid"

    replies: list[ScriptedReply] = [tool_call("look_up", name="x"), tool_call("pay", to="x"), "done"]
    model = ScriptedModel(always=lambda request: replies[sum(m.role == "assistant" for m in request.messages)])
    return Agent(model, tools=[look_up, pay], store=store)


async def test_when_the_disk_is_full_nothing_is_done_that_is_not_on_record_and_the_run_goes_on_later() -> None:
    async def at(writes: int) -> bool:
        place = InMemoryStore()
        paid: list[str] = []
        full = Failing(place, writes)
        running = _payer(full, paid).run("go", run_id="r")
        if full.left >= ENOUGH:
            assert (await running).text == "done"
            return True
        with pytest.raises(StoreError, match="the disk is full"):
            await running
        intents = [row for row in await place.read(run_log("r")) if b'"Intent"' in row.data and b'"pay"' in row.data]
        assert len(paid) <= len(intents), "nobody pays whose intent is not stored"
        await full.close()
        agent = _payer(InMemoryStore(shared=place), paid)
        run = await agent.resume("r")
        if run.pending:  # a person finds out
            run = await agent.resume("r", {run.pending[0].id: Happened("paid") if paid else DidNotHappen()})
        assert (run.text, run.observations[1], paid) == ("done", "paid", ["x"])
        return False

    writes = 0
    while not await at(writes):
        writes += 1
    assert writes == ENOUGH


async def test_points_are_told_before_and_after_what_is_written(place: Place) -> None:
    told: list[str] = []
    await _payer(place(), []).run(
        "go", run_id="r", environment=Environment(probe=lambda when, path: told.append(f"{when} {path}"))
    )
    assert told.index("before intent agent/step-2/tool-1:pay") < told.index("after intent agent/step-2/tool-1:pay")
    assert told.index("after intent agent/step-2/tool-1:pay") < told.index("before result agent/step-2/tool-1:pay")
    assert told[-2:] == ["before end ", "after end "]


@pytest.mark.parametrize("kind", ["BLOB", "TEXT"])
async def test_a_damaged_run_is_named_and_set_apart_and_others_go_on(kind: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db", synchronous="NORMAL")
    for name in ("bad", "good"):
        await World().agent(store).run("Write to Ada", run_id=name)
    await store.close()
    with sqlite3.connect(tmp_path / "x.db") as connection:
        changed = f"CAST(replace(CAST(data AS TEXT), 'ada', 'eve') AS {kind})"
        connection.execute(f"UPDATE rows SET data = {changed} WHERE number = 4 AND id = 1")
    connection.close()
    store = SqliteStore(tmp_path / "x.db")
    agent = World().agent(store, "Sent.")
    for _ in range(2):
        with pytest.raises(JournalCorrupt, match="entry 4 of run:bad"):
            await agent.resume("bad")
    info = await store.find(run_log("bad"))
    assert info is not None
    assert info.status == "Quarantined"
    assert (await agent.resume("good")).stop == stops.Suspended()
    await store.close()


async def test_two_processes_do_not_drive_one_run_and_the_one_that_was_stopped_is_refused() -> None:
    place, clock = InMemoryStore(), HandClock()
    holding, reached = asyncio.Event(), asyncio.Event()
    did: list[str] = []

    def agent(store: Store, name: str) -> Agent:
        @tool
        async def work() -> str:
            if name == "first":
                reached.set()
                await holding.wait()
            return name

        @tool
        def act() -> str:
            did.append(name)
            return name

        turns: list[ScriptedReply] = [tool_call("work"), tool_call("act"), "done"]
        model = ScriptedModel(always=lambda request: turns[sum(m.role == "assistant" for m in request.messages)])
        return Agent(model, tools=[work, act], store=store)

    first = asyncio.ensure_future(agent(InMemoryStore(shared=place), "first").run("go", run_id="r"))
    await reached.wait()
    second = agent(InMemoryStore(shared=place, clock=clock), "second")
    place._logs[run_log("r")].until = clock.now() + 30
    with pytest.raises(LeaseHeld):
        await second.resume("r")
    await clock.advance(60)
    assert (await second.resume("r")).text == "done"
    holding.set()
    with pytest.raises(LeaseLost):
        await first
    assert did == ["second"]


async def test_large_values_are_kept_beside_the_record(place: Place) -> None:
    store, large = place(), "ä" * 200_000
    await World().agent(store, large).run("Hi", run_id="r")
    assert all(len(row.data) < 100_000 for row in await store.read(run_log("r")))
    again = await World().agent(place(), "other").run("Hi", run_id="r")
    assert again.text == large


async def test_many_runs_at_once_keep_apart(place: Place) -> None:
    store = place()
    agents = [World().agent(store, tool_call("look_up", name=str(n)), f"it is {n}") for n in range(20)]
    runs = await asyncio.gather(*(agent.run("go", run_id=f"r{n}") for n, agent in enumerate(agents)))
    assert [run.text for run in runs] == [f"it is {n}" for n in range(20)]
    for n in range(20):
        replayed = await World().agent(place(), "x").replay(f"r{n}")
        assert replayed.text == f"it is {n}"


async def test_addresses_open_stores(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/a.db?synchronous=NORMAL", f"file://{tmp_path}/runs"):
        agent = World().agent(url, "Hello.")
        assert (await agent.run("Hi", run_id="r")).text == "Hello."
        assert connect(url) is agent.store
        await agent.store.close()
        assert connect(url) is not agent.store
        assert (await World().agent(url, "never").run("Hi", run_id="r")).text == "Hello."
        await connect(url).close()


async def test_the_path_of_a_folder_is_absolute(tmp_path: Path) -> None:
    store = connect(f"file://{tmp_path}/runs")
    assert connect(f"file:///{tmp_path}/runs") is store
    await store.close()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://x", "no store is known"),
        ("sqlite://x.db", "three slashes"),
        ("sqlite:///", "names no file"),
        ("sqlite:///..", "names no file"),
        ("file:///", "names no folder"),
        ("file:///.", "names no folder"),
        ("file:////../", "names no folder"),
        ("sqlite:///:memory:", "memory:"),
        ("sqlite:///x.db?synchronous=OFF", "FULL or NORMAL"),
        ("sqlite:///x.db?mode=ro", "unknown options mode"),
        ("sqlite:///x.db?timeout=-1", "positive number of seconds"),
        ("file:///x?synchronous=NORMAL", "unknown options synchronous"),
        ("file://x", "file:///var"),
        ("file:///no_such_folder", "absolute"),
        ("file:///./no_such_folder", "absolute"),
        ("file:///../no_such_folder/runs", "absolute"),
        ("file:///~/runs", f"write file://{Path.home()}/runs"),
        ("sqlite:///~/runs.db", f"write sqlite:///{Path.home()}/runs.db"),
        (17, "methods of a Store"),
    ],
)
def test_addresses_that_mean_nothing_are_refused(url: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        connect(url)


ODD = ["../x", "a/b", "/etc/x", "..", ".", "~", "a:b", "@", "x" * 500, "A/B", "a|b,c=+d"]
REFUSED = [" ", "a b", "a\nb", "%2e", "ü" * 500, "'; --", 'x"', "a\x1b[2J", "--help"]


async def test_odd_ids_stay_apart_and_within_their_store(place: Place, tmp_path: Path) -> None:
    for number, odd in enumerate(ODD):
        run = await Agent(ScriptedModel(str(number)), store=place()).run("Go", run_id=odd)
        assert (run.id, run.text) == (odd, str(number))
    for number, odd in enumerate(ODD):
        assert (await Agent(ScriptedModel("other"), store=place()).resume(odd)).text == str(number)
    assert all(each.name.startswith("runs") for each in tmp_path.iterdir())


async def test_new_ids_that_are_not_safe_are_refused_before_anything_is_stored(place: Place) -> None:
    agent = Agent(ScriptedModel(always="Hello"), store=place())
    for odd in REFUSED:
        places: list[dict[str, Any]] = [
            {"run_id": odd},
            {"run_id": odd, "session": "s"},
            {"session": odd if odd.strip() else "a b"},
            {"environment": Environment(ids=partial(str, odd))},
        ]
        for refused in places:
            with pytest.raises(ConfigurationError, match="ASCII"):
                await agent.run("Go", **refused)
    assert await agent.store.logs() == []
    await agent.run("Go", run_id="r")
    for odd in REFUSED:
        with pytest.raises(ConfigurationError, match="new_id"):
            await agent.fork("r", 1, new_id=odd)


async def test_a_run_stored_under_such_an_id_goes_on(place: Place) -> None:
    agent = Agent(ScriptedModel(always="Hello"), store=place())
    first = await agent.run("Go", run_id="r")
    rows, info = await agent.store.read(run_log("r")), await agent.store.find(run_log("r"))
    assert info is not None
    for number, odd in enumerate(REFUSED):
        epoch = await agent.store.create(LogInfo(run_log(odd), info.agent, info.request, info.created), rows)
        await agent.store.release(run_log(odd), epoch)
        for again in (agent.run("Go", run_id=odd), agent.resume(odd), agent.replay(odd)):
            assert (await again).text == first.text
        assert (await agent.fork(odd, 1, effects="recorded", new_id=f"f{number}")).id == f"f{number}"


@pytest.mark.parametrize("limit", ["x", 0, -1, True, 1.5])
def test_a_store_of_this_process_keeps_a_number_of_runs(limit: int) -> None:
    with pytest.raises(ConfigurationError, match="limit"):
        InMemoryStore(limit=limit)


@pytest.mark.parametrize("address", ["memory:", "sqlite:///{}/runs.db", "file:///{}/runs"])
async def test_whoever_closes_a_store_need_not_know_which(address: str, tmp_path: Path) -> None:
    store = connect(address.format(tmp_path))
    assert (await Agent(ScriptedModel("Hello"), store=store).run("Go", run_id="r")).text == "Hello"
    await store.close()
    place = store if isinstance(store, InMemoryStore) else None
    again: Store = InMemoryStore(shared=place) if place is not None else connect(address.format(tmp_path))
    assert (await Agent(ScriptedModel("never"), store=again).resume("r")).text == "Hello"
    await again.close()


@pytest.mark.parametrize("begun", [True, False])
async def test_a_run_belongs_to_its_agent_for_every_verb(begun: bool) -> None:
    store = InMemoryStore()
    names = ["one", "a/b:c%d"]
    own, other = (Agent(ScriptedModel(always="Hello."), name=name, store=store) for name in names)
    for run_id, agent in zip("rs", (own, other), strict=True):
        await (agent.run("Hi", run_id=run_id) if begun else agent.submit("Hi", run_id=run_id))
    for run_id, stranger in zip("rs", (other, own), strict=True):
        verbs = (
            stranger.resume(run_id),
            stranger.replay(run_id),
            stranger.fork(run_id, 1),
            stranger.attach(run_id).decide({}),
            stranger.attach(run_id).result(),
        )
        for verb in verbs:
            with pytest.raises(RunNotFound, match="was not started by"):
                await verb
    for run_id, agent in zip("rs", (own, other), strict=True):
        assert (await agent.resume(run_id)).text == "Hello."

"""Logs that end before their last acknowledged row: refused, and gone on with once that is accepted."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.samples import sample
from tests.stores.cut import cut
from tests.stores.server import asked, schema
from ziggurat import Agent, tool
from ziggurat.errors import JournalCorrupt, RunNotFound
from ziggurat.journal import Store, accept_loss
from ziggurat.journal.store import run_log
from ziggurat.messages import tool_call
from ziggurat.stores import InMemoryStore, connect
from ziggurat.testing import ScriptedModel

KINDS = ("sqlite", "postgres")
RUN = run_log("r")


class Damaged:
    """A store whose rows can be cut from outside."""

    def __init__(self, kind: str, folder: Path) -> None:
        urls = {"sqlite": f"sqlite:///{folder}/runs.db", "file": f"file://{folder}/runs"}
        self.url = urls.get(kind) or schema()

    def open(self) -> Store:
        store = connect(self.url)
        assert isinstance(store, Store)
        return store

    def cut(self, count: int) -> None:
        """Remove all rows of the run but the first few."""
        cut(self.url, RUN, count)


class World:
    """An agent with a tool that must run once."""

    def __init__(self, *, approval: bool = False) -> None:
        self.approval = approval
        self.paid = 0

    def agent(self, store: Store) -> Agent:
        @tool(effect="once", approval=self.approval)
        async def pay() -> str:
            self.paid += 1
            return "paid"

        return Agent(ScriptedModel(tool_call("pay"), "done"), tools=[pay], store=store, name="desk")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_whose_end_is_lost_is_refused_until_that_is_accepted(kind: str, tmp_path: Path) -> None:
    place, world = Damaged(kind, tmp_path), World()
    store = place.open()
    await world.agent(store).run("go", run_id="r")
    count = len(await store.read(RUN))
    await store.close()
    place.cut(2)
    for _ in range(2):  # trying does not accept
        store = place.open()
        with pytest.raises(JournalCorrupt, match=f"3 to {count}"):
            await world.agent(store).run("go", run_id="r")
        with pytest.raises(JournalCorrupt, match="ziggurat accept-loss 'r'"):
            await world.agent(store).resume("r")
        await store.close()
    assert world.paid == 1
    store = place.open()
    assert await accept_loss(store, RUN) == range(3, count + 1)
    assert await accept_loss(store, RUN) == range(4, 4)
    await store.close()
    store = place.open()
    run = await world.agent(store).resume("r")
    assert run.text == "done"
    assert world.paid == 2  # as was accepted
    assert b'"entry":"LossAccepted"' in (await store.read(RUN))[2].data
    assert (await world.agent(store).replay("r")).text == "done"
    await store.close()


@pytest.mark.parametrize("kind", sample(KINDS, 1))
async def test_a_run_of_which_nothing_is_left_is_not_begun_anew_in_silence(kind: str, tmp_path: Path) -> None:
    place, world = Damaged(kind, tmp_path), World()
    store = place.open()
    await world.agent(store).run("go", run_id="r")
    count = len(await store.read(RUN))
    await store.close()
    place.cut(0)
    store = place.open()
    for work in (world.agent(store).run("go", run_id="r"), world.agent(store).resume("r")):
        with pytest.raises(JournalCorrupt, match=rf"no entries.*{count}"):
            await work
    assert world.paid == 1
    assert await accept_loss(store, RUN) == range(1, count + 1)
    with pytest.raises(RunNotFound):
        await world.agent(store).resume("r")
    assert (await world.agent(store).run("go", run_id="r")).text == "done"
    assert world.paid == 2
    await store.close()


async def test_nothing_is_accepted_where_nothing_is_lost_or_remembered(tmp_path: Path) -> None:
    rows = InMemoryStore()
    await World().agent(rows).run("go", run_id="r")
    assert not await accept_loss(rows, RUN)
    store = Damaged("sqlite", tmp_path).open()
    assert not await accept_loss(store, RUN)
    await World().agent(store).run("go", run_id="r")
    before = await store.read(RUN)
    assert not await accept_loss(store, RUN)
    assert await store.read(RUN) == before
    await store.close()


async def test_a_store_without_marks_is_opened_without_complaint_and_marked_from_then_on(tmp_path: Path) -> None:
    place, world = Damaged("sqlite", tmp_path), World(approval=True)

    async def opened(begin: bool = False) -> int:
        store = place.open()
        try:
            agent = world.agent(store)
            run = await (agent.run("go", run_id="r") if begin else agent.resume("r"))
            assert run.pending
            return len(await store.read(RUN))
        finally:
            await store.close()

    await opened(begin=True)
    (tmp_path / "runs.db-ziggurat").unlink()
    place.cut(2)
    count = await opened()
    place.cut(2)
    with pytest.raises(JournalCorrupt, match=f"entry {count} was acknowledged"):
        await opened()


async def test_a_database_that_was_deleted_leaves_no_marks(tmp_path: Path) -> None:
    place, world = Damaged("sqlite", tmp_path), World()
    for number in (1, 2):
        store = place.open()
        assert (await world.agent(store).run("go", run_id="r")).text == "done"
        assert world.paid == number
        await store.close()
        (tmp_path / "runs.db").unlink()


async def test_a_database_has_one_file_of_marks_by_whatever_link_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    place, world = Damaged("sqlite", tmp_path / "folder"), World()
    store = place.open()
    await world.agent(store).run("go", run_id="r")
    await store.close()
    (tmp_path / "link.db").symlink_to(tmp_path / "folder/runs.db")
    store = connect(f"sqlite:///{tmp_path}/link.db")
    assert await store.delete(RUN)
    await store.close()
    store = place.open()
    assert (await world.agent(store).run("go", run_id="r")).text == "done"
    await store.close()


@pytest.mark.parametrize(("kind", "status"), [("sqlite", "Completed"), ("file", "Suspendee"), ("postgres", "")])
async def test_a_run_that_has_ended_by_its_status_only_is_refused_and_calls_nothing(
    kind: str, status: str, tmp_path: Path
) -> None:
    place, world = Damaged(kind, tmp_path), World(approval=True)
    store = place.open()
    await world.agent(store).run("go", run_id="r")
    await store.close()
    statement = f"UPDATE logs SET status = '{status}' WHERE log = '{RUN}'"
    if kind == "postgres":
        asked(place.url, statement)
    elif kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as connection:
            connection.execute(statement)
    else:
        (path,) = tmp_path.glob("runs/logs/run*/log.jsonl")
        path.write_bytes(path.read_bytes().replace(b'"status":"Suspended"', b'"status":"%b"' % status.encode()))
    store = place.open()
    for work in (world.agent(store).run("go", run_id="r"), world.agent(store).resume("r")):
        with pytest.raises(JournalCorrupt, match="status"):
            await work
    await store.close()

"""Tests of the SQLite store: formats, leases, many runs, large values, and removal during writes."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ziggurat import Agent
from ziggurat.databases import sqlite as sqlite_connection
from ziggurat.databases.sqlite import MIGRATIONS, SqliteConnection, has_wal_reset_bug
from ziggurat.errors import CallerError, ConfigurationError, LeaseHeld, LeaseLost, StoreError
from ziggurat.journal import LogInfo, Row
from ziggurat.messages import stops, tool_call
from ziggurat.stores import SqliteStore
from ziggurat.testing import HandClock, ScriptedModel
from ziggurat.testing.stores import rows


def _store(path: Path, **options: object) -> SqliteStore:
    return SqliteStore(path / "runs.db", synchronous="NORMAL", **options)  # type: ignore[arg-type]


async def _found(path: Path) -> LogInfo | None:
    store = _store(path)
    try:
        return await store.find("run:r")
    finally:
        await store.close()


async def test_every_version_of_the_format_becomes_the_newest_and_keeps_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(tmp_path)
    await store.create(LogInfo("run:r", "agent"), rows(3))
    await store.close()
    monkeypatch.setattr(sqlite_connection, "MIGRATIONS", (*MIGRATIONS, ("ALTER TABLE logs ADD COLUMN more TEXT",)))
    info = await _found(tmp_path)
    assert info is not None
    assert (info.agent, info.count) == ("agent", 3)
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)
        connection.execute("SELECT more FROM logs")
    connection.close()
    monkeypatch.undo()
    with pytest.raises(StoreError, match="newer version"):
        await _found(tmp_path)


async def test_a_migration_that_fails_leaves_the_version_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await _found(tmp_path) is None
    broken = ("ALTER TABLE logs ADD COLUMN more TEXT", "CREATE nonsense")
    monkeypatch.setattr(sqlite_connection, "MIGRATIONS", (*MIGRATIONS, broken))
    with pytest.raises(StoreError, match="nonsense"):
        await _found(tmp_path)
    monkeypatch.undo()
    assert await _found(tmp_path) is None


def _made(path: Path, *statements: str) -> None:
    """Make a database as another program would."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)


_FOREIGN: dict[str, tuple[str, ...]] = {
    "tables": ("CREATE TABLE theirs (x)",),
    "wal": ("PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)"),
    "marked": ("PRAGMA application_id = 7",),
    "versioned": ("PRAGMA user_version = 7",),
}


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("kind", _FOREIGN)
async def test_a_database_of_another_program_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, guarded: bool
) -> None:
    monkeypatch.setattr(sqlite_connection, "has_wal_reset_bug", lambda: guarded)
    path = tmp_path / "runs.db"
    _made(path, *_FOREIGN[kind])
    before = path.read_bytes()
    store = _store(tmp_path)
    for attempt in (store.find("run:r"), store.create(LogInfo("run:r", "agent"), rows(1))):
        with pytest.raises(StoreError, match="another program"):
            await attempt
    await store.close()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path], "nothing is left beside it"


@pytest.mark.parametrize("statements", [("PRAGMA journal_mode = WAL",), ("CREATE TABLE a (x)", "DROP TABLE a"), ()])
async def test_an_empty_database_is_taken(tmp_path: Path, statements: tuple[str, ...]) -> None:
    _made(tmp_path / "runs.db", *statements)
    assert await _found(tmp_path) is None


async def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("hello, I am a letter")
    with pytest.raises(StoreError, match="is not a database"):
        await _found(tmp_path)
    assert (tmp_path / "runs.db").read_text() == "hello, I am a letter"
    assert [each.name for each in tmp_path.iterdir()] == ["runs.db"]
    (tmp_path / "folder" / "runs.db").mkdir(parents=True)
    with pytest.raises(StoreError, match="is not a regular file"):
        await _found(tmp_path / "folder")
    assert [each.name for each in (tmp_path / "folder").iterdir()] == ["runs.db"]


_HOT = bytes.fromhex("d9d505f920a163d7 00000000 7b3a09c4 00000000 00000200 00001000").ljust(512, b"\0")
"""The rollback journal of a database of which nothing was written before."""


@pytest.mark.parametrize("guarded", [False, True])
async def test_a_database_that_was_being_created_when_power_was_lost_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    monkeypatch.setattr(sqlite_connection, "has_wal_reset_bug", lambda: guarded)
    _made(tmp_path / "whole.db", "PRAGMA journal_mode = WAL")
    for left in (0, 1, 15, 16, 18, 99, 100, 512, 4095):
        page = (tmp_path / "whole.db").read_bytes()[:left]
        for name, torn in {"short": page, "zeros": page.ljust(4096, b"\0")}.items():
            folder = tmp_path / f"{name}-{left}"
            folder.mkdir()
            (folder / "runs.db").write_bytes(torn)
            (folder / "runs.db-journal").write_bytes(_HOT)
            assert await _found(folder) is None


async def test_a_damaged_database_is_not_created_again(tmp_path: Path) -> None:
    await _found(tmp_path)
    damaged = b"?" * 16 + (tmp_path / "runs.db").read_bytes()[16:]
    (tmp_path / "runs.db").write_bytes(damaged)
    for journal in (None, b"a file of another program"):
        if journal is not None:
            (tmp_path / "runs.db-journal").write_bytes(journal)
        with pytest.raises(StoreError, match="is not a database"):
            await _found(tmp_path)
        assert (tmp_path / "runs.db").read_bytes() == damaged
    assert (tmp_path / "runs.db-journal").exists()


def test_a_connection_that_was_never_made_is_closed_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "has_wal_reset_bug", lambda: True)
    (tmp_path / "runs.db-ziggurat").mkdir()
    connection = SqliteConnection(tmp_path / "runs.db", "FULL", 1.0, sqlite3.connect)
    with pytest.raises(StoreError, match=r"runs\.db-ziggurat"):
        connection.reading(lambda: None)
    connection.close()
    assert not (tmp_path / "runs.db").exists()


def test_versions_that_may_damage_a_database_are_known() -> None:
    assert all(map(has_wal_reset_bug, [(3, 40, 1), (3, 44, 5), (3, 50, 6), (3, 51, 2)]))
    assert not any(map(has_wal_reset_bug, [(3, 6, 23), (3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 53, 0)]))


async def test_a_lease_is_renewed_while_its_store_lives_and_passes_on_when_it_does_not(tmp_path: Path) -> None:
    clock = HandClock()
    holder, other = _store(tmp_path, clock=clock, lease=0.04), _store(tmp_path, clock=clock, lease=0.04)
    epoch = await holder.create(LogInfo("run:r"), rows(1))
    for _ in range(3):
        await clock.advance(0.03)
        renewed, until = clock.now() + 0.04, 0.0
        while until < renewed:  # its thread sees to it between jobs, and goes by the time of the system
            await holder.find("run:other")
            with sqlite3.connect(tmp_path / "runs.db") as connection:
                until = connection.execute("SELECT until FROM logs").fetchone()[0]
            connection.close()
        with pytest.raises(LeaseHeld):
            await other.lease("run:r")
    await holder._writer.finish()  # it is stopped without a word
    await clock.advance(0.05)
    assert await other.lease("run:r") > epoch
    await other.close()


async def test_a_clock_that_jumps_takes_no_lease_from_a_writer_that_nobody_followed(tmp_path: Path) -> None:
    clock = HandClock()
    holder, other = _store(tmp_path, clock=clock), _store(tmp_path, clock=clock)
    epoch = await holder.create(LogInfo("run:r"), rows(2)[:1])
    await clock.advance(3600)
    await holder.append("run:r", epoch, rows(2)[1:])  # its time is over, and nobody took it
    await clock.advance(3600)
    await other.lease("run:r")
    with pytest.raises(LeaseLost):
        await holder.append("run:r", epoch, [Row(3, "", b"{}")])
    await holder.close()
    await other.close()


async def test_a_log_removed_and_made_anew_by_another_takes_no_rows_of_its_former_writer(tmp_path: Path) -> None:
    one, two = _store(tmp_path), _store(tmp_path)
    epoch = await one.create(LogInfo("run:r"), rows(1))
    await two.delete("run:r")
    assert await two.create(LogInfo("run:r"), rows(1)) == epoch
    with pytest.raises(LeaseLost):
        await one.append("run:r", epoch, [Row(2, "", b"{}")])
    for store in (one, two):
        await store.close()


async def test_when_it_was_changed_is_told_here_at_once_and_elsewhere_when_the_lease_is_renewed(tmp_path: Path) -> None:
    clock = HandClock()
    holder, other = _store(tmp_path, clock=clock), _store(tmp_path, clock=clock)
    epoch = await holder.create(LogInfo("run:r"), rows(2)[:1])
    began = clock.now()
    await clock.advance(5)
    await holder.append("run:r", epoch, rows(2)[1:])
    here, there = await holder.find("run:r"), await other.find("run:r")
    assert here is not None
    assert there is not None
    assert (here.updated, here.count) == (began + 5, 2)
    assert (there.updated, there.count) == (began, 2)
    assert [info.updated for info in await holder.logs()] == [began + 5]
    assert [info.updated for info in await other.logs()] == [began + 5]
    await holder.close()
    await other.close()


async def test_of_ten_thousand_runs_only_those_that_are_listed_are_looked_at(tmp_path: Path) -> None:
    steps = 0

    def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        def step() -> None:
            nonlocal steps
            steps += 1

        connection: sqlite3.Connection = sqlite3.connect(*arguments, **options)
        connection.set_progress_handler(step, 1)
        return connection

    store = _store(tmp_path, connect=counted)
    await store.find("run:r")
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.executemany(
            "INSERT INTO logs (id, log, agent, request, created, status, updated, owner, problem, until, epoch) "
            "VALUES (?, ?, 'a', '', 1, ?, ?, '', '', 0, 1)",
            [(n, f"run:{n}", "Completed" if n % 2 else "Failed", float(n)) for n in range(1, 10_001)],
        )
        connection.executemany(
            "INSERT INTO rows VALUES (?, ?, '', x'7b7d', 'Completed')",
            [(n, m) for n in range(1, 10_001) for m in (1, 2, 3)],
        )
    connection.close()
    steps = 0
    found = await store.logs("run:", status="Failed", limit=50)
    took = steps
    assert [info.log for info in found[:2]] == ["run:10000", "run:9998"]
    assert {info.count for info in found} == {3}
    assert len(await store.logs("run:", limit=20_000)) == 10_000
    await store.close()
    assert 50 < took < 10_000


async def look() -> str:
    """Look."""
    return "seen"


async def test_one_id_begun_twice_at_once_is_begun_once(tmp_path: Path) -> None:
    stores = [_store(tmp_path), _store(tmp_path)]
    model = ScriptedModel(always="done")
    for at, (left, right) in enumerate([(stores[0], stores[0]), (stores[0], stores[1])]):
        agents = [Agent(model, store=store, name="one") for store in (left, right)]
        outcomes = await asyncio.gather(
            *(agent.run("go", run_id=f"r-{at}") for agent in agents), return_exceptions=True
        )
        ended = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert ended
        assert all(run.text == "done" for run in ended)
        assert all(isinstance(error, (CallerError, LeaseHeld)) for error in refused)
        again = await Agent(model, store=left, name="one").run("go", run_id=f"r-{at}")
        assert again.messages == ended[0].messages
    assert len(model.calls) == 2
    for store in stores:
        await store.close()


async def test_old_runs_are_removed_while_others_go_on(tmp_path: Path) -> None:
    store = _store(tmp_path)
    replies = [tool_call("look") for _ in range(30)]
    old = [Agent(ScriptedModel("done"), store=store).run("go", run_id=f"old-{n}") for n in range(20)]
    await asyncio.gather(*old)
    before = max(info.updated for info in await store.logs()) + 1e-6
    agents = [Agent(ScriptedModel(*replies, "done"), tools=[look], max_steps=40, store=store) for _ in range(5)]
    going = [asyncio.ensure_future(agent.run("go", run_id=f"new-{n}")) for n, agent in enumerate(agents)]
    removed = 0
    while removed < 20:
        removed += await store.vacuum(before)
    runs = await asyncio.gather(*going)
    assert {run.stop for run in runs} == {stops.Completed()}
    assert sorted(info.id for info in await store.logs("run:")) == [f"new-{n}" for n in range(5)]
    await store.close()


async def test_a_database_of_an_earlier_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await _found(tmp_path)
    for version in range(1, len(MIGRATIONS)):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        store = _store(tmp_path)
        for work in (store.find("run:r"), store.create(LogInfo("run:r"))):
            with pytest.raises(ConfigurationError, match=f"format {version}"):
                await work
        await store.close()

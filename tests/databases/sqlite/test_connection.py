"""Tests of the SQLite connection: which writes are immediate, and which are left to transactions that wait."""

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ziggurat.core import LogInfo
from ziggurat.databases.sqlite import connection as sqlite_connection
from ziggurat.databases.sqlite.connection import SqliteConnection, WouldWait
from ziggurat.errors import StoreError
from ziggurat.stores import SqliteStore

INSERT = "INSERT INTO rows (id, number, digest, data, status) VALUES (1, ?, '', ?, '')"


def _opened(folder: Path, synchronous: str = "NORMAL", timeout: float = 5.0) -> SqliteConnection:
    """Return a connection that has written."""
    database = SqliteConnection(folder / "runs.db", synchronous, timeout, sqlite3.connect)
    database.transaction(_row(database, -1))
    return database


def _row(database: SqliteConnection, number: int, size: int = 100) -> Callable[[], object]:
    return lambda: database.execute(INSERT, (number, b"x" * size))


def _at_once(database: SqliteConnection, work: Callable[[], object]) -> bool:
    """Run something at once if possible; return whether it ran."""
    try:
        database.transaction(work, at_once=True)
    except WouldWait:
        return False
    return True


def _numbers(database: SqliteConnection) -> list[int]:
    return [number for (number,) in database.execute("SELECT number FROM rows ORDER BY number")]


def test_what_flushes_with_each_commit_is_never_done_at_once(tmp_path: Path) -> None:
    database = _opened(tmp_path, "FULL")
    for number in range(5):
        assert not _at_once(database, _row(database, number))
        database.transaction(_row(database, number))
    assert _numbers(database) == [-1, 0, 1, 2, 3, 4]
    database.close()


def test_the_older_journal_flushes_with_each_commit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "has_wal_reset_bug", lambda: True)
    monkeypatch.setattr(sqlite_connection, "fcntl", None)
    database = _opened(tmp_path)
    assert not _at_once(database, _row(database, 0))
    database.close()


@pytest.mark.parametrize("guarded", [True, False])
def test_who_would_have_to_wait_for_another_process_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    monkeypatch.setattr(sqlite_connection, "has_wal_reset_bug", lambda: guarded)
    database = _opened(tmp_path, timeout=60)
    other = SqliteConnection(tmp_path / "runs.db", "NORMAL", 60, sqlite3.connect)
    assert _at_once(database, _row(database, 0))
    done: list[bool] = []
    other.transaction(lambda: done.append(_at_once(database, _row(database, 1))))
    assert done == [False]  # or this test would have waited for a minute
    assert _numbers(database) == [-1, 0]
    database.close()
    other.close()


def test_after_another_process_has_written_two_may_wait_and_then_it_is_done_at_once_again(tmp_path: Path) -> None:
    database, other = _opened(tmp_path), SqliteConnection(tmp_path / "runs.db", "NORMAL", 5.0, sqlite3.connect)
    assert _at_once(database, _row(database, 0))
    other.transaction(_row(other, 1))
    for number in (2, 3):
        assert not _at_once(database, _row(database, number))
        database.transaction(_row(database, number))
    assert _at_once(database, _row(database, 4))
    assert _numbers(database) == [-1, 0, 1, 2, 3, 4]
    database.close()
    other.close()


def test_what_is_done_at_once_never_flushes_and_the_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    pytest.importorskip("apsw")
    from tests.faults.apsw_files import Files, connector

    class Flushes(Files):
        at_once = False
        seen: tuple[int, int] = (0, 0)

        def before(self, what: str, path: Path, offset: int = 0, data: bytes = b"") -> None:
            if what == "sync":
                own, others = self.seen
                self.seen = (own + self.at_once, others + (not self.at_once))

    files = Flushes()
    database = SqliteConnection(tmp_path / "runs.db", "NORMAL", 5.0, connector(files))
    database.transaction(_row(database, -1))
    opened, left_over = files.seen[1], 0
    for number in range(2000):
        files.at_once = True
        done = _at_once(database, _row(database, number, 6000))
        files.at_once = False
        if not done:
            left_over += 1
            database.transaction(_row(database, number, 6000))
    assert files.seen[0] == 0
    assert files.seen[1] > opened + 5  # checkpoints, and new beginnings of the log
    assert left_over <= 2000 // 100
    assert (tmp_path / "runs.db-wal").stat().st_size < 2500 * 4200
    assert len(_numbers(database)) == 2001
    database.close()


def test_one_that_fails_at_once_has_written_nothing_and_the_next_one_may_wait(tmp_path: Path) -> None:
    database = _opened(tmp_path)

    def fail() -> None:
        _row(database, 1)()
        _row(database, 1)()  # there is one of this number

    with pytest.raises(StoreError, match="UNIQUE"):
        database.transaction(fail, at_once=True)
    assert not _at_once(database, _row(database, 2))
    database.transaction(_row(database, 2))
    assert _numbers(database) == [-1, 2]
    database.close()


def test_a_transaction_that_was_interrupted_as_it_began_is_not_left_open(tmp_path: Path) -> None:
    class Interrupted(sqlite3.Connection):
        due = False

        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            done = super().execute(statement, *values)
            if statement == "BEGIN IMMEDIATE" and Interrupted.due:
                Interrupted.due = False
                raise KeyboardInterrupt
            return done

    database = SqliteConnection(tmp_path / "runs.db", "NORMAL", 5.0, partial(sqlite3.connect, factory=Interrupted))
    database.transaction(_row(database, -1))
    Interrupted.due = True
    with pytest.raises(KeyboardInterrupt):
        database.transaction(_row(database, 0), at_once=True)
    assert _at_once(database, _row(database, 1))
    database.transaction(_row(database, 2))
    assert _numbers(database) == [-1, 1, 2]
    database.close()


def test_damage_to_the_definitions_of_tables_is_an_error_of_the_store(tmp_path: Path) -> None:
    async def use(path: Path, run_id: str) -> None:
        store = SqliteStore(path)
        try:
            await store.create(LogInfo(f"run:{run_id}", "agent"), (), {})
            await store.find("run:r")
        finally:
            await store.close()

    sound = tmp_path / "sound.db"
    asyncio.run(use(sound, "r"))
    data = sound.read_bytes()
    refused: list[str] = []
    for place in range(data.find(b"CREATE"), 4096, 11):  # on the first page
        path = tmp_path / f"{place}.db"
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x80]) + data[place + 1 :])  # no longer valid UTF-8
        try:
            asyncio.run(use(path, "s"))
        except StoreError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(str(tmp_path) in message for message in refused)

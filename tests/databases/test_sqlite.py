"""Tests of the SQLite connection: its transactions, and files that disappear."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ziggurat import ConfigurationError
from ziggurat.databases.sqlite import SqliteConnection, write_batch
from ziggurat.databases.writer import Job
from ziggurat.errors import StoreError
from ziggurat.journal import LogInfo, Row
from ziggurat.journal.store import LogMark
from ziggurat.stores import SqliteStore

INSERT = "INSERT INTO rows (id, number, digest, data, status) VALUES (1, ?, '', ?, '')"


def _opened(folder: Path, synchronous: str = "NORMAL", timeout: float = 5.0) -> SqliteConnection:
    """Return a connection that has written."""
    database = SqliteConnection(folder / "runs.db", synchronous, timeout, sqlite3.connect)
    database.transaction(_row(database, -1))
    return database


def _row(database: SqliteConnection, number: int, size: int = 100) -> Callable[[], object]:
    return lambda: database.execute(INSERT, (number, b"x" * size))


def _numbers(database: SqliteConnection) -> list[int]:
    return [number for (number,) in database.execute("SELECT number FROM rows ORDER BY number")]


def test_one_that_fails_has_written_nothing(tmp_path: Path) -> None:
    database = _opened(tmp_path)

    def fail() -> None:
        _row(database, 1)()
        _row(database, 1)()  # there is one of this number

    with pytest.raises(StoreError, match="UNIQUE"):
        database.transaction(fail)
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
        database.transaction(_row(database, 0))
    database.transaction(_row(database, 1))
    assert _numbers(database) == [-1, 1]
    database.close()


@pytest.mark.parametrize("change", ["deleted", "moved", "replaced"])
def test_a_file_that_is_gone_is_noticed_at_the_next_write(tmp_path: Path, change: str) -> None:
    database, others = _opened(tmp_path), tmp_path / "backup"
    _opened(others).close()
    for path in list(tmp_path.glob("runs.db*")):
        if change == "moved":
            path.rename(others / f"away-{path.name}")
        else:
            path.unlink()
    if change == "replaced":
        (others / "runs.db").rename(tmp_path / "runs.db")
    with pytest.raises(StoreError, match="deleted or replaced"):
        database.transaction(_row(database, 1))
    database.transaction(_row(database, 2))
    assert _numbers(database) == ([-1, 2] if change == "replaced" else [2]), "it writes to the file that is there"
    database.close()


async def test_a_run_in_a_file_that_is_gone_cannot_go_on_and_others_can(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    epoch = await store.create(LogInfo("run:a"), [_first()])
    for path in tmp_path.glob("runs.db*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(StoreError, match="deleted or replaced"):
        await store.append("run:a", epoch, [_first()])
    assert await store.find("run:a") is None
    await store.create(LogInfo("run:b"), [_first()])
    assert await store.acknowledged("run:b") == LogMark.of(_first())
    await store.close()
    assert sorted(path.name for path in tmp_path.glob("runs.db*") if path.is_file()) == ["runs.db", "runs.db-ziggurat"]


def _first() -> Row:
    return Row(1, "digest", b"{}")


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


class Letters:
    """A table of letters, and jobs that write one each."""

    def __init__(self, folder: Path) -> None:
        self.database = SqliteConnection(folder / "letters.db", "NORMAL", 5.0, sqlite3.connect)
        self.database.transaction(lambda: self.database.execute("CREATE TABLE letters (letter TEXT UNIQUE)"))

    def write(self, letter: str) -> int:
        if letter == "?":
            raise ConfigurationError("that is not a letter")
        if letter == "!":
            raise ZeroDivisionError("a fault")
        return int(self.database.execute("INSERT INTO letters VALUES (?)", (letter,)).lastrowid or 0)

    def jobs(self, letters: str) -> list[Job[int]]:
        async def made() -> list[Job[int]]:
            future = asyncio.get_running_loop().create_future
            return [Job(lambda each=letter: self.write(each), "log", future()) for letter in letters]  # type: ignore[misc]

        return asyncio.run(made())

    def do(self, letters: str, **steps: Any) -> tuple[Exception | None, list[Job[int]]]:
        jobs = self.jobs(letters)
        return write_batch(self.database, jobs, (ConfigurationError,), **steps), jobs

    def there(self) -> str:
        found = self.database.execute("SELECT letter FROM letters ORDER BY rowid").fetchall()
        return "".join(letter for (letter,) in found)


@pytest.fixture
def letters(tmp_path: Path) -> Iterator[Letters]:
    made = Letters(tmp_path)
    yield made
    made.database.close()


def test_one_that_writes_nothing_fails_alone(letters: Letters) -> None:
    failed, jobs = letters.do("a?b", last=lambda: letters.database.many("INSERT INTO letters VALUES (?)", [("z",)]))
    assert failed is None
    assert [(job.result, str(job.error)) for job in jobs] == [(1, "None"), (None, "that is not a letter"), (2, "None")]
    assert letters.there() == "abz"


@pytest.mark.parametrize(
    ("last", "told"), [("!", r"letters\.db: ZeroDivisionError: a fault"), ("a", "SQLITE_CONSTRAINT_UNIQUE")]
)
def test_when_it_fails_nothing_is_written_and_each_has_an_error_of_its_own(
    letters: Letters, last: str, told: str
) -> None:
    failed, jobs = letters.do("a?b" + last)
    assert isinstance(failed, ZeroDivisionError if last == "!" else StoreError)
    assert len({id(job.error) for job in jobs}) == 4
    for job in jobs:
        with pytest.raises(StoreError, match=told):
            raise job.error or AssertionError
    assert letters.there() == ""


def test_they_are_not_begun_where_what_comes_before_fails(letters: Letters) -> None:
    def no_tables() -> None:
        raise StoreError("no room for tables")

    failed, (job,) = letters.do("a", before=no_tables)
    assert (str(failed), str(job.error), letters.there()) == ("no room for tables", "no room for tables", "")

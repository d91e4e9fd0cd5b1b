"""Tests of jobs in one transaction: a refused job fails alone, a failed transaction fails all jobs."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ziggurat import ConfigurationError
from ziggurat.databases.jobs import Job
from ziggurat.databases.sqlite.batch import write_batch
from ziggurat.databases.sqlite.connection import SqliteConnection
from ziggurat.errors import StoreError


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
            return [Job(lambda each=letter: self.write(each), "log") for letter in letters]  # type: ignore[misc]

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

"""What processes can do while another one is stopped (SIGSTOP) in the middle of a write to a database."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.samples import sample
from tests.stores.server import schema
from ziggurat.databases import sqlite as sqlite_connection
from ziggurat.errors import StoreError, StoreUnavailable
from ziggurat.journal import LogInfo
from ziggurat.stores import PostgresStore, SqliteStore
from ziggurat.testing import HandClock
from ziggurat.testing.stores import rows

SQLITE = """
import os, signal, sqlite3, sys
from pathlib import Path
from ziggurat.databases import sqlite as connection

connection.has_wal_reset_bug = lambda: sys.argv[2] == "True"
database = connection.SqliteConnection(Path(sys.argv[1]), "FULL", 5.0, sqlite3.connect)
database.transaction(lambda: os.kill(os.getpid(), signal.SIGSTOP))
print("went on", flush=True)
database.close()
"""

POSTGRES = """
import os, signal, sys
from ziggurat.databases.postgres import PostgresAddress
from ziggurat.databases.postgres import PostgresConnection
from ziggurat.databases.postgres import prepare

async def work(connection, again):
    if again:
        print("repeated", flush=True)
        return
    async with connection.transaction():
        await connection.fetch("SELECT * FROM logs FOR UPDATE")
        os.kill(os.getpid(), signal.SIGSTOP)
        await connection.execute("UPDATE logs SET problem = 'overwritten'")

connection = PostgresConnection(PostgresAddress.of(sys.argv[1]), float(sys.argv[2]), prepare)
connection.run(work)
connection.close()
"""


@contextmanager
def _stopped(script: str, *arguments: object) -> "Iterator[subprocess.Popen[str]]":
    """Run a script until it has stopped itself; kill it at the end if it is still there."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + 20
            while not os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT):
                assert time.monotonic() < until, "it did not stop"
                time.sleep(0.005)
            assert process.poll() is None, "it ended instead of stopping"
            yield process
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)


@asynccontextmanager
async def _loop_is_free(limit: float) -> AsyncIterator[None]:
    """Check that the event loop never stands still for longer than a limit while the block runs."""
    longest, running = 0.0, True

    async def measure() -> None:
        nonlocal longest
        while running:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)

    measuring = asyncio.create_task(measure())
    try:
        yield
    finally:
        running = False
        await measuring
    assert longest < limit, f"the event loop stood still for {longest:.2f} s"


@pytest.mark.parametrize("guarded", sample([True, False], 1))
async def test_who_waits_for_a_stopped_writer_of_a_database_learns_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    monkeypatch.setattr(sqlite_connection, "has_wal_reset_bug", lambda: guarded)
    path = tmp_path / "runs.db"
    before = SqliteStore(path, timeout=1.5)
    await before.create(LogInfo("run:before", "agent"), rows(1))
    with _stopped(SQLITE, path, guarded) as process:
        blocked, free = SqliteStore(path, timeout=1.5), SqliteStore(tmp_path / "other.db", timeout=1.5)
        async with _loop_is_free(1):
            waiting = asyncio.ensure_future(blocked.create(LogInfo("run:r", "agent"), rows(1)))
            began = time.monotonic()
            await free.create(LogInfo("run:r", "agent"), rows(1))
            for number in range(5):
                await free.append("run:r", 1, rows(number + 2)[-1:])
            assert time.monotonic() - began < 1
            assert not waiting.done()
            with pytest.raises(StoreError) as raised:
                await waiting
            with pytest.raises(StoreError, match="is locked by"):
                await before.close()
            await blocked.close()
            await free.close()
            assert before.closed
        assert all(word in str(raised.value) for word in (str(path), str(process.pid), "stopped", "1.5 s"))
        os.kill(process.pid, signal.SIGCONT)
        assert process.communicate()[0] == "went on\n"
    after = SqliteStore(path)
    await after.create(LogInfo("run:r", "agent"), rows(1))
    assert {info.log for info in await after.logs()} == {"run:before", "run:r"}
    await after.close()


async def test_a_stopped_writer_that_is_killed_keeps_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with _stopped(SQLITE, path, True):
        pass

    store = SqliteStore(path, timeout=1)
    await store.create(LogInfo("run:r", "agent"), rows(1))
    await store.close()


async def test_the_server_ends_the_transaction_of_a_stopped_client_and_its_run_is_taken_over() -> None:
    url = schema()
    owner = PostgresStore(url, lease=0.1, clock=HandClock())
    await owner.create(LogInfo("run:r", "agent"), rows(1))
    await owner.create(LogInfo("run:other", "agent"), rows(1))
    with _stopped(POSTGRES, url, 4.0) as process:
        successor = PostgresStore(url, timeout=4.0)
        async with _loop_is_free(1):
            await successor.create(LogInfo("run:new", "agent"), rows(1))  # rows of others are not locked
            epoch = await successor.lease("run:r")
            await successor.append("run:r", epoch, rows(2)[1:])
        with pytest.raises(StoreError):
            await owner.append("run:r", 1, rows(2)[1:])
        os.kill(process.pid, signal.SIGCONT)
        assert process.communicate()[0] == "repeated\n"  # on a new connection; the first transaction never was
        assert {info.problem for info in await successor.logs()} == {""}
        await successor.close()
    await owner.close()


async def test_who_waits_for_a_transaction_of_another_program_learns_which() -> None:
    url = schema()
    store = PostgresStore(url, timeout=1.0)
    await store.create(LogInfo("run:r", "agent"), rows(1))
    endless = f"{url}{'&' if '?' in url else '?'}idle_in_transaction_session_timeout=0&application_name=theirs"
    with _stopped(POSTGRES, endless, 60.0):
        with pytest.raises(StoreUnavailable) as raised:
            await store.append("run:r", 1, rows(2)[1:])
        assert re.search(r"process (\d+) \(theirs .* pg_terminate_backend\(\1\)$", str(raised.value))
    epoch = await store.lease("run:r")
    await store.append("run:r", epoch, rows(2)[1:])
    await store.close()

"""What lies in place of a store's files: damaged content, pipes, sockets, folders; and the modes of what it creates."""

import asyncio
import os
import random
import shutil
import sqlite3
import stat
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.databases.test_files import IRREGULAR, umask
from tests.samples import LONG, amount
from ziggurat.errors import JournalError, RunNotFound
from ziggurat.journal import LogInfo, Store
from ziggurat.knowledge import Entity, GraphStore
from ziggurat.memory import MemoryRecord
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.stores import FileStore, SqliteStore
from ziggurat.testing.stores import rows

Opens = Callable[[Path], Store]

STORES: dict[str, Opens] = {
    "file": lambda folder: FileStore(folder / "runs", timeout=0.2),
    "sqlite": lambda folder: SqliteStore(folder / "runs.db", timeout=0.2),
    "normal": lambda folder: SqliteStore(folder / "runs.db", synchronous="NORMAL", timeout=0.2),
}
NAMES = ("run:a", "run:b", "run:c")
LIMIT = 3.0
"""Seconds in which every operation must answer."""


async def _fill(store: Store, *, close: bool = True) -> None:
    for name in NAMES:
        await store.create(LogInfo(name, "agent"), rows(3), {"digest": b"large"})
        await store.release(name, 1)
    if close:
        await store.close()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# -- modes -------------------------------------------------------------------------------------------------------


async def _memories(folder: Path) -> None:
    store = SqliteMemoryStore(folder / "made" / "memory.db")
    await store.add([MemoryRecord(id="m", owner="ada", content="text", created=0.0)])
    assert_private(folder / "made")  # while it is open: its companions are there
    await store.close()


async def _graph(folder: Path) -> None:
    store = GraphStore(folder / "made" / "graph.db")
    await store.add(Entity("ada"))
    assert_private(folder / "made")
    await store.close()


def _runs(kind: str) -> Callable[[Path], Awaitable[None]]:
    async def use(folder: Path) -> None:
        store = STORES[kind](folder / "made")
        await _fill(store, close=False)
        epoch = await store.lease("run:a")
        await store.append("run:a", epoch, rows(4)[3:])
        await store.quarantine("run:b", "for the test")
        assert_private(folder / "made")
        await store.close()

    return use


def assert_private(folder: Path) -> None:
    """Check that nobody else can read anything in a folder."""
    modes = {
        str(path.relative_to(folder.parent)): (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in (folder, *folder.rglob("*"))
    }
    assert len(modes) >= 3
    assert {name: mode for name, mode in modes.items() if mode != ((True, 0o700) if mode[0] else (False, 0o600))} == {}


USES = {**{kind: _runs(kind) for kind in STORES}, "memory": _memories, "graph": _graph}


@pytest.mark.parametrize("mask", [0, 0o777])
@pytest.mark.parametrize("kind", USES)
async def test_all_that_is_created_is_private(tmp_path: Path, kind: str, mask: int) -> None:
    with umask(mask):
        await USES[kind](tmp_path)
    assert_private(tmp_path / "made")


# -- what is no file ---------------------------------------------------------------------------------------------


async def _use_all(store: Store) -> tuple[float, list[str]]:
    """Use every method; return the longest time for which the event loop stood still, and the refusals."""
    longest, refusals, running = 0.0, list[str](), True

    async def measure() -> None:
        nonlocal longest
        while running:
            before = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - before)

    async def append() -> None:
        epoch = await store.lease("run:b")
        await store.append("run:b", epoch, rows(4)[3:], {"other": b"large"})
        await store.release("run:b", epoch)

    async def create() -> None:
        with suppress(JournalError):
            await store.create(LogInfo("run:new", "agent"), rows(1))

    def works() -> list[Awaitable[object]]:
        return [
            store.logs("run:"),
            store.find("run:b"),
            store.read("run:b"),
            store.blob("run:b", "digest"),
            store.inbox("run:b"),
            append(),
            create(),
            store.quarantine("run:b", "for the test"),
            store.vacuum(0.0),
        ]

    measuring = asyncio.create_task(measure())
    for work in works():
        try:
            await asyncio.wait_for(work, LIMIT)
        except (JournalError, RunNotFound) as error:
            refusals.append(str(error))
    await asyncio.wait_for(store.close(), LIMIT)
    running = False
    await measuring
    return longest, refusals


async def _places(kind: str, folder: Path) -> list[Path]:
    """Return the files of a store that can be used: those of the log ``run:b``, or of the database."""
    await _fill(STORES[kind](folder))
    if kind == "file":
        mine = [path for path in _files(folder) if "%3ab" in str(path) or path.name == "format.json"]
        return [*mine, folder / "runs" / "logs" / "run%3ab" / "inbox.jsonl"]
    return [folder / f"runs.db{suffix}" for suffix in ("", "-wal", "-shm", "-ziggurat")]


@pytest.mark.parametrize("what", IRREGULAR)
@pytest.mark.parametrize("kind", ["file", "sqlite", *["normal"] * LONG])
async def test_in_place_of_any_file_it_is_refused_and_nothing_waits(tmp_path: Path, kind: str, what: str) -> None:
    places = await _places(kind, tmp_path / "first")
    for number, place in enumerate(places):
        folder = tmp_path / f"copy-{number}"
        shutil.copytree(tmp_path / "first", folder)
        there = folder / place.relative_to(tmp_path / "first")
        there.unlink(missing_ok=True)
        IRREGULAR[what](there)
        kept = os.lstat(there)
        longest, refusals = await _use_all(STORES[kind](folder))
        follows = kind != "file" and what in ("a device", "a symbolic link")  # a link to a database may be there
        assert refusals or follows, f"{what} in place of {place.name}"
        assert longest < 1, f"{what} in place of {place.name}: the event loop stood still for {longest:.1f} s"
        if not follows:
            assert os.lstat(there).st_ino == kept.st_ino, "it was put aside silently"


# -- damage ------------------------------------------------------------------------------------------------------


def _damage(data: bytes, draw: random.Random) -> bytes:
    way = draw.choice(["flip", "cut", "insert", "nothing", "zeros", "text"])
    if way == "flip" and data:
        at = draw.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
    if way == "cut":
        return data[: draw.randrange(len(data) + 1)]
    if way == "insert":
        at = draw.randrange(len(data) + 1)
        return data[:at] + bytes(draw.randrange(256) for _ in range(draw.randrange(1, 5))) + data[at:]
    return {"nothing": b"", "zeros": bytes(len(data)), "text": b"[" * 100_000}.get(way, b"\xff")


async def test_no_damaged_file_of_a_log_hides_another_log(tmp_path: Path) -> None:
    draw = random.Random(11)
    store = FileStore(tmp_path, timeout=0.2)
    await _fill(store, close=False)
    mine = [path for path in _files(tmp_path) if "%3ab" in str(path)]
    named = 0
    tries = amount(100, 1000)
    for _ in range(tries):
        path = draw.choice(mine)
        whole = path.read_bytes()
        path.write_bytes(_damage(whole, draw))
        listed = {info.log: info for info in await store.logs("run:")}
        assert (listed["run:a"].status, listed["run:a"].problem) == ("running", ""), path
        assert (listed["run:c"].status, listed["run:c"].problem) == ("running", ""), path
        assert len(listed) == 3, path
        named += any(info.problem for info in listed.values())
        path.write_bytes(whole)
    assert named > tries / 6  # damage that still reads as JSON of the right form is found when the log is read
    await store.close()


COLUMNS = ("agent", "request", "created", "status", "updated", "owner", "problem", "log")


@pytest.mark.parametrize("value", ["CAST(x'ff41' AS TEXT)", "x'ff'", "'text'", "9e999", "-1"])
async def test_no_damaged_row_hides_another_log(tmp_path: Path, value: str) -> None:
    for number, column in enumerate(COLUMNS):
        path = tmp_path / f"{number}.db"
        await _fill(SqliteStore(path))
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"UPDATE logs SET {column} = {value} WHERE log = 'run:b'")
            database.commit()
        store = SqliteStore(path)
        with suppress(JournalError):
            await store.find("run:b")
        listed = [info.log for start in ("run:a", "run:c", "") for info in await store.logs(start)]
        await store.close()
        assert listed.count("run:a") == listed.count("run:c") == 2, (column, value)
        assert len(listed) == 5 or column == "log", (column, value)  # a name that is no text is nowhere

"""What an unclosed store leaves behind: nothing but a warning, which names the line where it was opened."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.stores.server import schema
from ziggurat import Agent
from ziggurat.databases.writer import Writer, one_by_one
from ziggurat.journal import LogInfo
from ziggurat.knowledge import GraphStore
from ziggurat.memory import MemoryRecord, Remembering
from ziggurat.memory.stores.postgres import PostgresMemoryStore
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.stores import FileStore, PostgresStore, SqliteStore, connect
from ziggurat.testing import ScriptedModel


async def _use_runs(store: Any) -> None:
    await store.create(LogInfo("run:r", "agent"), (), {})
    await store.find("run:r")


async def _use_memories(store: Any) -> None:
    await store.add([MemoryRecord(id="m", owner="ann", content="tea")])


OPENED: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Awaitable[object]]]] = {
    "sqlite": (lambda folder: SqliteStore(folder / "a.db"), _use_runs),
    "file": (lambda folder: FileStore(folder / "a"), _use_runs),
    "postgres": (lambda folder: PostgresStore(schema()), _use_runs),
    "memories": (lambda folder: SqliteMemoryStore(folder / "a.db"), _use_memories),
    "memories in postgres": (lambda folder: PostgresMemoryStore(schema()), _use_memories),
    "graph": (lambda folder: GraphStore(folder / "a.db"), lambda store: store.graph()),
}


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("ziggurat")}


def _files(folder: Path) -> list[str]:
    """Return the open files of a folder, where the system lists them."""
    found = []
    for number in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return [path for path in found if path.startswith(str(folder))]


def _warned(
    main: Callable[[], Coroutine[Any, Any, None]], folder: Path, expected: int = 0
) -> list[warnings.WarningMessage]:
    """Run `main`, then collect what is no longer used; return the warnings once its threads and files are closed.

    Threads that stores share may hold the last job, and with it a store, for a moment longer: wait for as many warnings
    as are `expected`.
    """
    before = _threads()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()  # a store of a server has neither a thread nor a file to wait for
        until = time.monotonic() + 20
        while (len(seen) < expected or _threads() - before or _files(folder)) and time.monotonic() < until:
            gc.collect()
            for thread in _threads() - before:
                thread.join(0.01)
    assert not _threads() - before
    assert not _files(folder)
    return seen


@pytest.mark.parametrize("kind", OPENED)
def test_a_store_that_is_forgotten_is_closed_with_a_warning_that_names_the_line(kind: str, tmp_path: Path) -> None:
    opens, use = OPENED[kind]

    async def main() -> None:
        await use(opens(tmp_path))

    (warning,) = _warned(main, tmp_path, 1)
    assert warning.category is ResourceWarning
    assert (warning.filename, warning.lineno) == (__file__, opens.__code__.co_firstlineno)
    assert f"{__file__}:{warning.lineno}" in str(warning.message)
    assert "close()" in str(warning.message)


@pytest.mark.parametrize("kind", OPENED)
def test_a_store_that_is_closed_warns_of_nothing(kind: str, tmp_path: Path) -> None:
    opens, use = OPENED[kind]

    async def main() -> None:
        before = _threads()
        store = opens(tmp_path)
        await use(store)
        await store.close()
        assert not _threads() - before
        opens(tmp_path)  # was never used, so that there is nothing to close

    assert _warned(main, tmp_path) == []


def test_what_was_written_is_there_when_a_store_was_forgotten(tmp_path: Path) -> None:
    async def forget() -> None:
        store = SqliteStore(tmp_path / "a.db")
        for number in range(20):
            await store.create(LogInfo(f"run:{number}", "agent"), (), {})

    async def count() -> int:
        store = SqliteStore(tmp_path / "a.db")
        found = len(await store.logs(limit=100))
        await store.close()
        return found

    assert len(_warned(forget, tmp_path, 1)) == 1
    assert asyncio.run(count()) == 20


def test_a_job_under_way_keeps_its_store(tmp_path: Path) -> None:
    async def main() -> None:
        pending = [SqliteMemoryStore(tmp_path / "a.db").count(owner=None) for _ in range(20)]
        gc.collect()
        assert sum(await asyncio.gather(*pending)) == 0

    assert len(_warned(main, tmp_path, 20)) == 20


@pytest.mark.parametrize("address", ["sqlite:///{}/a.db", "file://{}/a"])
def test_a_store_that_was_opened_by_its_address_is_nobody_s_to_close(address: str, tmp_path: Path) -> None:
    url = address.format(tmp_path)

    async def main() -> None:
        run = await Agent(ScriptedModel("Hello."), store=url).run("Hi", run_id="r")
        assert run.text == "Hello."
        assert await connect(url).find("run:r") is not None  # the one that the agent has opened

    assert _warned(main, tmp_path) == []


def test_nor_is_a_memory_that_an_agent_was_given_by_its_address(tmp_path: Path) -> None:
    async def main() -> None:
        memory = Remembering(f"sqlite:///{tmp_path}/a.db", owner="ann")
        assert (await Agent(ScriptedModel("Hello."), middleware=[memory]).run("Hi")).text == "Hello."

    assert _warned(main, tmp_path) == []


PROGRAM = """
import asyncio, sys
from ziggurat.journal.store import LogInfo
from ziggurat.stores.addresses import connect
from ziggurat.stores.sqlite import SqliteStore
store = {opens}
async def main():
    await store.create(LogInfo("run:r", "agent"), (), {{}})
asyncio.run(main())
sys.{leaves}
"""


@pytest.mark.parametrize("leaves", ["stdout.flush()", "exit(3)"])
@pytest.mark.parametrize("opens", ["SqliteStore(sys.argv[1])", "connect('sqlite:///' + sys.argv[1])"])
def test_the_end_of_the_process_closes_what_is_open(opens: str, leaves: str, tmp_path: Path) -> None:
    program, database = tmp_path / "program.py", tmp_path / "a.db"
    program.write_text(PROGRAM.format(opens=opens, leaves=leaves), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "default", str(program), str(database)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == (3 if "exit" in leaves else 0)
    assert database.is_file()
    assert not list(tmp_path.glob("a.db-wal")), "a database that is closed has no log beside it"
    assert f"{program}:6: ResourceWarning: unclosed store" in ended.stderr
    assert ended.stderr.count("ResourceWarning") == 1


def test_a_forked_process_leaves_the_store_to_its_parent(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    text = PROGRAM.format(
        opens="SqliteStore(sys.argv[1])",
        leaves="""stdout.flush()
import os
if os.fork():
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    async def last():
        assert await store.find("run:r")
        await store.close()
    asyncio.run(last())
""",
    )
    program.write_text(text, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(program), str(tmp_path / "a.db")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_thread_that_ends_before_its_store_is_finalized_takes_no_warning_with_it(tmp_path: Path) -> None:
    before, references = _threads(), list[weakref.ref[Writer]]()

    def wait(_: object) -> None:
        for thread in _threads() - before - {threading.current_thread()}:
            thread.join(60)

    async def main() -> None:
        writer = Writer("ziggurat test", one_by_one, lambda: None, 0.01, lambda: None)
        references.append(weakref.ref(writer, wait))  # callbacks run in the order of the references, or its reverse
        await writer.submit(lambda: None)
        references.append(weakref.ref(writer, wait))
        await asyncio.to_thread(lambda: None)

    assert len(_warned(main, tmp_path, 1)) == 1

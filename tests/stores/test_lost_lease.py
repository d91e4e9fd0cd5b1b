"""Tests of leases that a killed process has left behind, or that have expired: they are nobody's."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples import sample
from tests.stores.server import schema
from ziggurat.journal import LogInfo
from ziggurat.journal.store import UNFINISHED, Store
from ziggurat.stores import InMemoryStore, PostgresStore, SqliteStore, connect
from ziggurat.testing import HandClock
from ziggurat.testing.stores import rows

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="whether a process is gone is seen where /proc is"
)
STATUSES = ("running", "Completed", "MaxSteps", *sorted(UNFINISHED - {"running"}))

LEFT = """
import asyncio, os, signal, sys
from ziggurat.journal.store import LogInfo
from ziggurat.stores.addresses import connect
from ziggurat.testing.stores import rows

async def main():
    store = connect(sys.argv[1])
    for status in sys.argv[2:]:
        epoch = await store.create(LogInfo("run:" + status, "agent"))
        await store.append("run:" + status, epoch, rows(1, status=status))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def killed(script: str, *arguments: str) -> None:
    """Run a script in a process of its own, which kills itself."""
    done = subprocess.run([sys.executable, "-c", script, *arguments], check=False, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def address(kind: str, folder: Path) -> str:
    return {"sqlite": f"sqlite:///{folder}/runs.db", "file": f"file://{folder}/runs"}.get(kind) or schema()


@pytest.mark.parametrize("kind", sample(["sqlite", "file", "postgres"], 2))
async def test_the_lease_of_a_process_that_is_gone_is_that_of_nobody(kind: str, tmp_path: Path) -> None:
    url = address(kind, tmp_path)
    killed(LEFT, url, *STATUSES)
    store = connect(url)
    mine = LogInfo("run:mine", "agent")
    await store.create(mine)
    listed = {info.log: info for info in await store.logs()}
    for status in STATUSES:
        info = await store.find(f"run:{status}")
        assert info == listed[f"run:{status}"]
        assert info is not None
        assert info.status == status
        assert not info.owner
    assert listed["run:mine"].owner
    ended = len(STATUSES) - len(UNFINISHED)
    late = max(info.updated for info in listed.values()) + 1
    assert await store.vacuum(late) == ended
    assert await store.vacuum(late, unfinished=True) == len(UNFINISHED)
    assert [info.log for info in await store.logs()] == ["run:mine"]  # its holder is alive
    await store.close()


def beside(kind: str, folder: Path, clock: HandClock) -> tuple[Store, Store]:
    """Return two stores with the same logs, as two machines have them."""
    if kind == "memory":
        first = InMemoryStore(clock=clock)
        return first, InMemoryStore(clock=clock, shared=first)
    if kind == "sqlite":
        return SqliteStore(folder / "runs.db", clock=clock), SqliteStore(folder / "runs.db", clock=clock)
    url = schema()
    return PostgresStore(url, clock=clock), PostgresStore(url, clock=clock)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_lease_that_has_expired_is_that_of_nobody(kind: str, tmp_path: Path) -> None:
    clock = HandClock()
    holder, other = beside(kind, tmp_path, clock)
    await holder.create(LogInfo("run:r", "agent"), rows(1))
    for passed, held in ((0, True), (29, True), (2, False)):
        await clock.advance(passed)
        info = await other.find("run:r")
        assert info is not None
        assert [info] == await other.logs("run:")
        assert bool(info.owner) is held
    await other.close()
    await holder.close()

"""Stores that are created where there is no room: the error says so, and nothing is left that hinders a second try."""

import shutil
import subprocess
import sys
from itertools import product

import pytest

from tests.samples import sample

CREATES = """
import asyncio, os, sys
from pathlib import Path
from ziggurat.core.errors import StoreError
from ziggurat.journal.store import LogInfo
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.stores.file import FileStore
from ziggurat.stores.sqlite import SqliteStore
from ziggurat.testing.stores import rows

kind, how, folder = sys.argv[1:]

def opens():
    if kind == "file":
        return FileStore(f"{folder}/runs")
    return (SqliteMemoryStore if kind == "memory" else SqliteStore)(f"{folder}/runs.db")

async def create(store):
    if kind == "memory":
        await store.add([MemoryRecord(id="m", owner="ada", content="x", created=0.0)])
    else:
        await store.create(LogInfo("run:r", "agent"), rows(1))

async def main():
    store = opens()
    try:
        await create(store)
    except StoreError as error:
        print(error)
    else:
        print("it was written")
    await store.close()
    if how == "full":
        os.unlink(f"{folder}/filler")
        store = opens()
        await create(store)
        await store.close()
        print("second try written", [p.name for p in Path(folder).rglob(".new-*")])

if how == "limit":
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
asyncio.run(main())
"""

KINDS = ("file", "sqlite", "memory")

FULL = """mount -t tmpfs -o size=1m,nr_inodes={inodes} tmpfs {folder} || exit 77
head -c 2000000 /dev/zero > {folder}/filler 2>/dev/null
{more}
{python} -c "$1" {kind} {how} {folder}"""

NO_NAMES = "i=0; while touch {folder}/filler-$i 2>/dev/null; do i=$((i+1)); done"


@pytest.mark.parametrize(("kind", "how"), sample(product(KINDS, ("full", "no more names")), 2))
def test_a_full_disk_is_named(tmp_path: object, kind: str, how: str) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("a small disk is mounted in a namespace of its own")
    names, more = (0, "") if how == "full" else (8, NO_NAMES.format(folder=tmp_path))
    script = FULL.format(
        folder=tmp_path, python=sys.executable, kind=kind, inodes=names, more=more, how=how.split(maxsplit=1)[0]
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", CREATES], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip("a small disk cannot be mounted here")
    said = done.stdout.splitlines()
    assert "No space left on device" in said[0], done.stdout + done.stderr
    if how == "full":
        assert said[1] == "second try written []", done.stdout + done.stderr


@pytest.mark.parametrize("kind", sample(KINDS, 1))
def test_a_limit_on_the_size_of_files_is_named(tmp_path: object, kind: str) -> None:
    command = [sys.executable, "-c", CREATES, kind, "limit", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "File too large" in done.stdout, done.stdout + done.stderr

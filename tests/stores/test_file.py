"""Tests of the file store: foreign folders, damaged descriptions, torn and damaged lines, locks, and no queue."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ziggurat import Agent, ConfigurationError
from ziggurat.errors import JournalCorrupt, LeaseHeld, LeaseLost, StoreError
from ziggurat.flows import every, schedule
from ziggurat.journal import LogInfo
from ziggurat.stores import FileStore, connect
from ziggurat.testing import ScriptedModel
from ziggurat.testing.stores import rows

HOLDS = """
import asyncio, sys
from ziggurat.stores.file import FileStore

async def main():
    store = FileStore(sys.argv[1])
    await store.lease("run:r")
    print("holds", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


async def _begun(folder: Path) -> None:
    store = FileStore(folder)
    try:
        await store.create(LogInfo("run:r", "agent"), rows(1))
    finally:
        await store.close()


async def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="folder"):
        await _begun(tmp_path / "runs")


async def test_a_log_whose_description_is_damaged_hides_no_other(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for name in ("run:a", "run:b"):
        await store.create(LogInfo(name, "agent"), rows(1))
    (tmp_path / "logs" / "run%3ab" / "log.jsonl").write_text("{\n")
    listed = {info.log: info for info in await store.logs("run:")}
    assert listed["run:a"].agent == "agent"
    assert listed["run:b"].status == "Quarantined"
    assert "description" in listed["run:b"].problem
    assert listed["run:b"].updated > 0
    with pytest.raises(StoreError, match="description"):
        await store.find("run:b")
    await store.close()


async def test_a_log_without_its_file_is_damaged_and_not_absent(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for name in ("run:a", "run:b", "run:c"):
        await store.create(LogInfo(name, "agent"), rows(1))
    (tmp_path / "logs" / "run%3aa" / "log.jsonl").unlink()
    description = (tmp_path / "logs" / "run%3ac" / "log.jsonl").read_bytes()
    (tmp_path / "logs" / "run%3ab" / "log.jsonl").write_bytes(description)
    with pytest.raises(StoreError, match="missing"):
        await store.find("run:a")
    with pytest.raises(StoreError, match="'run:c'"):
        await store.find("run:b")
    listed = {info.log: info.status for info in await store.logs("run:")}
    assert listed == {"run:a": "Quarantined", "run:b": "Quarantined", "run:c": "running"}
    await store.close()


async def test_a_run_whose_file_is_missing_is_refused_at_once(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    agent = Agent(ScriptedModel("Done."), store=store)
    await agent.run("go", run_id="a")
    (tmp_path / "logs" / "run%3aa" / "log.jsonl").unlink()
    async with asyncio.timeout(5):
        with pytest.raises(StoreError, match="missing"):
            await agent.run("go", run_id="a")
    await store.close()


async def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 99}')
    with pytest.raises(StoreError, match="newer version"):
        await _begun(tmp_path)


async def test_a_torn_last_line_is_ignored_by_readers_and_removed_by_the_next_writer(tmp_path: Path) -> None:
    await _begun(tmp_path)
    store, path = FileStore(tmp_path), tmp_path / "logs" / "run%3ar" / "log.jsonl"
    whole = path.read_bytes()
    for length in (1, 20, 60):
        path.write_bytes(whole + b'{"number":2,"digest":"0123456789abcdef","status":"running","data":{"entry"'[:length])
        assert await store.read("run:r") == rows(1)
        info = await store.find("run:r")
        assert info is not None
        assert (info.status, info.count) == ("running", 1)
        epoch = await store.lease("run:r")
        await store.append("run:r", epoch, rows(1, 1, rows(1)[0].digest), release=True)
        assert await store.read("run:r") == rows(2)
    await store.close()


async def test_a_torn_item_of_an_inbox_is_ignored_and_a_damaged_one_hides_no_other(tmp_path: Path) -> None:
    await _begun(tmp_path)
    store, path = FileStore(tmp_path), tmp_path / "logs" / "run%3ar" / "inbox.jsonl"
    await store.post("run:r", "a", b"1")
    path.write_bytes(path.read_bytes() + b'{"number":2,')
    assert [item.key for item in await store.inbox("run:r")] == ["a"]
    await store.post("run:r", "b", b"2")
    assert [(item.number, item.key) for item in await store.inbox("run:r")] == [(1, "a"), (2, "b")]
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    other = FileStore(tmp_path)
    for reader in (store, other):
        items = await reader.inbox("run:r")
        assert [(item.number, item.key) for item in items] == [(1, ""), (2, "b")]
        assert items[0].data.startswith(b"\xff")
    assert await other.post("run:r", "c", b"3")
    assert [item.number for item in await store.inbox("run:r", 1)] == [2, 3]
    await store.close()
    await other.close()


async def test_any_damaged_line_of_a_run_is_noticed(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await Agent(ScriptedModel("Done."), store=store, name="desk").run("go", run_id="r")
    path = tmp_path / "logs" / "run%3ar" / "log.jsonl"
    lines, every = path.read_bytes().splitlines(keepends=True), await store.read("run:r")
    assert [await store.read("run:r", after, 2) for after in range(9)] == [every[at : at + 2] for at in range(9)]
    for number in range(1, len(lines)):
        path.write_bytes(b"".join([*lines[:number], b"\xff" + lines[number][1:], *lines[number + 1 :]]))
        undamaged = [row.number for row in await store.read("run:r", 1) if row.digest]
        assert undamaged == [row.number for row in every[1:] if row.data not in lines[number]]
        with pytest.raises(JournalCorrupt):
            await Agent(ScriptedModel("Done."), store=store, name="desk").replay("r")
    await store.close()


async def test_the_lease_of_another_process_ends_with_it(tmp_path: Path) -> None:
    await _begun(tmp_path)
    store = FileStore(tmp_path)
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        with pytest.raises(LeaseHeld, match=str(process.pid)):
            await store.lease("run:r")
        assert await store.post("run:r", "a", b"1")
        process.kill()
    epoch = await store.lease("run:r")
    await store.append("run:r", epoch, rows(1, 1))
    await store.close()


async def test_a_log_that_was_removed_or_changed_by_others_takes_no_rows(tmp_path: Path) -> None:
    one, other = FileStore(tmp_path), FileStore(tmp_path)
    for name, harm in (("run:a", other.delete("run:a")), ("run:b", other.quarantine("run:b", "a test"))):
        epoch = await one.create(LogInfo(name), rows(1))
        await harm
        with pytest.raises(LeaseLost):
            await one.append(name, epoch, rows(1, 1))
    epoch = await one.create(LogInfo("run:a"), rows(1))
    await one.append("run:a", epoch, rows(1, 1))
    await one.close()
    await other.close()


VERBS: dict[str, Callable[[Agent], Awaitable[Any]]] = {
    "submit": lambda agent: agent.submit("go", run_id="r"),
    "worker": lambda agent: agent.worker().run(),
    "recover": lambda agent: agent.recover(),
    "schedule": lambda agent: schedule(agent, every(hours=1), input="go").run(),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_there_is_no_queue_and_nothing_is_written_that_needs_one(verb: str, tmp_path: Path) -> None:
    store = connect(f"file://{tmp_path}/runs")
    with pytest.raises(ConfigurationError, match="sqlite:///"):
        await VERBS[verb](Agent(ScriptedModel("Done."), store=store, name="desk"))
    assert not (tmp_path / "runs").exists()
    await store.close()

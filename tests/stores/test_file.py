"""Tests of the file store: foreign folders, and damaged descriptions."""

import asyncio
from pathlib import Path

import pytest

from ziggurat import Agent
from ziggurat.core import LogInfo
from ziggurat.errors import StoreError
from ziggurat.models import ScriptedModel
from ziggurat.stores import FileStore
from ziggurat.testing.under_test import rows


async def _begun(folder: Path) -> None:
    store = FileStore(folder)
    try:
        await store.create(LogInfo("run:r", "agent"), rows(1))
    finally:
        await store.close()


async def test_a_file_is_told_that_this_store_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="needs a folder"):
        await _begun(tmp_path / "runs")


async def test_a_log_whose_description_is_damaged_hides_no_other(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for name in ("run:a", "run:b"):
        await store.create(LogInfo(name, "agent"), rows(1))
    (tmp_path / "logs" / "run%3ab" / "info.json").write_text("{")
    listed = {info.log: info for info in await store.logs("run:")}
    assert listed["run:a"].agent == "agent"
    assert listed["run:b"].status == "Quarantined"
    assert "its description cannot be read" in listed["run:b"].problem
    assert listed["run:b"].updated > 0
    with pytest.raises(StoreError, match="its description cannot be read"):
        await store.find("run:b")
    await store.close()


async def test_a_log_without_its_description_is_damaged_and_not_absent(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for name in ("run:a", "run:b", "run:c"):
        await store.create(LogInfo(name, "agent"), rows(1))
    (tmp_path / "logs" / "run%3aa" / "info.json").unlink()
    description = (tmp_path / "logs" / "run%3ac" / "info.json").read_bytes()
    (tmp_path / "logs" / "run%3ab" / "info.json").write_bytes(description)
    with pytest.raises(StoreError, match="a part of it is missing"):
        await store.find("run:a")
    with pytest.raises(StoreError, match="'run:c'"):
        await store.find("run:b")
    listed = {info.log: info.status for info in await store.logs("run:")}
    assert listed == {"run:a": "Quarantined", "run:b": "Quarantined", "run:c": "running"}
    await store.close()


async def test_a_run_whose_description_is_missing_is_refused_at_once(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    agent = Agent(ScriptedModel("Done."), store=store)
    await agent.run("go", run_id="a")
    (tmp_path / "logs" / "run%3aa" / "info.json").unlink()
    async with asyncio.timeout(5):
        with pytest.raises(StoreError, match="a part of it is missing"):
            await agent.run("go", run_id="a")
    await store.close()


async def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 99}')
    with pytest.raises(StoreError, match="newer version"):
        await _begun(tmp_path)

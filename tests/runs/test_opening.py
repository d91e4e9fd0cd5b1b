"""Opening a run ends with a run or an error, also on a store that contradicts itself."""

import asyncio
from pathlib import Path

import pytest

from ziggurat.agents.agent import Agent
from ziggurat.core.errors import RunExists
from ziggurat.core.store import LogInfo
from ziggurat.models.scripted import ScriptedModel
from ziggurat.stores.sqlite import SqliteStore


class Forgetful(SqliteStore):
    """A store that does not find its runs, and does not create them again either."""

    async def find(self, log: str) -> LogInfo | None:
        return None


def test_a_store_that_has_a_run_and_does_not_find_it_is_not_asked_for_ever(tmp_path: Path) -> None:
    async def main() -> None:
        store = Forgetful(tmp_path / "runs.db")
        agent = Agent(ScriptedModel("Done.", always="Again."), store=store)
        await agent.run("go", run_id="a")
        async with asyncio.timeout(5):
            with pytest.raises(RunExists):
                await agent.run("go", run_id="a")
        await store.close()

    asyncio.run(main())

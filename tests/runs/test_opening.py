"""Opening a run ends with a run or an error, also on a store that contradicts itself, or after a mistake."""

import asyncio
from itertools import product
from pathlib import Path

import pytest

from tests.samples import sample
from tests.stores.places import PLACES
from ziggurat import Agent, AgentRequest, ConfigurationError, Context, Middleware, ModelResponse, Usage
from ziggurat.core.errors import attach
from ziggurat.errors import RunExists, RunNotFound
from ziggurat.journal import LocalJournal, LogInfo, Store
from ziggurat.journal.entries import Unanswered
from ziggurat.stores import SqliteStore
from ziggurat.stores.records import read_record
from ziggurat.testing import ScriptedModel


class Forgetful(SqliteStore):
    """A store that does not find its runs, and does not create them again either."""

    async def find(self, log: str) -> LogInfo | None:
        return None


async def test_a_store_that_has_a_run_and_does_not_find_it_is_not_asked_for_ever(tmp_path: Path) -> None:
    store = Forgetful(tmp_path / "runs.db")
    agent = Agent(ScriptedModel("Done.", always="Again."), store=store)
    await agent.run("go", run_id="a")
    async with asyncio.timeout(5):
        with pytest.raises(RunExists):
            await agent.run("go", run_id="a")
    await store.close()


class Mistaken(Middleware):
    """Makes a mistake, after a call that was cancelled, of a model or of an agent, and has cost something."""

    def __init__(self, within: str) -> None:
        self.within = within

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        started = asyncio.Event()

        async def lost(request: object, ctx: Context) -> ModelResponse:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                attach(error, "usage", Usage(5, requests=1))
                raise
            raise AssertionError("it is cancelled")

        async def call() -> None:
            if self.within == "model":
                await ctx.at("lost").once("lost", "x", lost, returns=ModelResponse)
            else:
                await Agent(lost, name="helper").run("x")

        task = asyncio.ensure_future(call())
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        raise ConfigurationError("wrong")


@pytest.mark.parametrize(("kind", "within"), sample(product([None, *PLACES], ["model", "agent"]), 4))
async def test_what_a_lost_call_has_cost_is_on_record_in_every_store_or_in_none(
    kind: str | None, within: str, tmp_path: Path
) -> None:

    store: Store | None = None if kind is None else PLACES[kind](tmp_path)()
    agent = Agent(ScriptedModel("x"), middleware=[Mistaken(within)], store=store)
    with pytest.raises(ConfigurationError, match="wrong"):
        await agent.run("go", run_id="r")
    if within == "model":  # nothing was done but that, so the run is not kept
        with pytest.raises(RunNotFound):
            await agent.resume("r")
    elif store is not None:
        journal: LocalJournal = await read_record(store, "r")
        assert [entry.spent for entry in journal.entries if isinstance(entry, Unanswered)]
    if store is not None:
        await store.close()

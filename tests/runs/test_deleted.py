"""`delete` removes a run with all that belongs to it, in every store, and refuses one that somebody drives."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.stores.places import PLACES
from ziggurat import Agent, Approve, tool
from ziggurat.errors import LeaseHeld, RunInProgress, RunNotFound
from ziggurat.journal import Store
from ziggurat.journal.store import SupportsLogMarks, run_log
from ziggurat.messages import tool_call
from ziggurat.stores import InMemoryStore, Session
from ziggurat.testing import ScriptedModel


@tool(approval=True)
async def pay(to: str) -> str:
    return f"{to} is paid"


def _agent(store: Store | None, **settings: Any) -> Agent:
    return Agent(
        ScriptedModel(tool_call("pay", to="ada"), always="done", per_run=True),
        tools=[pay],
        name="desk",
        store=store,
        **settings,
    )


@pytest.mark.parametrize("kind", [None, *PLACES])
async def test_nothing_of_it_is_left_and_its_id_is_free(kind: str | None, tmp_path: Path) -> None:
    store = None if kind is None else PLACES[kind](tmp_path)()
    agent = _agent(store)
    first = await agent.run("go", run_id="r", session=None if store is None else "alice")
    await agent.run("go", run_id="other")
    await agent.attach("r").inject("hello")
    fork = None if store is None else await agent.fork("r", 1, new_id="fork", effects="live")
    assert await agent.delete("r")
    assert not await agent.delete("r")
    with pytest.raises(RunNotFound):
        await agent.record("r")
    assert list(await agent.pending()) == (["other"] if fork is None else ["fork", "other"])[::-1]
    if store is not None:
        assert fork is not None
        assert await store.inbox(run_log("r")) == []
        assert await store.read(run_log("r")) == []
        if isinstance(store, SupportsLogMarks):
            assert await store.acknowledged(run_log("r")) is None
        assert (await agent.resume("fork", {fork.pending[0].id: Approve()})).text == "done"
        assert (await Session("alice", store).get_messages())[0].text == "go"
    agent = _agent(store)
    again = await agent.run("go", run_id="r")
    assert (again.pending[0].call, again.usage) == (first.pending[0].call, first.usage)
    assert (await agent.resume("r", {again.pending[0].id: Approve()})).text == "done"
    if store is not None:
        await store.close()


async def test_one_in_progress_is_refused_by_name() -> None:
    store = InMemoryStore()
    elsewhere = _agent(InMemoryStore(shared=store))
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        begun.set()
        await goes_on.wait()
        return "waited"

    agent = Agent(ScriptedModel(tool_call("wait"), "done"), tools=[wait], name="desk", store=store)
    handle = agent.start("go", run_id="busy")
    await begun.wait()
    with pytest.raises(RunInProgress, match="busy"):
        await agent.delete("busy")
    with pytest.raises(LeaseHeld, match="busy"):
        await elsewhere.delete("busy")
    goes_on.set()
    assert (await handle.result()).text == "done"
    assert await elsewhere.delete("busy")

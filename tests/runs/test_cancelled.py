"""Cancelled at any turn of the event loop, a run ends in one way: caller, record, replay and session agree on it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.stores.places import Place, opening
from ziggurat.agents.agent import Agent
from ziggurat.core.errors import ModelError
from ziggurat.core.store import run_log
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.parts import tool_call
from ziggurat.messages.stops import status_of
from ziggurat.models.scripted import ScriptedModel
from ziggurat.stores.session import Session
from ziggurat.testing.clock import disk
from ziggurat.tools.function import tool


@pytest.fixture(params=["memory", "sqlite", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as opens:
        yield opens


ENDS: dict[str, list[Any]] = {
    "Completed": [tool_call("look"), "answer"],
    "Failed": [tool_call("look"), ModelError("broken")],
    "Suspended": [tool_call("look"), tool_call("send")],
}


@tool(effect="none")
async def look() -> str:
    """Look."""
    for _ in range(20):
        await asyncio.sleep(0)
    return "looked"


@tool(approval=True)
async def send() -> str:
    """Send."""
    return "sent"


def _agent(end: str, store: Any) -> Agent:
    return Agent(ScriptedModel(*ENDS[end]), tools=[look, send], store=store)


async def _handle(agent: Agent, turns: int, options: Any) -> AgentRun:
    handle = agent.start("go", run_id="r", **options)
    for _ in range(turns):
        await disk()
        await asyncio.sleep(0)
    handle.cancel()
    return await handle.result()


async def _stream(agent: Agent, turns: int, options: Any) -> AgentRun | None:
    async with agent.stream("go", run_id="r", buffer=1, **options) as events:
        for _ in range(turns):
            try:
                await anext(events)
            except StopAsyncIteration:
                return events.response
    return None


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("leave", [_handle, _stream])
@pytest.mark.parametrize("end", ENDS)
async def test_caller_record_replay_and_session_agree_on_how_a_cancelled_run_ended(
    end: str, leave: Any, session: bool, place: Place
) -> None:
    async def cancelled_after(turns: int, name: str) -> str:
        options: Any = {"session": name} if session else {}
        store = place()
        run = await leave(_agent(end, store), turns, options)
        info = await store.find(run_log("r"))
        if info is None:
            return "unbegun"
        assert info.status in (end, "Cancelled")
        assert run is None or info.status == status_of(run.stop)
        replayed = await _agent(end, place()).replay("r")
        again = await _agent(end, place()).run("go", run_id="r", **options)
        assert [status_of(each.stop) for each in (replayed, again)] == [info.status] * 2
        assert again.messages == replayed.messages
        assert run is None or run.messages == again.messages
        assert_sendable(again.messages)
        if session:
            said = await Session(name, place()).get_messages()
            assert said[: len(again.messages)] == list(again.messages) or (not said and len(again.messages) == 1)
        await store.delete(run_log("r"))
        return info.status

    seen: list[str] = []
    turns = 0
    while "Cancelled" not in seen or seen[-3:] != [end] * 3:
        seen.append(await cancelled_after(turns, f"s{len(seen)}"))
        assert len(seen) < 400
        turns = 0 if seen[-3:] == [end] * 3 else turns + 1  # a store's threads may end between two of our turns

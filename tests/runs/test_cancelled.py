"""Cancelled at any turn of the event loop, a run ends in one way: caller, record, replay and session agree on it."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.samples import SEED, amount, pairs
from tests.stores.places import stores
from ziggurat import Agent, AgentRun, tool
from ziggurat.agents import runs_of
from ziggurat.errors import ModelError
from ziggurat.journal.store import run_log
from ziggurat.messages import tool_call
from ziggurat.messages.stops import status_of
from ziggurat.stores import Session
from ziggurat.testing import ScriptedModel
from ziggurat.testing.loop import disk

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
    if runs_of(agent.store).is_in_progress("r"):
        await handle.cancel()
    return await handle.result()


async def _stream(agent: Agent, turns: int, options: Any) -> AgentRun | None:
    async with agent.stream("go", run_id="r", buffer=1, **options) as events:
        for _ in range(turns):
            try:
                await anext(events)
            except StopAsyncIteration:
                return events.response
    return None


@pytest.mark.parametrize(
    ("kind", "end", "leave", "session"), pairs(["memory", "sqlite", "file"], ENDS, [_handle, _stream], [False, True])
)
async def test_caller_record_replay_and_session_agree_on_how_a_cancelled_run_ended(
    kind: str, end: str, leave: Any, session: bool, tmp_path: Path
) -> None:
    chance = random.Random(SEED)

    async def cancelled_after(turns: int, name: str) -> str:
        options: Any = {"session": name} if session else {}
        run = await leave(_agent(end, here), turns, options)
        info = await here.find(run_log("r"))
        if info is None:
            return "unbegun"
        assert info.status in (end, "Cancelled")
        assert run is None or info.status == status_of(run.stop)
        replayed = await _agent(end, elsewhere).replay("r")
        again = await _agent(end, elsewhere).run("go", run_id="r", **options)
        assert [status_of(each.stop) for each in (replayed, again)] == [info.status] * 2
        assert again.messages == replayed.messages
        assert run is None or run.messages == again.messages
        assert_sendable(again.messages)
        if session:
            said = await Session(name, elsewhere).get_messages()
            assert said[: len(again.messages)] == list(again.messages) or (not said and len(again.messages) == 1)
        await here.delete(run_log("r"))
        return info.status

    async with stores(kind, tmp_path) as (here, elsewhere):
        seen: list[str] = []
        turns = chance.randrange(amount(8, 1))
        while "Cancelled" not in seen or seen[-3:] != [end] * 3:
            seen.append(await cancelled_after(turns, f"s{len(seen)}"))
            assert len(seen) < 400
            # A store's threads may end between two of our turns, and a step may pass over all that can be cancelled.
            passed = seen[-3:] == [end] * 3
            turns = chance.randrange(64) if passed else turns + chance.randint(1, amount(16, 1))

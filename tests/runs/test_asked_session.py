"""While an approver in the process is asked, the session shows what waits: the process may be lost meanwhile."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.support import assert_sendable
from tests.runs.test_waiting_session import Desk
from tests.samples import sample
from tests.stores.places import Place, opening
from ziggurat import Agent, Approvals, Approve, Deny, tool
from ziggurat.agents import Decision
from ziggurat.journal import Store
from ziggurat.messages import tool_call
from ziggurat.stores import Session, connect
from ziggurat.testing import ScriptedModel


@pytest.fixture(params=sample(["sqlite", "memory", "file"], 1))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


async def _seen(store: Store) -> list[str]:
    """Return the texts and results in the session, as another process sees it."""
    await asyncio.sleep(0)
    messages = await Session("ada", store).get_messages()
    if messages:
        assert_sendable(messages)
    return [text for each in messages for text in (each.text, *[result.text for result in each.tool_results]) if text]


_WAITING = "no result yet: a person has been asked and has not decided; do not ask for it again"


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("end", [Approve(), Deny("no"), None])
async def test_while_a_person_is_asked_in_the_process_the_session_shows_what_waits(
    end: Decision | None, nested: bool, place: Place
) -> None:

    elsewhere = place()
    answered: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    async def approver(item: object) -> Decision:
        return await answered

    desk = Desk(place, nested)
    agent = desk.agent(tool_call("look", id="l"), ["I ask.", desk.call, tool_call("look", id="m")])
    handle = agent.start("refund 881", session="ada", approvals=Approvals(approver=approver))
    while _WAITING not in (seen := await _seen(elsewhere)):
        pass
    assert seen[:4] == ["refund 881", "seen", "I ask.", _WAITING]
    if end is None:
        await handle.cancel()
    else:
        answered.set_result(end)
    run = await handle.result()
    result = [] if end is None else [run.observations[1], "seen", "Done."]
    assert await _seen(elsewhere) == ["refund 881", "seen", *(["I ask.", *result] if result else [])]
    assert desk.paid == (["881"] if end == Approve() else [])


async def test_several_that_are_asked_about_at_the_same_time_are_all_shown(place: Place) -> None:
    elsewhere = place()
    answered: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    async def approver(item: object) -> Decision:
        return await answered

    calls = [tool_call("refund", id=str(number), order=str(number)) for number in range(3)]
    agent = Desk(place, nested=False).agent(calls)
    handle = agent.start("all", session="ada", approvals=Approvals(approver=approver))
    while await _seen(elsewhere) != ["all", _WAITING, _WAITING, _WAITING]:
        pass
    answered.set_result(Approve())
    await handle.result()
    assert await _seen(elsewhere) == ["all", "refunded", "refunded", "refunded", "Done."]


_LOST = """
import asyncio, os, sys
from ziggurat import Agent, Approvals, tool
from ziggurat.messages import tool_call
from ziggurat.stores import Session, connect
from ziggurat.testing import ScriptedModel

@tool(effect="once")
def pay() -> str:
    "Pay."
    return "paid"

async def main(url):
    store = connect(url)
    async def approver(item):
        while len(await Session("ada", store).get_messages()) < 3:
            await asyncio.sleep(0.01)
        os._exit(7)
    await Agent(ScriptedModel(tool_call("pay")), tools=[pay], approvals=Approvals("pay", approver=approver),
        store=store, name="desk").run("pay it", session="ada", run_id="a")

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_a_call_about_which_a_lost_process_has_asked_is_not_made_a_second_time(kind: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db?synchronous=NORMAL" if kind == "sqlite" else f"file://{tmp_path}/runs"
    ended = subprocess.run([sys.executable, "-c", _LOST, url], capture_output=True, text=True)
    assert ended.returncode == 7, ended.stderr

    @tool(effect="once")
    def pay() -> str:
        return "paid"

    store = connect(url)
    model = ScriptedModel(tool_call("pay"), always="Done.")
    agent = Agent(model, tools=[pay], approvals=Approvals("pay"), store=store, name="desk")
    second = await agent.run("and?", session="ada")
    assert [result.text for each in model.calls[0].messages for result in each.tool_results] == [_WAITING]
    assert second.pending == ()
    assert "waits for a person's decision already" in second.observations[0]
    first = await agent.resume("a")
    assert (await agent.resume("a", {first.pending[0].id: Approve()})).observations == ("paid",)
    await store.close()

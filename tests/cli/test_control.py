"""The commands ``send``, ``attach``, ``cancel`` and ``inject``."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

from tests.cli.conftest import Command
from ziggurat import Agent, AgentRun, tool
from ziggurat.flows import continue_as_new, event, flow, sleep
from ziggurat.messages import stops, tool_call
from ziggurat.stores import SqliteStore, connect
from ziggurat.testing import ScriptedModel


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def _run(url: str, *replies: Any, resume: bool = False) -> AgentRun[Any]:
    async def go() -> AgentRun[Any]:
        store = connect(url)
        agent = Agent(ScriptedModel(*replies), tools=[pay], name="desk", store=store)
        try:
            return await (agent.resume("r-1") if resume else agent.run("Go", run_id="r-1"))
        finally:
            await store.close()

    return asyncio.run(go())


def test_a_run_in_another_event_loop_gets_a_message_is_followed_and_cancelled(
    ziggurat: Command, url: str, tmp_path: Path
) -> None:
    looked = threading.Event()

    @tool(effect="none")
    async def look() -> str:
        """Look."""
        looked.set()
        await asyncio.sleep(0.01)
        return "seen"

    async def drive() -> AgentRun[Any]:
        store = SqliteStore(tmp_path / "runs.db")
        agent = Agent(ScriptedModel(always=tool_call("look")), tools=[look], store=store, max_steps=10_000)
        try:
            return await agent.run("Go", run_id="r-1")
        finally:
            await store.close()

    runs: list[AgentRun[Any]] = []
    driver = threading.Thread(target=lambda: runs.append(asyncio.run(drive())))
    driver.start()
    assert looked.wait(60)
    sent = ziggurat("inject", "r-1", "by the way", "--store", url)
    assert (sent.code, sent.out) == (0, "r-1  sent\n")
    assert ziggurat("cancel", "r", "--after-step", "--store", url).code == 0
    followed = ziggurat("attach", "r-1", "--json", "--store", url)
    driver.join()
    (run,) = runs
    assert run.stop == stops.Cancelled()
    assert followed.code == 130
    events = [json.loads(line)["event"] for line in followed.out.splitlines()]
    assert events[0] == "AgentStarted"
    assert events[-1] == "AgentEnded"
    assert "ToolEnded" in events
    for command in (("cancel", "r-1"), ("inject", "r-1", "more")):
        late = ziggurat(*command, "--store", url)
        assert (late.code, late.out) == (1, "")
        assert "the run r-1 has ended" in late.err


def test_attach_writes_the_answer_or_what_the_run_waits_for(ziggurat: Command, url: str) -> None:
    _run(url, tool_call("pay"))
    waits = ziggurat("attach", "r-1", "--store", url)
    assert (waits.code, waits.out) == (3, "")
    assert "suspended: it waits for 1 decision: pay()" in waits.err
    assert "ziggurat approve r-1" in waits.err
    assert ziggurat("inject", "r-1", "--redirect", "Leave it.", "--store", url).code == 0
    assert _run(url, "left", resume=True).text == "left"
    ended = ziggurat("attach", "r-1", "--store", url)
    assert (ended.code, ended.out) == (0, "left\n")


def test_an_event_is_sent_once_and_checked(ziggurat: Command, url: str) -> None:
    async def order() -> str:
        await sleep(days=0)
        return f"{await event('paid', int)} {await event('note')}"

    async def go(*, resume: bool) -> object:
        store = connect(url)
        orders = flow(store=store)(order)
        run = await (orders.resume("order-1") if resume else orders.run(run_id="order-1"))
        await store.close()
        return run.output if run.has_final_answer else run.stop

    asyncio.run(go(resume=False))
    assert ziggurat("pending", "--store", url).out == "", "it waits for nobody"
    assert "waits for the event 'paid'" in ziggurat("show", "order-1", "--store", url).out
    refused = ziggurat("send", "order-1", "paid", "a lot", "--store", url)
    assert refused.code != 0
    assert "the event 'paid' does not fit what the run 'order-1' waits for" in refused.err
    for said in ("sent", "was sent before"):
        sent = ziggurat("send", "order", "paid", "30", "--key", "p-1", "--store", url)
        assert (sent.code, sent.out) == (0, f"order-1  paid {said}\n")
    assert ziggurat("send", "order-1", "note", "thank you", "--store", url).code == 0
    assert asyncio.run(go(resume=True)) == "30 thank you"
    assert ziggurat("approve", "order-1", "--store", url).code != 0


def test_what_is_sent_to_a_run_goes_to_the_one_as_which_it_continues(ziggurat: Command, url: str) -> None:
    async def watch(seen: list[int]) -> str:
        seen = [*seen, await event("reading", int)]
        if len(seen) < 3:
            await continue_as_new(seen)
        return f"seen {seen}"

    async def go(run_id: str) -> object:
        store = connect(url)
        watching = flow(store=store)(watch)
        run = await (watching.run([], run_id=run_id) if run_id == "r-1" else watching.resume(run_id.lstrip("=")))
        await store.close()
        return run.stop

    for number, run_id in enumerate(("r-1", "=r-1", "r-1~2", "r-1~3")):
        stop = asyncio.run(go(run_id))
        assert isinstance(stop, (stops.Suspended, stops.Continued, stops.Continued, stops.Completed)[number]), run_id
        if number == 0:
            assert ziggurat("send", "r-1", "reading", "0", "--store", url).code == 0
        elif number < 3:
            sent = ziggurat("send", "r-1", "reading", str(number), "--store", url)
            assert (sent.code, sent.out) == (0, "r-1  reading sent\n")
    ended = ziggurat("attach", "r-1", "--store", url)
    assert (ended.code, ended.out) == (0, "seen [0, 1, 2]\n")

"""Every reader of a run gets its events whole, once and in order: while it runs, late, and from another process."""

import asyncio
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import PLACES, stores
from ziggurat import Agent, AgentRun, Approvals, Approve, Deny, Event, Rule, ToolError, tool
from ziggurat.agents import PendingItem, runs_of
from ziggurat.core.codec import encode
from ziggurat.events import AgentEnded, AgentStarted, ApprovalDecided, ApprovalRequested, ModelEnded, Skipped, ToolEnded
from ziggurat.flows import flow, step
from ziggurat.journal import Store
from ziggurat.journal.entries import Ended, Intent, Opened, Result
from ziggurat.messages import tool_call
from ziggurat.runs.control import SubscribedItem
from ziggurat.runs.recorded_events import RECORDED_EVENTS
from ziggurat.testing import ScriptedModel

COMPARED: dict[type[Event], tuple[str, ...]] = {
    AgentStarted: ("agent", "run_id"),
    AgentEnded: (),
    ModelEnded: ("response",),
    ToolEnded: ("call", "result"),
    ApprovalRequested: ("item",),
    ApprovalDecided: ("id", "call", "decision"),
}


@tool(effect="none")
async def look(page: int) -> str:
    """Look at a page."""
    for _ in range(page):
        await asyncio.sleep(0)
    if page == 2:
        raise ToolError("this page is torn")
    return f"page {page}"


@tool(effect="once")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def approver(item: PendingItem) -> Approve | Deny:
    return Approve() if item.call.parsed()["amount"] != 3 else Deny("too much")


def agent(seed: int, store: Store | None) -> Agent[Any]:
    """Return an agent with a random script of calls that succeed, fail, are denied, unknown, wrong, or are agents."""
    chance = random.Random(seed)
    calls = [
        ("look", "page"),
        ("look", "page"),
        ("pay", "amount"),
        ("gone", "x"),
        ("look", "amount"),
        ("helper", "input"),
    ]

    def step(number: int) -> list[Any]:
        chosen = [chance.choice(calls) for _ in range(chance.randrange(1, 4))]
        return [
            tool_call(name, id=f"{number}-{at}", **{key: "hello" if key == "input" else chance.randrange(4)})
            for at, (name, key) in enumerate(chosen)
        ]

    helper = Agent(
        ScriptedModel(rules=[("hello", tool_call("look", page=1))], always="helped"), tools=[look], name="helper"
    )
    approvals = Approvals(Rule("pay"), approver=approver)
    steps = [step(number) for number in range(4)]
    model = ScriptedModel(*steps, always=tool_call("final_answer", value=7))
    return Agent(model, tools=[look, pay, helper], output=int, approvals=approvals, store=store, name="agent")


async def read(one: Agent[Any], after: int = 0) -> list[SubscribedItem]:
    return [item async for item in one.attach("r").events(after=after)]


async def read_in_progress(one: Agent[Any]) -> list[SubscribedItem] | None:
    """Read a run that goes on from this very turn on: without a store, a run is gone a turn after its end."""
    return await read(one) if runs_of(one.store).is_in_progress("r") else None


def durable(items: list[SubscribedItem]) -> list[tuple[int, str, bytes]]:
    return [(item.number, type(item.what).__name__, encode(item.what)) for item in items if not item.index]


def told(events: list[Any]) -> list[tuple[str, str, list[Any]]]:
    """Return what readers and listeners must agree on, of the events that come from the record."""
    return sorted(
        (type(event).__name__, event.path, [getattr(event, name) for name in COMPARED[type(event)]])
        for event in events
        if type(event) in COMPARED and not getattr(event, "replayed", False)
    )


@pytest.mark.parametrize(("kind", "seed"), sample(product([*PLACES, "none"], range(6)), 8))
async def test_all_readers_get_what_a_listener_hears(kind: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    here = elsewhere = None
    if kind != "none":
        place = PLACES[kind](tmp_path)
        here, elsewhere = place(), place()
    one, far_one = agent(seed, here), agent(seed, elsewhere)
    heard: list[Event] = []
    handle = one.start("Go", run_id="r", listeners=[heard.append])
    assert await handle.recorded()
    readers = [asyncio.create_task(read(one))]
    if elsewhere is not None:
        readers.append(asyncio.create_task(read(far_one)))
    for _ in range(chance.randrange(60)):
        await asyncio.sleep(0)
    late = asyncio.create_task(read_in_progress(one))
    run = await handle.result()
    assert run.output == 7
    assert {"ToolEnded", "ModelEnded", "AgentEnded"} <= {kind for kind, _, _ in told(heard)}
    if here is not None:
        readers.append(asyncio.create_task(read(one)))
    items = [await reader for reader in readers]
    if (read_late := await late) is not None:
        items.append(read_late)
    for each in items:
        assert durable(each) == durable(items[0])
        assert [item.number for item in each if not item.index] == list(range(1, each[-1].number + 1))
        assert isinstance(each[0].what, Opened)
        assert durable(each)[-1][1] == "Ended"
        if kind == "postgres" and any(isinstance(item.what, Skipped) for item in each):
            continue  # a reader that is too slow gets the entries only
        places = [(item.number, item.index) for item in each]
        assert places == sorted(set(places))
        assert told([item.what for item in each]) == told(heard)
        assert not [item for item in each if item.index and isinstance(item.what, RECORDED_EVENTS)]
        ended = [item.what for item in each if isinstance(item.what, AgentEnded) and item.what.path == "agent"]
        assert [event.run.output for event in ended] == [7]
    for store in (here, elsewhere):
        if store is not None:
            await store.close()


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_a_reader_of_a_run_that_waits_gets_the_request_and_the_decision(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        model = ScriptedModel(tool_call("pay", amount=1), always="done")
        one = Agent(model, tools=[pay], approvals=Approvals(Rule("pay")), store=here)
        other = Agent(model, tools=[pay], approvals=Approvals(Rule("pay")), store=elsewhere)
        run = await one.run("Go", run_id="r")
        (item,) = run.pending
        asked = [each.what for each in await read(other) if isinstance(each.what, ApprovalRequested)]
        assert [event.item for event in asked] == [item]
        count = (await read(other))[-1].number
        await one.resume("r", {item.id: Approve()})
        later = [each.what for each in await read(other, after=count)]
        (decided,) = [event for event in later if isinstance(event, ApprovalDecided)]
        assert (decided.call, decided.decision) == (item.call, Approve())
        (tool_ended,) = [event for event in later if isinstance(event, ToolEnded)]
        assert tool_ended.result.text == "paid 1"
        assert tool_ended.call == item.call, "of a call that was asked for before the place where the reader began"


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_a_reader_gets_the_steps_that_act_once_only(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):

        @step(effect="once")
        async def charge(amount: int) -> str:
            return f"charged {amount}"

        async def order(amount: int) -> str:
            return await charge(amount)

        assert (await flow(store=here)(order).run(5, run_id="r")).output == "charged 5"
        items = [item.what async for item in flow(store=elsewhere)(order).attach("r").events()]
        (intent,) = [each for each in items if isinstance(each, Intent)]
        assert (intent.name, intent.request) == ("charge", intent.digest)
        assert "charged 5" in [each.value for each in items if isinstance(each, Result)]


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_when_the_last_item_has_come_the_run_can_be_continued(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        model = ScriptedModel(*[tool_call("pay", amount=1)] * 3, always="done")
        agents = [
            Agent(model, tools=[pay], approvals=Approvals(Rule("pay")), store=store) for store in (here, elsewhere)
        ]
        ended: list[AgentRun] = []
        runs = [asyncio.create_task(agents[0].run("Go", run_id="r", session="s"))]
        while await here.find("run:r") is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for number in range(3):
            reader, driver = agents[number % 2], agents[(number + 1) % 2]
            items = [item async for item in reader.attach("r").events()]
            assert isinstance(items[-1].what, Ended)
            (waiting,) = (await reader.pending())["r"]
            runs.append(asyncio.create_task(driver.resume("r", {waiting.id: Approve()})))
            ended.append(await runs[-1])
        assert [run.stop for run in ended[:2]] == [(await runs[0]).stop] * 2
        assert ended[2].text == "done"

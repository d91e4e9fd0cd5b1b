"""What holds for every team, alone and three deep in one another, is tested for all of them."""

from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.hard_cases.support import through_json
from tests.samples import amount, sample
from tests.stores import places
from tests.teams.models import Answering, after_tools
from tests.teams.patterns import ALONE, CASES, NESTED, built, member
from tests.teams.storms import Dawdle, orders, trees
from tests.wrong import wrong
from ziggurat import (
    Agent,
    AgentRun,
    Approve,
    Budget,
    Context,
    Event,
    Middleware,
    Runnable,
    stop_when,
    tool,
    until_tool_called,
)
from ziggurat.agents import Answer
from ziggurat.agents.stop import Progress
from ziggurat.core.service import Effect
from ziggurat.events import AgentEnded, AgentStarted, ModelStarted
from ziggurat.flows import ask
from ziggurat.messages import ModelRequest, stops, tool_call
from ziggurat.stores import InMemoryStore


@tool
def send(text: str) -> str:
    """Send a text."""
    return "ok"


def ids(case: Sequence[str]) -> str:
    return ">".join(case)


def worker(
    done: list[str] | None = None, *, approval: bool = False, question: bool = False, effect: Effect = "once"
) -> Agent:
    """Return an agent that uses a tool in each of its turns, and then answers."""
    acted = [] if done is None else done

    @tool(name="send", effect=effect, approval=approval)
    def act(text: str) -> str:
        """Send a text."""
        acted.append(text)
        return "ok"

    @tool
    async def inquire() -> str:
        """Ask a person."""
        acted.append(await ask("Which?", str))
        return "ok"

    used = inquire if question else act
    call = tool_call("inquire") if question else tool_call("send", text="x")
    return Agent(Answering(after_tools("sent", call)), name="worker", tools=[used])


def same(one: AgentRun, other: AgentRun) -> None:
    """Assert that two runs say the same."""
    assert list(one.messages) == list(other.messages)
    assert (one._output, one.stop, one.agent, one.steps, one.start) == (
        other._output,
        other.stop,
        other.agent,
        other.steps,
        other.start,
    )
    assert (one.model_calls, one.tool_calls) == (other.model_calls, other.tool_calls)


@pytest.mark.parametrize("case", CASES, ids=ids)
async def test_a_streamed_run_is_that_without_listeners_and_its_paths_are_whole(case: Sequence[str]) -> None:
    plain = await built(case, worker()).run("go")
    heard: list[Event] = []
    async with built(case, worker()).stream("go") as events:
        async for event in events:
            heard.append(event)
    same(plain, events.response)
    assert isinstance(plain.stop, stops.Completed)
    assert_sendable(plain.messages)
    started = [event.path for event in heard if isinstance(event, AgentStarted)]
    assert sorted(started) == sorted(event.path for event in heard if isinstance(event, AgentEnded))
    models = [event.path for event in heard if isinstance(event, ModelStarted)]
    assert len(set(models)) == len(models) == plain.model_calls
    assert all(path.startswith("team0/") for path in models)
    assert all(message.name for message in plain.messages if message.role == "assistant")


@pytest.mark.parametrize("question", [False, True], ids=["approval", "question"])
@pytest.mark.parametrize("case", CASES, ids=ids)
async def test_what_waits_for_a_person_goes_on_in_another_process(case: Sequence[str], question: bool) -> None:
    freely: list[str] = []
    expected = await built(case, worker(freely)).run("go")
    done: list[str] = []
    store: Any = InMemoryStore()
    run = await built(case, worker(done, approval=True, question=question), store=store).run("go", run_id="r-1")
    for _ in range(20):
        if not run.pending:
            break
        decisions = {item.id: Answer("x") if item.stage == "question" else Approve() for item in run.pending}
        store = through_json(store, "r-1")
        again = built(case, worker(done, approval=True, question=question), store=store)
        run = await again.resume("r-1", decisions)
    assert done == freely  # nothing twice
    assert (run._output, run.stop, run.agent) == (expected._output, expected.stop, expected.agent)
    if not question:
        same(run, expected)


@pytest.mark.parametrize(("place", "case"), sample(product(places.PLACES, ALONE), 8))
async def test_a_team_that_waits_is_continued_on_every_store(place: str, case: Sequence[str], tmp_path: Path) -> None:
    async with places.stores(place, tmp_path, 3) as opened:
        processes, done = cycle(opened), list[str]()
        run = await built(case, worker(done, approval=True), store=next(processes)).run("go", run_id="r-1")
        while run.pending:
            again = built(case, worker(done, approval=True), store=next(processes))
            run = await again.resume("r-1", {item.id: Approve() for item in run.pending})
        assert isinstance(run.stop, stops.Completed)
        assert done


async def cancelled(case: Sequence[str], store: InMemoryStore, turn: int) -> AgentRun:
    """Run a team that is cancelled when its n-th model call begins."""
    started: list[Event] = []

    async def cancel(event: Event) -> None:
        if isinstance(event, ModelStarted):
            started.append(event)
            if len(started) == turn:
                await handle.cancel()

    team = built(case, worker(effect="repeatable"), store=store)
    handle = team.start("go", run_id="r-1", listeners=[cancel])
    return await handle.result()


@pytest.mark.parametrize("case", CASES, ids=ids)
async def test_it_can_be_cancelled_in_any_turn_and_go_on(case: Sequence[str]) -> None:
    expected = await built(case, worker()).run("go")
    for turn in sample(range(1, expected.model_calls + 1), 6):
        store = InMemoryStore()
        assert isinstance((await cancelled(case, store, turn)).stop, stops.Cancelled)
        again = built(case, worker(effect="repeatable"), store=through_json(store, "r-1"))
        same(await again.resume("r-1"), expected)


@pytest.mark.parametrize("case", CASES, ids=ids)
async def test_its_middleware_is_around_every_call(case: Sequence[str]) -> None:
    class Count(Middleware):
        def __init__(self) -> None:
            self.models = self.tools = 0

        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            self.models += 1

        async def before_tool(self, call: object, ctx: Context) -> None:
            self.tools += 1

    count = Count()
    run = await built(case, worker(), middleware=[count]).run("go")
    assert (count.models, count.tools) == (run.model_calls, run.tool_calls)


@pytest.mark.parametrize("case", sample(CASES, 8), ids=ids)
async def test_a_session_goes_on_with_what_was_said(case: Sequence[str]) -> None:
    store = InMemoryStore()
    first = await built(case, worker(), store=store).run("one", session="s")
    second = await built(case, worker(), store=store).run("two", session="s")
    assert list(second.messages)[: len(first.messages)] == list(first.messages)
    assert second.start == len(first.messages) + 1
    assert isinstance(second.stop, stops.Completed)


@pytest.mark.parametrize("case", CASES, ids=ids)
async def test_it_is_replayed_and_forked(case: Sequence[str]) -> None:
    store = InMemoryStore()
    team = built(case, worker(), store=store)
    run = await team.run("go", run_id="r-1")
    same(await team.replay("r-1"), run)
    live = built(case, worker(), store=store)
    forked = await live.fork("r-1", at=2, effects="live")
    assert (forked._output, forked.stop) == (run._output, run.stop)


@pytest.mark.parametrize("case", CASES, ids=ids)
async def test_it_is_replayed_where_a_member_failed_after_it_had_acted(case: Sequence[str]) -> None:
    def failing() -> Agent:
        def judge(progress: Progress) -> bool:
            return progress.step > 1 and 1 / 0 > 1

        return Agent(worker().model, name="worker", tools=[send], stop=stop_when(judge))

    store = InMemoryStore()
    run = await built(case, failing(), store=store).run("go", run_id="r-1")
    assert_sendable(run.messages)
    same(await built(case, failing(), store=store).replay("r-1"), run)


@pytest.mark.parametrize("case", sample(CASES, 8), ids=ids)
async def test_its_budget_holds_for_all(case: Sequence[str]) -> None:
    whole = await built(case, worker()).run("go")
    for calls in (1, whole.model_calls // 2):
        limit = calls * 11
        run = await built(case, worker(), budget=Budget(tokens=limit)).run("go")
        assert run.usage.total <= limit
        assert isinstance(run.stop, (stops.BudgetExceeded, stops.Completed))
        assert calls > 1 or isinstance(run.stop, stops.BudgetExceeded)


@pytest.mark.parametrize("case", CASES, ids=ids)
async def test_it_is_a_tool_and_a_member_that_stops_early_is_no_failure_of_the_program(case: Sequence[str]) -> None:
    outer = Agent(Answering(after_tools("outer", tool_call("team0", input="go"))), tools=[built(case, worker())])
    run = await outer.run("go")
    assert run.text == "outer"
    assert [result.error for message in run.messages for result in message.tool_results] == [None]
    stopping = Agent(worker().model, name="worker", tools=[send], max_steps=1)
    ended = await built(case, stopping).run("go")
    assert isinstance(ended.stop, (stops.Completed, stops.MaxSteps, stops.BudgetExceeded))
    assert_sendable(ended.messages)


@pytest.mark.parametrize("case", sample(CASES, 6), ids=ids)
async def test_the_order_in_which_members_end_changes_nothing(case: Sequence[str]) -> None:
    assert await orders(case, 4, seed=3) == []


async def test_no_tree_of_agents_and_handoffs_widens_the_grants_of_a_run() -> None:
    uses, wrong = await trees(amount(25, 300), seed=5)
    assert uses > 10
    assert wrong == []


@pytest.mark.parametrize("case", sample(CASES, 8), ids=ids)
async def test_members_at_the_same_time_reserve_what_they_may_spend(case: Sequence[str]) -> None:
    whole = await built(case, worker()).run("go")
    for calls in (2, whole.model_calls // 2 + 1):
        run = await built(case, worker(), budget=Budget(requests=calls), middleware=[Dawdle(calls)]).run("go")
        assert 0 < run.model_calls <= calls  # fewer, if one in the background was cut off
        assert_sendable(run.messages)


@pytest.mark.parametrize("case", sample(CASES, 8), ids=ids)
async def test_where_a_member_is_stopped_the_team_goes_on_or_says_so(case: Sequence[str]) -> None:
    def stopping() -> Agent:
        return Agent(worker().model, name="worker", tools=[send], stop=until_tool_called("send"))

    store = InMemoryStore()
    run = await built(case, stopping(), store=store).run("go", run_id="r-1")
    assert isinstance(run.stop, (stops.Completed, stops.ToolCalled, stops.BudgetExceeded))
    assert_sendable(run.messages)
    same(await built(case, stopping(), store=store).replay("r-1"), run)
    async with built(case, stopping()).stream("go") as events:
        async for _ in events:
            pass
    same(events.response, run)


@pytest.mark.parametrize("case", ALONE + sample(NESTED, 2), ids=ids)
async def test_a_worker_drives_a_submitted_team_and_goes_on_when_a_person_has_decided(case: Sequence[str]) -> None:
    freely: list[str] = []
    expected = await built(case, worker(freely)).run("go")
    done: list[str] = []
    team = built(case, worker(done, approval=True), store=InMemoryStore())
    await team.submit("go", run_id="r-1")
    async with team.worker():
        run = await team.attach("r-1").result()
        for _ in range(40):
            if not run.pending:
                break
            await team.attach("r-1").decide({item.id: Approve() for item in run.pending})
            run = await team.attach("r-1").result()
    same(run, expected)
    assert done == freely


async def test_a_member_of_two_teams_at_once_is_one_agent() -> None:
    shared = member("worker", "sent")
    team: Runnable = built(("by_majority", "in_parallel"), shared)
    assert (await team.run("go")).output == wrong("together")

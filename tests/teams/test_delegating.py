"""Members in the background: they work while the leader goes on, and their handles outlive it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import json

from tests.teams.models import Answering, after_tools
from ziggurat import Agent, AgentRun, Approve, Budget, ConfigurationError, Context, Event, Runnable, tool
from ziggurat.events import AgentEnded
from ziggurat.messages import ModelRequest, ModelResponse, ToolCall, stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.teams import background
from ziggurat.teams.assignments import Report

Reports = list[tuple[str, str, str]]


def leader(*replies: Sequence[ToolCall], **arguments: Any) -> Agent:
    """Return a leader that makes calls in one step after the other, and then answers."""

    def lead(request: ModelRequest) -> str | list[ToolCall]:
        done = sum(message.role == "assistant" for message in request.messages)
        return list(replies[done]) if done < len(replies) else "led"

    return Agent(Answering(lead), name="leader", **arguments)


def start(name: str, task: str = "go") -> ToolCall:
    return tool_call(f"start_{name}", task=task)


POLL, JOIN = tool_call("poll_members"), tool_call("join_members")


def reports(run: AgentRun) -> list[Reports]:
    """Return what the leader was told by each of its calls, as texts if they failed."""
    results = [result for message in run.messages for result in message.tool_results]
    every: list[Reports] = []
    for result in results:
        if result.error is not None:
            every.append([("", "error", result.text)])
            continue
        value = json.decode(result.text)
        listed = value if isinstance(value, list) else [value]
        every.append([(each["handle"], each["state"], each.get("answer", "")) for each in listed])
    return every


class Gate:
    """A model that answers when it is opened, from a task."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        self.ended: list[str] = []

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        task = request.messages[-1].text
        self.began.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.ended.append(f"cancelled {task}")
            raise
        self.ended.append(task)
        return await Answering(f"done: {task}")(request, ctx)


def gated(*replies: Sequence[ToolCall], **arguments: Any) -> tuple[Runnable, Gate]:
    """Return a team with a worker that waits until the leader calls ``release``."""
    gate = Gate()

    @tool
    async def release() -> Report:
        """Let the worker go on, which has begun."""
        await gate.began.wait()
        gate.open.set()
        return Report("", "done")

    @tool
    async def see() -> Report:
        """Wait until the worker has begun."""
        await gate.began.wait()
        return Report("", "running")

    worker = Agent(gate, name="worker")
    return background(leader(*replies, tools=[release, see]), worker, **arguments), gate


RELEASE, SEE = tool_call("release"), tool_call("see")


async def test_the_leader_goes_on_while_a_member_works() -> None:
    team, _ = gated([start("worker", "dig")], [SEE], [POLL], [RELEASE], [JOIN], [POLL])
    run = await team.run("go")
    assert [each[0] for each in reports(run)] == [
        ("worker-1-1", "running", ""),
        ("", "running", ""),
        ("worker-1-1", "running", ""),
        ("", "done", ""),
        ("worker-1-1", "done", "done: dig"),
        ("worker-1-1", "done", "done: dig"),
    ]
    assert (run.text, run.agent, run.steps, run.model_calls) == ("led", "leader", 7, 8)


async def test_a_member_may_be_started_several_times_and_joined_by_its_handle() -> None:
    both = [start("worker", "dig"), start("worker", "fill")]
    join = tool_call("join_members", handles=["worker-1-2"])
    team, _ = gated(both, [RELEASE], [join], [start("worker", "rest")], [JOIN])
    run = await team.run("go")
    assert reports(run)[3] == [("worker-1-2", "done", "done: fill")]
    assert reports(run)[5] == [
        ("worker-1-1", "done", "done: dig"),
        ("worker-1-2", "done", "done: fill"),
        ("worker-4-1", "done", "done: rest"),
    ]


@pytest.mark.parametrize("unfinished", ["cancel", "wait"])
async def test_members_that_have_not_ended_are_cancelled_or_waited_for(unfinished: Any) -> None:
    team, gate = gated([start("worker", "dig")], [SEE], unfinished=unfinished, store="memory:")

    def watch(event: Event) -> None:
        if isinstance(event, AgentEnded) and event.run.agent == "leader" and unfinished == "wait":
            gate.open.set()

    run = await team.run("go", run_id="r", listeners=[watch])
    assert (run.text, run.stop) == ("led", stops.Completed())
    assert gate.ended == (["dig"] if unfinished == "wait" else ["cancelled dig"])
    assert list((await team.replay("r")).messages) == list(run.messages)


async def test_a_cancelled_member_stays_cancelled_when_the_run_is_continued() -> None:
    done: list[str] = []

    @tool(approval=True)
    def publish() -> Report:
        """Publish."""
        done.append("published")
        return Report("", "done")

    gate, store = Gate(), InMemoryStore()
    calls = ([start("worker")], [tool_call("cancel_member", handle="worker-1-1")], [tool_call("publish")], [POLL])
    team = background(leader(*calls, tools=[publish]), Agent(gate, name="worker"), store=store)
    waits = await team.run("go", run_id="r")
    assert waits.stop == stops.Suspended()
    assert gate.ended == ["cancelled go"]
    run = await team.resume("r", {item.id: Approve() for item in waits.pending})
    assert [each[0][:2] for each in reports(run)] == [
        ("worker-1-1", "running"),
        ("worker-1-1", "cancelled"),
        ("", "done"),
        ("worker-1-1", "cancelled"),
    ]
    assert (gate.ended, done) == (["cancelled go"], ["published"])
    assert list((await team.replay("r")).messages) == list(run.messages)


def waiting_team(done: list[str], *replies: Sequence[ToolCall], **arguments: Any) -> Runnable:
    @tool(effect="once", approval=True)
    def send() -> str:
        """Send."""
        done.append("sent")
        return "ok"

    worker = Agent(Answering(after_tools("sent", tool_call("send"))), name="worker", tools=[send])
    quick = Agent(Answering("quick"), name="quick")
    return background(leader(*replies), worker, quick, store=InMemoryStore(), **arguments)


@pytest.mark.parametrize("how", ["joined", "at the end", "not waited for"])
async def test_a_member_that_waits_for_a_person(how: str) -> None:
    done: list[str] = []
    calls = [[start("worker"), start("quick")], [tool_call("join_members", handles=["quick-1-2"])], [POLL]]
    if how == "joined":
        team = waiting_team(done, *calls, [JOIN])
    else:
        team = waiting_team(done, *calls, unfinished="wait" if how == "at the end" else "cancel")
    run = await team.run("go", run_id="r")
    if how != "not waited for":
        assert run.stop == stops.Suspended()
        assert [(item.call.name, item.path.split("/")[1]) for item in run.pending] == [("send", "worker#1-1")]
        assert done == []
        run = await team.resume("r", {item.id: Approve() for item in run.pending})
    assert run.text == "led"
    assert reports(run)[3] == [("worker-1-1", "waiting", ""), ("quick-1-2", "done", "quick")]
    assert done == ([] if how == "not waited for" else ["sent"])
    if how == "joined":
        assert reports(run)[4] == [("worker-1-1", "done", "sent"), ("quick-1-2", "done", "quick")]


async def test_what_cannot_be_done_is_reported_to_the_leader() -> None:
    failing = Agent(Answering(RuntimeError("broken")), name="failing")
    long = Agent(Answering(after_tools("x", tool_call("nothing"))), name="long", max_steps=1)
    many = [start("failing")] * 3
    first = [start("failing"), start("long"), tool_call("join_members", handles=["nobody-1-1"])]
    run = await background(leader(first, [JOIN], many, [JOIN]), failing, long, concurrency=2).run("go")
    told = reports(run)
    assert told[2][0][1] == "error"
    assert "'nobody-1-1'" in told[2][0][2]
    assert told[3][0] == ("failing-1-1", "failed", "RuntimeError: broken")
    assert told[3][1][:2] == ("long-1-2", "failed")
    assert "MaxSteps" in told[3][1][2]
    assert [each[0][1] for each in told[4:7]] == ["running", "running", "error"]
    assert "limit" in told[6][0][2]


async def test_members_are_within_the_rules_of_the_run() -> None:
    allowed: list[str] = []

    @tool(permissions=["network"])
    def fetch() -> str:
        """Fetch."""
        allowed.append("fetched")
        return "ok"

    worker = Agent(Answering(after_tools("done", tool_call("fetch"))), name="worker", tools=[fetch])
    run = await background(leader([start("worker")], [JOIN]), worker, grants=[]).run("go")
    assert (allowed, run.stop) == ([], stops.Completed())
    run = await background(leader([start("worker")], [JOIN]), worker, budget=Budget(requests=3)).run("go")
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert run.model_calls == 3


def test_mistakes_are_refused_when_the_team_is_made() -> None:
    worker = Agent(Answering("x"), name="worker")
    with pytest.raises(ConfigurationError, match="leader"):
        background(background(leader(), worker, name="team"), Agent(Answering("x"), name="other"))

    @tool
    def poll_members() -> str:
        """Poll."""
        return ""

    with pytest.raises(ConfigurationError, match="'poll_members'"):
        background(leader(tools=[poll_members]), worker)
    with pytest.raises(ConfigurationError, match="at least 2 agents"):
        background(leader())

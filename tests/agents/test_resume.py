"""Resuming a run, and replaying it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable, elsewhere, hello, turns
from tests.samples import sample
from tests.stores.places import stores
from tests.stores.records import dump_of, plant
from tests.wrong import wrong
from ziggurat import (
    Agent,
    AgentRun,
    Approve,
    ConfigurationError,
    Deny,
    Event,
    Modify,
    Runnable,
    Toolbox,
    stop_when,
    tool,
)
from ziggurat.agents import Decision
from ziggurat.agents.stop import Progress
from ziggurat.core.path import is_model_call
from ziggurat.errors import AlreadyDecided, JournalMismatch, ModelError, RunInProgress, RunNotFound
from ziggurat.events import ModelEnded
from ziggurat.flows import flow
from ziggurat.journal import LocalJournal, Store
from ziggurat.journal.entries import Failure
from ziggurat.journal.store import run_log
from ziggurat.layers.retry import timeout
from ziggurat.messages import stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


@tool(approval=True)
async def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


def _sender(store: InMemoryStore | None = None) -> Agent:
    return Agent(ScriptedModel(rules=[("go", tool_call("send", to="x"))], always="done"), tools=[send], store=store)


async def test_resume_with_each_decision() -> None:
    for decision, told in (
        (Approve(), "sent to x"),
        (Deny("too late"), "denied: too late"),
        (Modify('{"to": "y"}'), "sent to y"),
        (Modify({"to": "y"}), "sent to y"),
    ):
        store = InMemoryStore()
        suspended = await _sender(store).run("go", run_id="r")
        assert suspended.stop == stops.Suspended()
        (item,) = suspended.pending
        went = await _sender(elsewhere(store, "r")).resume("r", {item.id: decision})
        assert went.observations == (told,)
        assert went.text == "done"
        assert_sendable(went.messages)


@pytest.mark.parametrize(
    ("decisions", "told"),
    [
        ({"nothing": Approve()}, "waiting: "),
        ("all", "decisions"),
        (["x"], "decisions"),
        (True, r"Approve\(\)"),
        ("approve", r"Approve\(\)"),
        ('{"to": 3', "decision"),
    ],
    ids=str,
)
async def test_a_bad_decision_is_refused_and_nothing_is_written(decisions: Any, told: str) -> None:
    store = InMemoryStore()
    agent = _sender(store)
    suspended = await agent.run("go", run_id="r")
    (item,) = suspended.pending
    given = decisions
    if decisions is True or decisions == "approve":
        given = {item.id: decisions}
    before = dump_of(store, "r")
    with pytest.raises(ConfigurationError, match=told):
        await agent.resume("r", given)
    with pytest.raises(ConfigurationError):
        await agent.resume("r", {item.id: Approve(), "nothing": Approve()})
    with pytest.raises(ConfigurationError):
        await agent.resume("r", {item.id: Approve()}, deps=wrong({"x": 1}))
    with pytest.raises(ConfigurationError):
        await agent.resume("r", {item.id: Approve()}, listeners=[3])  # type: ignore[list-item]
    assert dump_of(store, "r") == before
    assert (await agent.resume("r", {item.id: Approve()})).text == "done"
    assert (await agent.resume("r", {item.id: Approve()})).text == "done", "the same decision again"
    with pytest.raises(AlreadyDecided):
        await agent.resume("r", {item.id: Modify({"to": "y"})})
    with pytest.raises(AlreadyDecided, match="Approve"):
        await agent.resume("r", {item.id: Deny("no")})


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (Modify('{"to": 3, "cc": 1}'), "the decision on send does not fit: .*to: expected a string, got 3"),
        (Modify("{}"), r"to: missing \(required\); nothing was recorded, and the call still waits"),
        (Modify("pay less"), "not a plain JSON object"),
        (Modify('["x"]'), "not a plain JSON object: not an object"),
        (Modify({"to": range(2)}), "the arguments are not JSON values"),
        (Deny(3), "the reason of a denial is text, got 3"),  # type: ignore[arg-type]
    ],
    ids=str,
)
async def test_a_decision_that_does_not_fit_is_refused_and_the_call_waits(decision: Decision, told: str) -> None:
    store = InMemoryStore()
    agent = _sender(store)
    (item,) = (await agent.run("go", run_id="r")).pending
    before = dump_of(store, "r")
    layered = Runnable(agent, name=agent.name, store=store)
    for door in (agent.resume, agent.layered(timeout(seconds=9)).resume, layered.resume):
        with pytest.raises(ConfigurationError, match=told):
            await door("r", {item.id: decision})
    assert dump_of(store, "r") == before
    for same in (Modify('{"to": "y"}'), Modify({"to": "y"}), Modify('{"to":"y"}')):
        assert (await agent.resume("r", {item.id: same})).observations == ("sent to y",)
    for other in (decision, Modify({"to": "z"}), Approve()):
        with pytest.raises(AlreadyDecided):
            await agent.resume("r", {item.id: other})


@pytest.mark.parametrize("session", ["alice", 5, []], ids=repr)
async def test_the_session_of_a_resumed_run_is_a_session(session: Any) -> None:
    agent = hello(store="memory:")
    await agent.run("go", run_id="r")
    with pytest.raises(ConfigurationError, match="session"):
        await agent.resume("r", session=session)


async def test_a_resume_without_a_decision_waits_on() -> None:
    agent = _sender()
    suspended = await agent.run("go")
    again = await agent.resume(suspended.id)
    assert (again.stop, again.pending, again.messages) == (suspended.stop, suspended.pending, suspended.messages)


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_a_run_or_an_item_given_for_its_id_is_told(store: str, tmp_path: Path) -> None:
    url = "memory:" if store == "memory:" else f"sqlite:///{tmp_path}/runs.db?synchronous=NORMAL"
    agent = Agent(ScriptedModel(tool_call("send", to="x"), "done"), tools=[send], store=url)
    run: Any = await agent.run("go", run_id="r")
    told = "run_id"
    for door in (agent.resume, agent.replay, agent.record):
        with pytest.raises(ConfigurationError, match=told):
            await door(run)
    with pytest.raises(ConfigurationError, match=told):
        await agent.fork(run, 1)
    with pytest.raises(ConfigurationError, match=told):
        agent.attach(run).events()
    with pytest.raises(ConfigurationError, match="PendingItem"):
        await agent.resume("r", {item: Approve() for item in run.pending})
    assert (await agent.resume("r", {item.id: Approve() for item in run.pending})).text == "done"


def test_the_name_of_a_runnable_is_text() -> None:
    with pytest.raises(ConfigurationError, match="name"):
        Runnable(_sender(), name=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("run_id", ["nothing", ""])
async def test_an_unknown_run_is_named_and_no_other(run_id: Any) -> None:
    agent = hello(store="memory:")
    await agent.run("go", run_id="secret")
    for door in (agent.resume, agent.replay):
        with pytest.raises(RunNotFound, match=f"'{run_id}'") as raised:
            await door(run_id)
        assert "secret" not in str(raised.value)


async def test_a_run_of_another_agent_is_refused() -> None:
    store = InMemoryStore()
    await hello(store=store, name="one").run("go", run_id="r")
    for door in (hello(store=store, name="two").resume, hello(store=store, name="two").replay):
        with pytest.raises(RunNotFound, match="'two'"):
            await door("r")


async def test_finished_runs_without_a_store_are_not_kept() -> None:
    agent = hello()
    run = await agent.run("go")
    with pytest.raises(RunNotFound, match="store"):
        await agent.resume(run.id)


async def test_a_failed_run_goes_on_where_it_failed() -> None:
    model = ScriptedModel(tool_call("echo"), ModelError("overloaded"), "done")
    called: list[str] = []

    async def echo() -> str:
        called.append("x")
        return "x"

    agent = Agent(model, tools=[echo])
    failed = await agent.run("go")
    resumed = await agent.resume(failed.id)
    assert isinstance(failed.stop, stops.Failed)
    assert resumed.text == "done"
    assert called == ["x"]
    assert len(model.calls) == 3


@pytest.mark.parametrize("name", ["second", "alt-two", "alt-"])
async def test_an_agent_that_has_failed_beside_another_is_no_alternative_of_it(name: str) -> None:
    first = Agent(ScriptedModel(always="a"), name="alt-one")
    second = Agent(ScriptedModel(ModelError("overloaded"), "b"), name=name)

    @flow(store=InMemoryStore())
    async def both() -> str:
        return (await first.run("x")).text + (await second.run("y")).raise_for_stop().text

    assert isinstance((await both.run(run_id="r")).stop, stops.Failed)
    assert (await both.resume("r")).output == "ab"


@pytest.mark.parametrize("kind", sample(["sqlite", "memory", "file"], 1))
@pytest.mark.parametrize("failing", ["model", "policy", "tool"])
async def test_a_run_that_is_cancelled_while_it_fails_keeps_what_it_did(
    failing: str, kind: str, tmp_path: Path
) -> None:
    @tool
    async def look(fail: bool = False) -> str:
        if fail:
            raise OSError("gone")
        return "seen"

    def judge(progress: Progress) -> bool:
        if failing == "policy" and progress.step == 2:
            raise OSError("gone")
        return False

    def agent(store: Store) -> Agent:
        then = OSError("gone") if failing == "model" else tool_call("look", fail=True)
        box = Toolbox([look], on_error="raise")
        rules = [(lambda request: len(request.messages) > 1, then)]
        model = ScriptedModel(rules=rules, always=tool_call("look"))
        return Agent(model, tools=box, stop=stop_when(judge), store=store)

    turn = steps = 0
    ended = False
    while not ended:
        turn += 1
        async with stores(kind, tmp_path / f"{turn}") as (here, there):
            handle = agent(here).start("go", run_id="r")
            await turns(turn)
            await handle.cancel()
            cut = await handle.result()
            assert_sendable(cut.messages)
            if await here.find(run_log("r")) is None:  # it had not begun
                continue
            ended = isinstance(cut.stop, stops.Failed)
            assert cut.steps >= steps or kind != "memory"
            journal = LocalJournal.load(await agent(here).record("r"))
            record = journal.find("agent")
            assert ended or record is None or record.result is not None or not record.outcomes
            steps = cut.steps
            failed = sum(isinstance(each, Failure) and is_model_call(each.path) for each in journal.entries)
            asked_again = failed if ended else 0  # a failure that did not end the run answers
            run = await agent(there).resume("r")
            assert run.error
            assert "gone" in run.error
            assert (run.steps, run.model_calls, run.observations) == (2, 2 + asked_again, ("seen",))


async def test_a_run_that_was_lost_when_it_had_failed_goes_on() -> None:
    async def look() -> str:
        return "seen"

    def judge(progress: Progress) -> bool:
        return progress.step == 2 and 1 / 0 > 1

    store = InMemoryStore()
    model = ScriptedModel(always=tool_call("look"))
    failed = await Agent(model, tools=[look], stop=stop_when(judge), store=store).run("go", run_id="r")
    *lines, end = dump_of(store, "r").splitlines(keepends=True)
    assert b'"Failed"' in end
    assert b"ZeroDivisionError" in lines[-1]
    lost = InMemoryStore()
    plant(lost, "r", b"".join(lines))
    run = await Agent(ScriptedModel("never"), tools=[look], stop=stop_when(judge), store=lost).resume("r")
    assert (run.stop, run.steps, run.model_calls, run.messages) == (failed.stop, 2, 2, failed.messages)


async def test_two_resumes_at_once_do_not_both_run() -> None:
    did: list[str] = []

    @tool(approval=True, effect="once")
    async def pay() -> str:
        did.append("paid")
        await turns(3)
        return "paid"

    agent = Agent(ScriptedModel(rules=[("go", tool_call("pay"))], always="done"), tools=[pay], store="memory:")
    suspended = await agent.run("go", run_id="r")
    decisions = {item.id: Approve() for item in suspended.pending}
    resumed = [agent.resume("r", decisions), agent.resume("r", decisions), agent.resume("r")]
    first, *others = await asyncio.gather(*resumed, return_exceptions=True)
    assert did == ["paid"]
    assert isinstance(first, AgentRun)
    assert first.text == "done"
    assert all(isinstance(each, RunInProgress) for each in others)


# -- replay ------------------------------------------------------------------------------------------------------


async def test_replay_calls_nothing_and_gives_the_same_run() -> None:
    async def echo(text: str) -> str:
        return text

    def agent(model: ScriptedModel, store: InMemoryStore) -> Agent:
        return Agent(model, tools=[echo], store=store)

    store = InMemoryStore()
    run = await agent(ScriptedModel(tool_call("echo", text="a"), "done"), store).run("go", run_id="r")
    unused = ScriptedModel("never")
    again = await agent(unused, elsewhere(store, "r")).replay("r")
    assert again == run
    assert unused.calls == []


async def test_replay_shows_the_first_difference() -> None:
    store = InMemoryStore()
    await Agent(ScriptedModel("done"), store=store).run("go", run_id="r")
    other = Agent(ScriptedModel("x", name="other"), store=store)
    with pytest.raises(JournalMismatch, match="agent"):
        await other.replay("r")


async def test_listeners_hear_a_replayed_answer_on_resume() -> None:
    heard: list[Event] = []
    agent = _sender()
    suspended = await agent.run("go")
    await agent.resume(suspended.id, {suspended.pending[0].id: Approve()}, listeners=[heard.append])
    replayed = [event.replayed for event in heard if isinstance(event, ModelEnded)]
    assert replayed == [True, False]

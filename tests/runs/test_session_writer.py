"""Runs in sessions: loaded once, saved after each step however a run ends, one writer, and resumed runs."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.support import assert_sendable
from tests.samples import sample
from tests.stores.places import PLACES, Place, opening
from tests.wrong import wrong
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Approve,
    ConfigurationError,
    Context,
    Message,
    Middleware,
    ModelRequest,
    Runnable,
    ToolCall,
    tool,
    user,
)
from ziggurat.compaction import Compaction, Drop, Recent, over_messages
from ziggurat.core.codec import as_type, decode
from ziggurat.errors import JournalCorrupt, LeaseHeld, LeaseLost, ModelError, RunExists, RunNotFound
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Entered, Opened
from ziggurat.layers.retry import retry
from ziggurat.messages import Transcript, assistant, stops, tool_call
from ziggurat.middleware import Redaction
from ziggurat.models import FunctionModel
from ziggurat.stores import InMemoryStore, Session
from ziggurat.testing import ScriptedModel, ScriptedReply, run_until_idle


@pytest.fixture(params=sample([*PLACES, "by reference"], 2))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with opening(request.param, tmp_path) as place:
        yield place


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def agent(store: Any, *replies: ScriptedReply, **settings: Any) -> Agent:
    return Agent(ScriptedModel(*replies), tools=[add, pay], store=store, **settings)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text or message.role for message in messages]


async def said(place: Place, session: str = "alice") -> list[str]:
    """Return a session's messages as another process reads them."""
    found = await Session(session, place()).history()
    if found:
        assert_sendable(found)
    return texts(found)


ADD = tool_call("add", a=1, b=2)


async def test_the_conversation_goes_on_over_runs_and_is_loaded_once(place: Place) -> None:
    first = await agent(place(), ADD, "3").run("Sum", session="alice")
    assert (first.session, first.text) == ("alice", "3")
    model = ScriptedModel(ADD, ADD, "Still 3")
    second = await Agent(model, tools=[add], store=place()).run("Again", session="alice")
    lengths = [len(request.messages) for request in model.calls]
    assert lengths == [5, 7, 9], "each step adds a call and its result to what was loaded once"
    assert second.start == 5
    assert await said(place) == texts(second.messages)
    assert texts(second.messages)[:5] == ["Sum", "assistant", "tool", "3", "Again"]
    assert await said(place, "bob") == []


async def test_each_step_is_kept_when_it_ends(place: Place) -> None:
    seen: list[list[str]] = []

    store = place()

    async def reply(messages: Sequence[Message]) -> object:
        seen.append(texts(await Session("alice", store).history()))
        return ADD if len(messages) < 5 else "3"

    run = await Agent(FunctionModel(reply), tools=[add], store=store).run("Sum", session="alice")
    assert seen == [[], ["Sum", "assistant", "tool"], ["Sum", "assistant", "tool", "assistant", "tool"]]
    assert await said(place) == texts(run.messages)


async def test_what_was_said_in_runs_that_fail_or_are_cancelled_is_kept(place: Place) -> None:
    run = await agent(place(), ADD, ModelError("down")).run("Sum", session="alice")
    assert isinstance(run.stop, stops.Failed)
    assert run.session == "alice"
    assert await said(place) == ["Sum", "assistant", "tool"]

    waits = asyncio.Event()

    async def reply(messages: Sequence[Message]) -> object:
        if len(messages) > 7:
            waits.set()
            await asyncio.Event().wait()
        return ADD

    handle = Agent(FunctionModel(reply), tools=[add], store=place()).start("More", session="alice")
    await waits.wait()
    await handle.cancel()
    run = await handle.result()
    assert run.stop == stops.Cancelled()
    assert await said(place) == texts(run.messages)
    assert (await said(place))[3:] == ["More", "assistant", "tool", "assistant", "tool"]

    run = await agent(place(), ADD, max_steps=1).run("Third", session="alice")
    assert run.stop == stops.MaxSteps(1)
    assert await said(place) == texts(run.messages)


async def test_a_suspended_run_holds_nothing_and_its_rest_is_appended_later(place: Place) -> None:
    run = await agent(place(), ADD, tool_call("pay", to="ada")).run("Pay", run_id="r", session="alice")
    assert run.stop == stops.Suspended()
    assert await said(place) == ["Pay", "assistant", "tool", "assistant", "tool"], "the call that waits is shown"
    await agent(place(), "Hello").run("Hi", session=Session("alice", place(), conflict="reject"))
    run = await agent(place(), "Done").resume("r", {run.pending[0].id: Approve()}, session=None)
    assert run.text == "Done"
    assert run.session == "alice"
    assert texts(run.messages) == ["Pay", "assistant", "tool", "assistant", "tool", "Done"]
    assert await said(place) == ["Pay", "assistant", "tool", "Hi", "Hello", "assistant", "tool", "Done"]


async def test_the_same_id_request_and_session_are_the_same_run(place: Place) -> None:
    store = place()
    await agent(store, "One").run("First", session="alice")
    run = await agent(store, "Two").run("Second", session="alice", run_id="r")
    again = await agent(store, "never said").run("Second", session="alice", run_id="r")
    assert texts(again.messages) == texts(run.messages) == ["First", "One", "Second", "Two"]
    assert await said(place) == ["First", "One", "Second", "Two"]
    for other in ({"session": "bob"}, {}):
        with pytest.raises(RunExists, match="exists with another"):
            await agent(store, "x").run("Second", run_id="r", **other)  # type: ignore[arg-type]
    with pytest.raises(RunExists, match="exists with another"):
        await agent(store, "x").run("Third", session="alice", run_id="r")
    pair = [agent(store, "Fourth").run("4", session="alice", run_id="s") for _ in range(2)]
    went = await asyncio.gather(*pair, return_exceptions=True)
    assert any(isinstance(each, AgentRun) and each.text == "Fourth" for each in went)
    assert (await said(place)).count("4") == 1


async def test_a_run_that_failed_goes_on_without_saying_anything_twice(place: Place) -> None:
    await agent(place(), ADD, ADD, ModelError("down")).run("Sum", session="alice", run_id="r")
    before = await said(place)
    assert len(before) == 5
    run = await agent(place(), ADD, "3").resume("r")
    assert await said(place) == texts(run.messages)
    assert (await said(place))[:5] == before
    assert len(run.messages) == 8


async def test_runs_at_once_follow_each_other_and_never_interleave(place: Place) -> None:
    store = place()

    async def reply(messages: Sequence[Message]) -> object:
        await asyncio.sleep(0)
        return ADD if messages[-1].role == "user" else messages[-3].text

    await asyncio.gather(
        *(
            Agent(FunctionModel(reply), tools=[add], store=store).run(f"{number}", session="alice")
            for number in range(6)
        )
    )
    everything = await said(place)
    turns = [everything[at : at + 4] for at in range(0, len(everything), 4)]
    assert turns == [[f"{number}", "assistant", "tool", f"{number}"] for number in range(6)]


async def test_reject_and_branch(place: Place) -> None:
    store = place()
    await agent(store, "Hello").run("Hi", session="alice")
    goes_on = asyncio.Event()

    async def slow(messages: Sequence[Message]) -> object:
        await goes_on.wait()
        return "at last"

    first = asyncio.create_task(Agent(FunctionModel(slow), store=store).run("Slow", session="alice"))
    while not (info := await store.find("session:alice")) or not info.owner:
        await run_until_idle()
    with pytest.raises(LeaseHeld):
        await agent(store, "x").run("Quick", session=Session("alice", store, conflict="reject"))
    aside = await agent(store, "Aside").run("Quick", session=Session("alice", store, conflict="branch"))
    assert aside.session == "alice~2"
    goes_on.set()
    await first
    assert await said(place, "alice~2") == ["Hi", "Hello", "Quick", "Aside"]
    assert await said(place) == ["Hi", "Hello", "Slow", "at last"]
    more = await agent(store, "More").run("On", session=aside.session)
    assert len(more.messages) == 6


async def test_one_who_lost_the_session_is_refused_and_can_go_on_later(place: Place) -> None:
    store = place()
    rows = store

    @tool
    async def stolen() -> str:
        """Take the session over, as another process does from an owner that stopped."""
        await rows.release("session:alice", await rows.lease("session:alice"))
        return "gone"

    mine = Agent(ScriptedModel(tool_call("stolen"), "One", "Two"), tools=[stolen], store=store)
    with pytest.raises(LeaseLost):
        await mine.run("Go", session="alice", run_id="r")
    assert await said(place) == []
    run = await mine.resume("r")
    assert run.stop == stops.Completed()
    assert await said(place) == texts(run.messages)


async def test_a_limit_is_what_runs_begin_with_and_everything_stays(place: Place) -> None:
    store = place()
    for number in range(4):
        chat = Session("alice", store, limit=4)
        run = await agent(store, ADD, "3").run(f"{number}", session=chat)
        assert len(run.messages) == min(number, 1) * 4 + 4
    assert len(await said(place)) == 16


@pytest.mark.parametrize("limit", sample(range(10), 5))
async def test_whatever_the_limit_a_run_begins_with_a_question(limit: int, place: Place) -> None:
    store = place()
    turns: list[list[ScriptedReply]] = [[], [ADD], [ADD, ADD], [[ADD, ADD], ADD], [ADD], []]
    for number, steps in enumerate(turns):
        model = ScriptedModel(*steps, "3")
        chat = Session("alice", store, limit=limit)
        await Agent(model, tools=[add], store=store).run(f"{number}", session=chat)
        first = model.calls[0].messages
        assert_sendable(first)
        assert first[0].role == "user"
        assert first[-1].text == f"{number}"
        assert len(first) <= limit + 1


async def test_after_compaction_the_next_run_gets_the_short_log_and_history_stays(place: Place) -> None:
    def shorter() -> Agent:
        model = ScriptedModel(ADD, ADD, ADD, "3")
        short = Compaction(over_messages(4), keep=Recent(messages=2), reduce=Drop())
        return Agent(model, tools=[add], store=place(), middleware=[short])

    first = await shorter().run("Sum", session="alice")
    assert first.past is not None
    assert await said(place) == texts(first.history)
    assert await Session("alice", place()).get_messages() == list(first.messages)
    model = ScriptedModel("Yes")
    await Agent(model, tools=[add], store=place()).run("And?", session="alice")
    assert texts(model.calls[0].messages) == [*texts(first.messages), "And?"]


async def test_only_the_root_has_a_session(place: Place) -> None:
    store = place()
    helper = Agent(ScriptedModel(ADD, "3", ADD, "3"), tools=[add], store=store, name="helper", description="Adds.")

    @tool
    async def ask() -> str:
        with pytest.raises(ConfigurationError, match="no session of its own"):
            await helper.run("x", session="alice")
        return (await helper.run("Add")).text

    run = await Agent(
        ScriptedModel(tool_call("ask"), tool_call("helper", input="Add"), "ok"), tools=[ask, helper], store=store
    ).run("Go", session="alice")
    assert run.text == "ok"
    assert await said(place) == ["Go", "assistant", "tool", "assistant", "tool", "ok"]


async def test_hooks_and_layers_leave_the_session_as_it_was_said(place: Place) -> None:
    class Recall(Middleware):
        async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest:
            return AgentRequest((user("(recalled)"), *request.messages))

        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            assert request.messages[0].text == "(recalled)"

    model = ScriptedModel(ADD, ModelError("busy", transient=True), ADD, "3")
    flaky = Agent(model, tools=[add], store=place(), middleware=[Recall()], name="flaky")
    run = await flaky.layered(retry(attempts=2, base=0)).run("Sum", session="alice")
    assert run.text == "3"
    assert await said(place) == ["Sum", "assistant", "tool", "assistant", "tool", "3"]

    async def team(request: AgentRequest, ctx: Context) -> AgentRun:
        return AgentRun(Transcript.of(*request.messages, assistant("together")), stops.Completed())

    await Runnable(team, store=place()).run("All", session="alice")
    assert (await said(place))[6:] == ["All", "together"]


async def test_what_a_hook_makes_of_a_run_takes_the_place_of_what_was_kept(place: Place) -> None:
    class Brief(Middleware):
        async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun:
            return replace(run, messages=Transcript.of(*run.messages[: run.start], assistant("in short: 3")))

    await agent(place(), ADD, ADD, "3", middleware=[Brief()]).run("Sum", session="alice")
    assert await said(place) == ["Sum", "in short: 3"]


async def test_what_is_redacted_in_the_record_is_redacted_in_the_session(place: Place) -> None:
    wary = Agent(ScriptedModel(ADD, "Hello"), tools=[add], store=place(), middleware=[Redaction("hunter2")])
    await wary.run("My word is hunter2", session="alice")
    assert not any("hunter2" in text for text in await said(place))
    assert len(await said(place)) == 4


async def test_a_session_may_be_kept_elsewhere_than_the_runs(tmp_path: Path) -> None:
    chat = Session("alice", InMemoryStore())
    url = f"sqlite:///{tmp_path}/runs.db"
    run = await agent(url, tool_call("pay", to="ada")).run("Pay", session=chat, run_id="r")
    decisions = {run.pending[0].id: Approve()}
    with pytest.raises(ConfigurationError, match="of another store"):
        await agent(url, "Done").resume("r", decisions)
    run = await agent(url, "Done").resume("r", decisions, session=chat)
    assert texts(await chat.history()) == texts(run.messages)


async def test_without_a_store_a_session_lives_with_the_agent() -> None:
    one = agent(None, "One", "Two")
    await one.run("1", session="alice")
    assert len((await one.run("2", session="alice")).messages) == 4
    assert len((await agent(None, "x").run("3", session="alice")).messages) == 2
    async with one.stream("never", session="alice"):
        pass
    chat = Session("bob")
    async with agent(None, "Hello").stream("Hi", session=chat) as events:
        async for _ in events:
            pass
    assert events.response.session == "bob"
    assert texts(await chat.get_messages()) == ["Hi", "Hello"]
    assert texts((await agent(None, "Hi").run("Hello", session="alice")).messages) == ["Hello", "Hi"]


async def test_a_fork_leaves_the_session_alone(place: Place) -> None:
    store = place()
    await agent(store, ADD, "3").run("Sum", session="alice", run_id="r")
    run = await agent(store, "four").fork("r", 2)
    assert run.text == "four"
    assert await said(place) == ["Sum", "assistant", "tool", "3"]


def test_wrong_use_raises_at_once() -> None:
    with pytest.raises(ConfigurationError, match="session"):
        _ = agent(None, "x").run("Hi", session=wrong(7))
    with pytest.raises(ConfigurationError, match="id is a non-empty string"):
        _ = agent(None, "x").run("Hi", session=" ")
    with pytest.raises(ConfigurationError, match="leave history out"):
        _ = agent(None, "x").run("Hi", session="a", history=[user("Ho"), assistant("Hum")])
    for impossible in ("a\0b", "\ud800", "s" * 501):
        with pytest.raises(ConfigurationError, match="500"):
            _ = agent(None, "x").run("Hi", session=impossible)


@pytest.mark.parametrize("kind", sample(["by reference", "memory", "sqlite", "file"], 2))
@pytest.mark.parametrize("how", ["run", "run_sync", "add_items"])
def test_a_session_is_not_waited_for_in_the_run_that_writes_it(how: str, kind: str, tmp_path: Path) -> None:
    told: list[str] = []

    async def main(store: Any) -> None:
        helper = Agent(ScriptedModel(always="helped"), name="helper", store=store)

        @tool(name="ask")
        async def ask() -> str:
            try:
                if how == "add_items":
                    await Session("chat", store).add_items([user("more")])
                else:
                    await helper.run("q", session="chat", detached=True)
            except LeaseHeld as held:
                told.append(str(held))
            return "asked"

        @tool(name="ask")
        def ask_in_thread() -> str:
            try:
                helper.run_sync("q", session="chat", detached=True)
            except LeaseHeld as held:
                told.append(str(held))
            return "asked"

        tools = [ask_in_thread if how == "run_sync" else ask]
        agent = Agent(ScriptedModel(tool_call("ask"), "end"), tools=tools, store=store)
        async with asyncio.timeout(30):
            run = await agent.run("x", session="chat")
        assert run.text == "end"
        assert (await helper.run("q", session="chat")).text == "helped"

    with opening(kind, tmp_path) as place:
        asyncio.run(main(place()))
    assert told == ["the session 'chat' is being written by the run that this is called in"]


async def rows_of(store: Any, prefix: str = "") -> bytes:
    """Return all rows of some logs, with their large values."""
    rows = [row.data for info in await store.logs(prefix, limit=1000) for row in await store.read(info.log)]
    blobs = [str(decode(row, dict[str, object])["blob"]) for row in rows if row.startswith(b'{"blob"')]
    assert not blobs
    return b"\n".join(rows)


@pytest.mark.parametrize("limit", [None, 3])
async def test_a_record_names_the_session_and_is_read_whole(place: Place, limit: int | None) -> None:
    store = place()

    def teller(messages: Sequence[Message]) -> str | ToolCall:
        asked = messages[-1].role == "user" and messages[-1].text[-1] in "024"
        return ToolCall("", "pay", '{"to": "ann"}') if asked else "paid"

    def clerk(store: Any) -> Agent:
        return Agent(FunctionModel(teller), tools=[pay], store=store)

    one = clerk(store)
    runs: list[AgentRun] = []
    for number in range(6):
        chat = Session("s", store, limit=limit)
        asked = await one.run(f"question {number}", session=chat, run_id=f"r{number}")
        runs.append(asked)
        if asked.pending:
            runs[-1] = await clerk(place()).resume(asked.id, {asked.pending[0].id: Approve()})
    written = await rows_of(store, "run:")
    for number in range(6):
        assert written.count(f'"question {number}"'.encode()) == 1
    reader = clerk(place())
    for run in runs:
        opened, entered, *_ = LocalJournal.load(await reader.record(run.id)).entries
        assert isinstance(opened, Opened)
        assert isinstance(entered, Entered)
        whole = run.messages[: run.start]
        assert [*as_type(opened.request, AgentRequest).messages] == whole
        assert [*as_type(entered.request, AgentRequest).messages] == whole
        known = await reader.resume(run.id)
        assert (known.messages, known.start, known.text) == (run.messages, run.start, run.text)
        replayed = await reader.replay(run.id, strict=True)
        assert replayed.messages == run.messages
        forked = await reader.fork(run.id, 1, prompt="another")
        assert forked.messages[: run.start - 1] == run.messages[: run.start - 1]


async def test_a_session_that_unfinished_runs_need_is_not_deleted(place: Place) -> None:
    store = place()
    one, chat = agent(store, "hello", tool_call("pay", to="ann"), "done"), Session("s", store)
    await one.run("hi", session="s")
    waiting = await one.run("pay ann", session="s", run_id="waits")
    with pytest.raises(RunExists, match="waits"):
        await chat.delete()
    assert (await one.resume("waits", {waiting.pending[0].id: Approve()})).text == "done"
    assert await chat.delete()
    assert not await chat.delete()
    assert await chat.get_messages() == []
    with pytest.raises(RunNotFound, match="'s'"):
        await one.record("waits")
    assert (await agent(place(), "again").run("hi", session="s")).start == 1
    with pytest.raises(JournalCorrupt, match="'s'"):  # another session of this name
        await one.record("waits")


async def test_what_was_masked_in_a_record_stays_masked(place: Place) -> None:
    store = place()
    await Session("s", store).add_items([user("one"), user("my word is sesame"), assistant("two")])
    one = agent(store, "three", "four", middleware=[Redaction("sesame")])
    for number in range(2):
        await one.run(f"now {number}", session="s", run_id=f"r{number}")
        assert b"sesame" not in await rows_of(store, "run:")
        assert b"sesame" not in await one.record(f"r{number}")
        assert b"one" in await one.record(f"r{number}")

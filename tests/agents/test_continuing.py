"""A recorded run is continued by the verbs that begin runs: awaited, streamed, started and steered, or blocking."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.samples import sample
from tests.stores.places import Place
from ziggurat import Agent, AgentRun, Approve, ConfigurationError, Deny, Event, tool
from ziggurat.agents import Decision
from ziggurat.errors import RunNotFound
from ziggurat.events import AgentEnded, Delta, ModelEnded, Steered, ToolEnded, Warned
from ziggurat.journal import Store
from ziggurat.messages import stops, tool_call
from ziggurat.runs.options import RunArguments
from ziggurat.testing import Pause, ScriptedModel

STORES = ["by reference", "sqlite", "file"]


class Desk:
    """An agent that pays on approval, alone or as a tool of another; `paid` is what it did."""

    def __init__(self, store: Store | None, *, nested: bool = False, **options: Any) -> None:
        self.paid: list[str] = []

        @tool(approval=True, effect="once")
        async def pay(to: str) -> str:
            self.paid.append(to)
            return f"paid {to}"

        reply = [tool_call("pay", id="1", to="ada"), tool_call("pay", id="2", to="bob")]
        clerk = Agent(
            ScriptedModel(rules=[("go", reply)], always=["all ", Pause(), "done"]),
            tools=[pay],
            name="clerk",
            store=None if nested else store,
            **options,
        )
        boss = ScriptedModel(rules=[("go", tool_call("clerk", input="go"))], always=["all ", Pause(), "done"])
        self.agent = Agent(boss, tools=[clerk], name="boss", store=store) if nested else clerk


async def _resumed(agent: Agent, events: list[Event], **arguments: Any) -> AgentRun:
    return await agent.resume(
        arguments.pop("run_id"), arguments.pop("decisions"), listeners=[events.append], **arguments
    )


async def _run(agent: Agent, events: list[Event], **arguments: Any) -> AgentRun:
    return await agent.run(listeners=[events.append], **arguments)


async def _stream(agent: Agent, events: list[Event], **arguments: Any) -> AgentRun:
    async with agent.stream(**arguments) as stream:
        async for event in stream:
            events.append(event)
    return stream.response


async def _start(agent: Agent, events: list[Event], **arguments: Any) -> AgentRun:
    return await agent.start(listeners=[events.append], **arguments).result()


async def _run_sync(agent: Agent, events: list[Event], **arguments: Any) -> AgentRun:
    return await asyncio.to_thread(agent.run_sync, listeners=[events.append], **arguments)


VERBS: list[Callable[..., Awaitable[AgentRun]]] = [_resumed, _run, _stream, _start, _run_sync]


def _decisions(run: AgentRun) -> dict[str, Decision]:
    first, second = run.pending
    return {first.id: Approve(), second.id: Deny("not him")}


@pytest.mark.parametrize("new_store", sample(STORES, 2), indirect=True)
@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
async def test_every_verb_continues_a_run_with_the_same_end_and_the_same_events(new_store: Place, nested: bool) -> None:
    seen = []
    for number, verb in enumerate(VERBS):
        name = f"r-{number}"
        begun = await Desk(new_store(), nested=nested).agent.run("go", run_id=name)
        desk, events = Desk(new_store(), nested=nested), list[Event]()
        run = await verb(desk.agent, events, run_id=name, decisions=_decisions(begun))
        assert (run.text, run.stop, run.id, desk.paid) == ("all done", stops.Completed(), name, ["ada"])
        assert_sendable(run.messages)
        end = events[-1]
        assert isinstance(end, AgentEnded)
        assert end.run.messages == run.messages
        seen.append(
            [
                (type(event).__name__, event.path, getattr(event, "replayed", None))
                for event in events
                if not isinstance(event, ToolEnded)  # the two end in any order
            ]
        )
    assert all(each == seen[0] for each in seen)


@pytest.mark.parametrize("new_store", sample(STORES, 2), indirect=True)
async def test_a_continued_run_whose_stream_is_left_is_cancelled_and_can_be_continued_again(new_store: Place) -> None:
    begun = await Desk(new_store()).agent.run("go", run_id="r")
    desk = Desk(new_store())
    async with desk.agent.stream(run_id="r", decisions=_decisions(begun)) as events:
        async for event in events:
            if isinstance(event, Delta) and event.path == "clerk/step-2/model":
                break
    left = await new_store().find("run:r")
    assert left is not None
    assert (left.status, left.owner, desk.paid) == ("Cancelled", "", ["ada"])
    again = Desk(new_store())
    run = await again.agent.run(run_id="r")
    assert (run.text, again.paid) == ("all done", []), "what was paid is not paid again"


@pytest.mark.parametrize("new_store", sample(STORES, 2), indirect=True)
async def test_a_continued_run_is_steered_and_cancelled_as_a_first_one(new_store: Place) -> None:
    first = Desk(new_store()).agent.start("go", run_id="r")
    await first.inject("go quickly")
    begun = await first.result()
    desk, events = Desk(new_store()), list[Event]()
    handle = desk.agent.start(run_id="r", decisions=_decisions(begun), listeners=[events.append])
    await handle.inject("and be kind")
    run = await handle.result()
    said = [message.text for message in run.messages if message.role == "user"]
    assert said == ["go", "go quickly", "and be kind"]
    assert [event.replayed for event in events if isinstance(event, Steered)] == [True, False]
    assert_sendable(run.messages)
    replayed = await Desk(new_store()).agent.replay("r")
    assert replayed.messages == run.messages

    begun = await Desk(new_store()).agent.run("go", run_id="c")
    desk = Desk(new_store())
    handle = desk.agent.start(run_id="c", decisions=_decisions(begun))
    await handle.cancel(after_step=True)
    run = await handle.result()
    assert (run.stop, desk.paid) == (stops.Cancelled(), ["ada"])
    unbegun = desk.agent.start(run_id="c")
    await unbegun.cancel()
    assert (await unbegun.result()).stop == stops.Cancelled()
    assert (await Desk(new_store()).agent.run(run_id="c")).text == "all done"


@pytest.mark.parametrize("new_store", ["sqlite"], indirect=True)
async def test_a_session_goes_on_with_a_streamed_continuation(new_store: Place) -> None:
    begun = await Desk(new_store()).agent.run("go", run_id="r", session="alice")
    desk = Desk(new_store())
    run = await _stream(desk.agent, [], run_id="r", decisions=_decisions(begun), session="alice")
    assert (run.session, run.text) == ("alice", "all done")
    later = await Desk(new_store()).agent.run("more", session="alice")
    assert list(later.messages)[: len(run.messages)] == list(run.messages)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"labels": {"team": "a"}}, "keeps the labels"),
        ({"decisions": {"x": Approve()}}, "'x'"),
    ],
    ids=["labels", "unknown item"],
)
async def test_what_a_continued_run_cannot_take_is_refused_by_every_verb(arguments: RunArguments, text: str) -> None:
    desk = Desk(None)
    await desk.agent.run("go", run_id="r")
    for verb in (_run, _stream, _start, _run_sync):
        with pytest.raises(ConfigurationError, match=text):
            await verb(desk.agent, [], run_id="r", **arguments)
    assert list(await desk.agent.pending()) == ["r"], "it waits as before"


async def test_decisions_are_for_a_run_that_is_continued() -> None:
    agent = Desk(None).agent
    for arguments in ({"decisions": {"x": Approve()}}, {"strict": True}):
        with pytest.raises(ConfigurationError, match="prompt"):
            await agent.run("go", run_id="r", **arguments)
        with pytest.raises(ConfigurationError, match=r"answer|prompt"):
            await agent.run(**arguments)
    for verb in VERBS:
        with pytest.raises(RunNotFound, match="'nobody'"):
            await _as_coroutine(verb(agent, [], run_id="nobody", decisions={}))


async def _as_coroutine(waiting: Awaitable[AgentRun]) -> AgentRun:
    return await waiting


def test_inside_a_tool_a_continued_run_is_a_run_of_its_own() -> None:
    desk, heard = Desk(None), list[Event]()

    @tool
    async def settle() -> str:
        run = await desk.agent.run(run_id="r", decisions=_decisions(begun))
        return run.text

    begun = desk.agent.run_sync("go", run_id="r")
    outer = Agent(ScriptedModel(tool_call("settle"), always="ok"), tools=[settle])
    run = outer.run_sync("go", listeners=[heard.append])
    assert run.observations == ("all done",)
    assert [event.text for event in heard if isinstance(event, Warned)] == [
        "clerk was resumed, which is a run of its own"
    ]
    assert not any(isinstance(event, ModelEnded) and "clerk" in event.path for event in heard)

"""Ended is ended; wrong use is not recorded; a replay is whole: on every kind of store."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.samples import pairs, sample
from tests.stores.places import Place, opening
from ziggurat import Agent, AgentRun, Approve, Budget, ConfigurationError, Deny, Event, Key, Runnable, Toolbox, tool
from ziggurat.agents import Answer, runs_of
from ziggurat.errors import AlreadyDecided, JournalMismatch, LeaseHeld, LeaseLost, RunExists
from ziggurat.events import ApprovalRequested, Diverged
from ziggurat.flows import ask, flow
from ziggurat.journal import LogInfo, Row
from ziggurat.journal.store import run_log
from ziggurat.layers import CacheStore
from ziggurat.layers.cache import cache
from ziggurat.messages import stops, tool_call
from ziggurat.messages.model import OutputMode
from ziggurat.middleware import OutputGuardrail
from ziggurat.stores import InMemoryStore
from ziggurat.teams import group_chat
from ziggurat.testing import Pause, ScriptedModel, ScriptedReply

USER: Key[str] = Key("user")


class Ledger:
    """What tools did, and the tools."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.looked = 0
        self.broken = 0
        self.hangs = asyncio.Event()

    def tools(self) -> list[Any]:
        """Return a tool that acts once, one that asks first, and one that may fail or hang."""

        @tool(effect="once")
        def wire(to: str) -> str:
            self.paid.append(to)
            return "wired"

        @tool(approval=True, effect="once")
        def pay(to: str) -> str:
            self.paid.append(to)
            return "paid"

        async def look() -> str:
            self.looked += 1
            if self.looked <= self.broken:
                raise ConnectionError("down")
            return "seen"

        async def hang() -> str:
            self.hangs.set()
            await asyncio.Event().wait()
            return "never"

        return [wire, pay, look, hang]


@pytest.fixture(params=sample(["sqlite", "memory", "file"], 1))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


async def status(agent: Agent, run_id: str = "r") -> str | None:
    info = await agent.store.find(run_log(run_id))
    return None if info is None else info.status


WIRE = tool_call("wire", to="bank")

ENDS: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[stops.Stop]]] = {
    "failed": ((WIRE, ConnectionError("gone")), {}, stops.Failed),
    "denied": (
        (WIRE, "bad"),
        {"middleware": [OutputGuardrail(lambda text, ctx: "no" if text == "bad" else None, retries=0)]},
        stops.ModelCallDenied,
    ),
    "out of budget": ((WIRE, "never"), {"budget": Budget(requests=1)}, stops.BudgetExceeded),
    "out of calls": ((WIRE, WIRE, "never"), {"budget": Budget(tool_calls=1)}, stops.BudgetExceeded),
    "max steps": ((WIRE, "never"), {"max_steps": 1}, stops.MaxSteps),
    "completed": ((WIRE, "done"), {}, stops.Completed),
}


@pytest.mark.parametrize("end", ENDS)
async def test_the_same_id_is_answered_from_the_record_however_the_run_ended(end: str, place: Place) -> None:
    replies, options, kind = ENDS[end]

    ledger, model = Ledger(), ScriptedModel(*replies, always=WIRE)
    first = Agent(model, tools=ledger.tools(), store=place(), **options)
    run = await first.run("go", run_id="r")
    assert isinstance(run.stop, kind)
    calls, paid = len(model.calls), list(ledger.paid)
    before = await first.store.read(run_log("r"))
    again = await Agent(model, tools=ledger.tools(), store=place(), **options).run("go", run_id="r")
    assert (again.stop, again.messages, again.usage, again.id) == (run.stop, run.messages, run.usage, "r")
    assert (len(model.calls), ledger.paid) == (calls, paid), "nothing is called"
    assert await first.store.read(run_log("r")) == before, "nothing is written"


@pytest.mark.parametrize("end", ["failed", "denied", "out of budget", "out of calls"])
async def test_a_run_that_broke_off_goes_on_when_it_is_resumed(end: str, place: Place) -> None:
    replies, options, _ = ENDS[end]

    ledger = Ledger()
    await Agent(ScriptedModel(*replies), tools=ledger.tools(), store=place(), **options).run("go", run_id="r")
    more = {name: value for name, value in options.items() if name == "middleware"}
    agents = [Agent(ScriptedModel("done"), tools=ledger.tools(), store=place(), **more) for _ in range(2)]
    both = await asyncio.gather(*(agent.resume("r") for agent in agents), return_exceptions=True)
    runs = [each for each in both if isinstance(each, AgentRun)]
    assert all(isinstance(each, (AgentRun, LeaseHeld)) for each in both), "one goes on, the other is told"
    assert [run.text for run in runs] == ["done"] * len(runs) != []
    assert len(ledger.paid) == len(set(ledger.paid)) or end == "out of calls"
    assert await status(agents[0]) == "Completed"
    replayed = await Agent(ScriptedModel("never"), tools=ledger.tools(), store=place(), **more).replay("r")
    assert (replayed.text, replayed.messages) == ("done", runs[0].messages)


async def test_a_failed_tool_of_a_toolbox_that_raises_is_called_again(place: Place) -> None:
    ledger = Ledger()
    ledger.broken = 1
    box = Toolbox(ledger.tools(), on_error="raise")
    agent = Agent(ScriptedModel([tool_call("look"), WIRE], "done"), tools=box, store=place())
    run = await agent.run("go", run_id="r")
    assert isinstance(run.stop, stops.Failed)
    assert (await agent.replay("r")).stop == run.stop
    run = await Agent(ScriptedModel("done"), tools=box, store=place()).resume("r")
    assert (run.text, ledger.looked, ledger.paid) == ("done", 2, ["bank"])
    assert (await agent.replay("r")).text == "done"


class Interrupted(InMemoryStore):
    """Does something else once, after a method has returned."""

    then: tuple[str, Callable[[], Any]] | None = None

    async def find(self, log: str) -> LogInfo | None:
        info = await super().find(log)
        await self._go_on("find")
        return info

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        rows = await super().read(log, after, limit)
        await self._go_on("read")
        return rows

    async def _go_on(self, method: str) -> None:
        if self.then is not None and self.then[0] == method:
            (_, then), self.then = self.then, None
            await then()


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "works"])
@pytest.mark.parametrize("method", ["find", "read"])
async def test_a_run_that_goes_on_while_it_is_read_is_never_corrupt(method: str, ends: bool) -> None:
    ledger, logs = Ledger(), InMemoryStore()
    store = Interrupted(shared=logs)
    agent = Agent(ScriptedModel(ConnectionError("gone")), tools=ledger.tools(), store=store)
    failed = await agent.run("go", run_id="r")
    last = "done" if ends else tool_call("hang")
    other = Agent(ScriptedModel(last), tools=ledger.tools(), store=InMemoryStore(shared=logs))
    handle: Any = None

    async def resume() -> None:
        nonlocal handle
        handle = other.start(run_id="r")
        await (handle.result() if ends else ledger.hangs.wait())

    store.then = (method, resume)
    if ends:
        assert (await agent.run("go", run_id="r")).text == "done"
    elif method == "read":
        assert (await agent.run("go", run_id="r")).stop == failed.stop
    else:
        with pytest.raises(LeaseHeld):
            await agent.run("go", run_id="r")
    await handle.cancel()
    await handle.result()


# -- another agent ---------------------------------------------------------------------------------------------------


class City(Struct):
    """An output."""

    name: str


class Spot(Struct):
    """Another output, which a recorded city does not fit."""

    where: int


async def test_another_agent_output_or_request_is_told_and_never_corrupt(place: Place) -> None:
    model = ScriptedModel(always='{"name": "Ur"}', output_modes=["native"])
    run = await Agent(model, output=City, store=place()).run("go", run_id="r")
    heard: list[Event] = []
    changed = Agent(model, output=City, instructions="Be brief.", store=place())
    assert await changed.run("go", run_id="r", listeners=[heard.append]) == replace(run, replayed=True)
    assert [event.what for event in heard if isinstance(event, Diverged)] == ["instructions"]
    with pytest.raises(RunExists, match="another type of output"):
        await Agent(model, output=Spot, store=place()).run("go", run_id="r")
    with pytest.raises(RunExists, match="another request"):
        await changed.run("come", run_id="r")
    with pytest.raises(RunExists, match="another agent, 'agent'"):
        await Agent(model, output=City, name="other", store=place()).run("go", run_id="r")
    assert len(model.calls) == 1


@pytest.mark.parametrize(
    ("mode", "waits", "types"),
    pairs(["native", "tool", "prompted"], [False, True], [(City, str), (str, City), (City, Spot)]),
)
async def test_another_type_of_output_is_told_in_every_mode(
    place: Place, mode: OutputMode, waits: bool, types: tuple[Any, Any]
) -> None:
    before, after = types
    answer: ScriptedReply = (
        '{"name": "Ur"}' if mode != "tool" or before is str else tool_call("final_answer", name="Ur")
    )
    replies: list[ScriptedReply] = [tool_call("pay", to="Ur"), answer] if waits else [answer]

    def digger(output: Any) -> Agent[Any]:
        model = ScriptedModel(*replies, output_modes=[mode])
        typed = {} if output is str else {"output": output}
        return Agent(model, tools=Ledger().tools(), store=place(), **typed)

    await digger(before).run("go", run_id="r")
    heard: list[Event] = []
    if waits:
        assert (await digger(after).run("go", run_id="r", listeners=[heard.append])).pending
    else:
        with pytest.raises(RunExists, match="another type of output"):
            await digger(after).run("go", run_id="r", listeners=[heard.append])
    assert [event.what for event in heard if isinstance(event, Diverged)][-1] == "output"


async def test_another_type_of_output_of_a_flow_is_told_and_never_corrupt(place: Place) -> None:
    async def number(begin: int) -> int:
        return begin + 1

    async def day(begin: int) -> date:
        return date(2026, 1, begin)

    assert (await flow(name="f", store=place())(number).run(1, run_id="r")).output == 2
    changed = flow(name="f", store=place())(day)
    with pytest.raises(RunExists, match="another type of output"):
        await changed.run(1, run_id="r")
    with pytest.raises(RunExists, match="another type of output"):
        await changed.resume("r")
    with pytest.raises(RunExists, match="another request"):
        await changed.run(2, run_id="r")
    assert (await flow(name="f", store=place())(number).resume("r")).output == 2


async def test_a_run_whose_input_has_another_type_by_now_waits_as_before(place: Place) -> None:
    async def number(begin: int) -> str:
        return f"{begin}: {await ask('Go on?', bool)}"

    async def day(begin: date) -> str:
        return f"{begin}: {await ask('Go on?', bool)}"

    (item,) = (await flow(name="f", store=place())(number).run(1, run_id="r")).pending
    changed = flow(name="f", store=place())(day)
    before = await changed.store.read(run_log("r"))
    for decisions in ({}, {item.id: Answer(True)}):
        with pytest.raises(JournalMismatch, match="begin"):
            await changed.resume("r", decisions)
        assert await changed.store.read(run_log("r")) == before
    run = await flow(name="f", store=place())(number).resume("r", {item.id: Answer(True)})
    assert run.output == "1: True"


def spots(store: Any) -> Runnable[Any]:
    return Agent(ScriptedModel("never", output_modes=["native"]), output=Spot, store=store)


def spot_flow(store: Any) -> Runnable[Any]:
    @flow(name="agent", store=store)
    async def agent(text: str) -> Spot:
        raise AssertionError

    return agent


READERS: dict[str, Callable[[Runnable[Any]], Any]] = {
    "run": lambda agent: agent.run("go", run_id="r"),
    "resume": lambda agent: agent.resume("r"),
    "attach": lambda agent: agent.attach("r").result(),
    "subscribe": lambda agent: read_all(agent),
}


async def read_all(agent: Runnable[Any]) -> None:
    async for _ in agent.attach("r").events():
        pass


@pytest.mark.parametrize("other", [spots, spot_flow], ids=["agent", "flow"])
async def test_whoever_reads_a_run_with_another_type_of_output_is_told(
    other: Callable[[Any], Runnable[Any]], place: Place
) -> None:
    model = ScriptedModel(always='{"name": "Ur"}', output_modes=["native"])
    agent = Agent(model, output=City, store=place())
    await agent.run("go", run_id="r")
    before = await agent.record("r")
    for read in READERS.values():
        with pytest.raises(RunExists, match="another type of output"):
            await read(other(place()))
    assert await agent.record("r") == before


async def test_an_agent_in_a_flow_with_another_type_of_output_is_told_and_the_run_waits(place: Place) -> None:
    def asking(output: type[Struct], store: Any) -> Runnable[Any]:
        inner = Agent(ScriptedModel(always='{"name": "Ur"}', output_modes=["native"]), output=output, name="inner")

        @flow(store=store)
        async def outer(text: str) -> str:
            city = (await inner.run(text)).output
            return f"{city} {await ask('go on?', str)}"

        return outer

    agent = asking(City, place())
    (item,) = (await agent.run("go", run_id="r")).pending
    before = await agent.record("r")
    with pytest.raises(RunExists, match="another type of output"):
        await asking(Spot, place()).resume("r", {item.id: Answer("yes")})
    assert await agent.record("r") == before
    assert (await agent.resume("r", {item.id: Answer("yes")})).output == "City(name='Ur') yes"


async def test_a_strict_reader_of_a_run_that_has_ended_is_told_of_a_changed_agent(place: Place) -> None:
    await Agent(ScriptedModel("done"), store=place()).run("go", run_id="r")
    changed = Agent(ScriptedModel("never"), instructions="Be brief.", store=place())
    assert (await changed.resume("r")).text == "done"
    with pytest.raises(JournalMismatch, match="instructions"):
        await changed.resume("r", strict=True)


async def test_a_team_in_place_of_an_agent_is_told(place: Place) -> None:
    await Agent(ScriptedModel("done"), name="desk", store=place()).run("go", run_id="r")
    ann, ben = (Agent(ScriptedModel("never"), name=name) for name in ("ann", "ben"))
    team = group_chat(ann, ben, turns=1, name="desk", store=place())
    heard: list[Event] = []
    assert (await team.run("go", run_id="r", listeners=[heard.append])).text == "done"
    assert {"model", "settings"} <= {event.what for event in heard if isinstance(event, Diverged)}
    with pytest.raises(JournalMismatch):
        await team.replay("r")


# -- wrong use -------------------------------------------------------------------------------------------------------


def clerk(store: Any, ledger: Ledger, *replies: Any) -> Agent:
    """Return an agent whose instructions need a dependency."""
    instructions: Callable[[Any], str] = lambda ctx: ctx.scope[USER]  # noqa: E731
    return Agent(ScriptedModel(*replies), tools=ledger.tools(), store=store, instructions=instructions)


async def test_a_mistake_of_the_caller_leaves_status_queue_and_decisions(place: Place) -> None:
    ledger, call = Ledger(), tool_call("pay", to="ada")
    agent = clerk(place(), ledger, call)
    with pytest.raises(ConfigurationError, match="not given 'user'"):
        await agent.run("go", run_id="r")
    assert await status(agent) is None, "a run that did nothing is not kept"
    (item,) = (await agent.run("go", run_id="r", deps={USER: "ada"})).pending
    before = await agent.store.read(run_log("r"))
    mistakes: list[dict[str, Any]] = [{}, {"deps": {USER: "ada"}, "strict": "no", "listeners": 3}]
    for mistake in mistakes:
        for decisions in ({}, {item.id: Approve()}):
            with pytest.raises(ConfigurationError):
                await clerk(place(), ledger).resume("r", decisions, **mistake)
            assert await agent.store.read(run_log("r")) == before
            assert await status(agent) == "Suspended"
    run = await clerk(place(), ledger, "done").resume("r", {item.id: Approve()}, deps={USER: "ada"})
    assert (run.text, ledger.paid) == ("done", ["ada"])


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("kept", [True, False])
async def test_a_mistake_leaves_decisions_that_were_made_while_the_run_worked(
    place: Place, kept: bool, cancelled: bool
) -> None:

    over, begun, waits = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def look() -> str:
        begun.set()
        await over.wait()
        return "seen"

    calls = [tool_call("pay", id="1", to="ada"), tool_call("look", id="2")]
    tools = [Ledger().tools()[1], look]
    agent = Agent(ScriptedModel(calls, "done"), tools=tools, store=place() if kept else None)
    listen: Callable[[Event], None] = lambda event: waits.set() if isinstance(event, ApprovalRequested) else None  # noqa: E731
    working = asyncio.ensure_future(agent.run("go", run_id="r", listeners=[listen]))
    await waits.wait()
    await begun.wait()
    (item,) = (await agent.attach("r").status()).pending
    await agent.attach("r").decide({item.id: Deny("no")})
    if cancelled:
        await agent.attach("r").cancel()
        await working
    else:  # the process stops
        runs_of(agent.store).withdraw("r")
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    over.set()
    before = await agent.record("r"), (await agent.attach("r").status()).status
    with pytest.raises(ConfigurationError, match="waits for a decision"):
        await agent.resume("r", {"another": Approve()})
    assert (await agent.record("r"), (await agent.attach("r").status()).status) == before
    assert (await agent.resume("r")).observations == ("denied: no", "seen")


async def test_deciding_again_is_harmless_in_the_same_way_and_told_otherwise(place: Place) -> None:
    ledger = Ledger()
    agent = Agent(ScriptedModel(tool_call("pay", to="ada"), "done"), tools=ledger.tools(), store=place())
    (item,) = (await agent.run("go", run_id="r")).pending
    first = await agent.resume("r", {item.id: Approve()})
    assert await agent.resume("r", {item.id: Approve()}) == replace(first, replayed=True)
    with pytest.raises(AlreadyDecided, match="that decision stands"):
        await agent.resume("r", {item.id: Deny("no")})
    assert ledger.paid == ["ada"]


# -- replay, and what belongs to whom --------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("how", ["waits", "cancelled", "failed"])
async def test_a_replay_ends_as_the_run_did_at_any_depth(how: str, depth: int, place: Place) -> None:
    ledger = Ledger()
    last: dict[str, ScriptedReply] = {
        "waits": tool_call("pay", to="ada"),
        "cancelled": tool_call("hang"),
        "failed": ConnectionError("gone"),
    }
    agent = Agent(ScriptedModel(tool_call("look"), last[how]), tools=ledger.tools(), store=place())
    for level in range(depth):
        inner = Agent(agent.settings.model, tools=agent.tools, name=agent.name if level else "inner")
        model = ScriptedModel([tool_call("look"), tool_call(inner.name, input="x")], "never")
        agent = Agent(model, tools=[*ledger.tools(), inner], name=f"outer-{level}", store=place())
    handle = agent.start("go", run_id="r")
    if how == "cancelled":
        await ledger.hangs.wait()
        await handle.cancel()
    run = await handle.result()
    again = await agent.replay("r")
    assert (type(again.stop), again.messages) == (type(run.stop), run.messages)
    assert [item.id for item in again.pending] == [item.id for item in run.pending]


async def test_nothing_is_written_into_a_run_that_has_ended() -> None:
    helper, tasks = Agent(ScriptedModel(always="helped"), name="helper"), list[Any]()
    over = asyncio.Event()

    async def later() -> AgentRun:
        await over.wait()
        return await helper.run("x")

    async def spawn() -> str:
        tasks.append(asyncio.ensure_future(later()))
        return "spawned"

    agent = Agent(ScriptedModel(tool_call("spawn"), [Pause(), "end"]), tools=[spawn], store="memory:")
    await agent.run("q", run_id="r")
    before = await agent.record("r")
    over.set()
    with pytest.raises(LeaseLost):
        await tasks[0]
    assert await agent.record("r") == before
    assert [heard async for heard in agent.attach("r").events()]


async def test_a_run_that_a_cache_answers_has_an_id_of_its_own() -> None:
    agent = Agent(ScriptedModel("one")).layered(cache(store=CacheStore()))
    runs = [await agent.run("q", run_id=run_id) for run_id in ("first", "second")]
    assert [(run.id, run.text) for run in runs] == [("first", "one"), ("second", "one")]

"""A run is cancelled, steered and decided on from another store, as from another process."""

import asyncio
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.samples import sample
from tests.stores.places import PLACES, QUEUES, stores
from ziggurat import Agent, AgentRun, Approve, ConfigurationError, Context, Denied, Deny, Key, ModelRequest, tool
from ziggurat.agents import Steerable
from ziggurat.errors import AlreadyDecided, RunNotFound
from ziggurat.flows import flow, send
from ziggurat.journal import Store
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.stores import Session
from ziggurat.testing import ScriptedModel

DB: Key[str] = Key("db")


class Desk:
    """Agents that look again and again until they hear something, or wait in a tool until they are let go on."""

    def __init__(self) -> None:
        self.looked = asyncio.Event()
        self.waits = asyncio.Event()
        self.goes_on = asyncio.Event()

    def agent(self, store: Store | None, *replies: Any, **options: Any) -> Agent[Any]:
        @tool(effect="none")
        async def look() -> str:
            self.looked.set()
            await asyncio.sleep(0.005)
            return "seen"

        @tool(effect="none")
        async def wait() -> str:
            self.waits.set()
            await self.goes_on.wait()
            return "waited"

        @tool(approval=True)
        async def pay() -> str:
            return "paid"

        model = ScriptedModel(*replies) if replies else ScriptedModel(always=_until_heard)
        return Agent(model, tools=[look, wait, pay], store=store, max_steps=10_000, **options)


def _until_heard(request: ModelRequest) -> Any:
    heard = [message.text for message in request.messages if message.role == "user"]
    return "done" if "by the way" in heard else tool_call("look")


def texts(run: AgentRun[Any]) -> list[str]:
    return [message.text or "".join(result.text for result in message.tool_results) for message in run.messages]


@pytest.mark.parametrize(("kind", "after_step"), sample(product(PLACES, [False, True]), 4))
async def test_a_run_is_cancelled_and_can_be_resumed(after_step: bool, kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        desk = Desk()
        one = desk.agent(here)
        driving = asyncio.create_task(one.run("Go", run_id="r"))
        await desk.looked.wait()
        attached = desk.agent(elsewhere).attach("r")
        assert await attached.cancel(after_step=after_step)
        run = await driving
        assert run.stop == stops.Cancelled()
        if after_step:
            assert texts(run)[-1] == "seen", "the step has ended"
        assert not driving.cancelling(), "the task of the caller is not cancelled"
        assert (await attached.result()).messages == run.messages
        assert not await attached.cancel()
        assert not await attached.inject("by the way")
        resumed = asyncio.create_task(one.resume("r"))
        desk.looked.clear()
        await desk.looked.wait()  # an old request stops no later resume
        assert await attached.inject("by the way")
        run = await resumed
        assert (run.stop, texts(run)[-2:]) == (stops.Completed(), ["by the way", "done"])


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_a_run_is_redirected_while_a_tool_runs(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        desk, replies = Desk(), (tool_call("wait"), "done")
        driving = asyncio.create_task(desk.agent(here, *replies).run("Go", run_id="r"))
        await desk.waits.wait()
        assert await desk.agent(elsewhere).attach("r").redirect("by the way")
        run = await driving
        assert texts(run)[-2:] == ["by the way", "done"]
        assert "redirected" in texts(run)[2]
        assert (await desk.agent(elsewhere, *replies).replay("r")).messages == run.messages


async def test_in_the_same_process_a_run_without_a_store_is_controlled_too() -> None:
    desk = Desk()
    one = desk.agent(None)
    for verb in ("cancel", "inject", "redirect"):
        desk.looked.clear()
        driving = asyncio.create_task(one.run("Go", run_id=verb))
        await desk.looked.wait()
        attached = one.attach(verb)
        assert await (attached.cancel() if verb == "cancel" else getattr(attached, verb)("by the way"))
        assert (await driving).stop == (stops.Cancelled() if verb == "cancel" else stops.Completed())


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_a_run_that_waits_is_due_when_it_is_cancelled(kind: str, session: bool, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        desk, replies = Desk(), (tool_call("look"), tool_call("pay"), "done")
        one, other = desk.agent(here, *replies), desk.agent(elsewhere, *replies)
        options: Any = {"session": "s"} if session else {}
        before = await one.run("Go", run_id="r", **options)
        assert before.stop == stops.Suspended()
        assert not (await other.recover()).runs, "it is not due"
        assert await other.attach("r").cancel()
        recovered = (await other.recover()).runs["r"]
        assert recovered.stop == (await one.attach("r").result()).stop == stops.Cancelled()
        assert not recovered.pending
        assert recovered.messages == before.messages, "what it has done before is kept"
        assert not (await other.recover()).runs, "it is not due any more"
        (item,) = before.pending
        resumed = await one.resume("r", {item.id: Approve()})
        assert (resumed.text, resumed.observations) == ("done", ("seen", "paid"))


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_a_run_that_cannot_go_on_is_cancelled_with_what_it_has_done(
    kind: str, session: bool, tmp_path: Path
) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        desk = Desk()
        options: Any = {"session": "s"} if session else {}
        replies = ("not a number", tool_call("look"), tool_call("pay"))
        before = await desk.agent(here, *replies, output=int).run("Go", run_id="r", **options)

        def needs(ctx: Context) -> str:
            return ctx.scope[DB]

        other = desk.agent(elsewhere, tool_call("final_answer", value=7), output=int, instructions=needs)
        (item,) = before.pending
        await other.decide("r", {item.id: Approve()})
        assert isinstance((await other.recover()).errors["r"], ConfigurationError)
        assert await other.attach("r").cancel()
        run = (await other.recover()).runs["r"]
        assert (run.stop, run.pending, run.observations) == (stops.Cancelled(), (), ("seen",))
        assert (run.usage, run.usage_by_model) == (before.usage, before.usage_by_model)
        assert (run.model_calls, run.tool_calls) == (before.model_calls, before.tool_calls)
        assert_sendable(run.messages)
        assert (await other.attach("r").result()).messages == run.messages
        assert (await desk.agent(here, *replies, output=int).replay("r")).messages == run.messages
        if session:
            assert [*run.messages] == await Session("s", here).get_messages()
        resumed = await other.resume("r", deps={DB: "d"})
        assert (resumed.output, "paid" in resumed.observations) == (7, True)


@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_a_flow_that_cannot_go_on_is_cancelled_without_its_code(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path, 1) as (store,):
        begun = list[int]()

        @flow(store=store)
        async def order(ctx: Context) -> str:
            begun.append(1)
            return ctx.scope[DB]

        await order.submit(run_id="r")
        assert isinstance((await order.recover()).errors["r"], ConfigurationError)
        assert await order.attach("r").cancel()
        assert (await order.recover()).runs["r"].stop == stops.Cancelled()
        assert (len(begun), await order.attach("r").cancel()) == (1, False)
        assert (await order.resume("r", deps={DB: "d"})).output == "d"


@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_a_submitted_run_that_is_cancelled_calls_nothing(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        desk = Desk()
        one = desk.agent(here)
        submitted = await one.submit("Go", run_id="r")
        assert await submitted.cancel()
        run = (await desk.agent(elsewhere).recover()).runs["r"]
        assert (run.stop, run.model_calls, desk.looked.is_set()) == (stops.Cancelled(), 0, False)
        assert (await submitted.result()).stop == stops.Cancelled()


@pytest.mark.parametrize("verb", ["inject", "redirect"])
@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_a_message_to_a_run_that_waits_is_taken_when_it_goes_on(verb: str, kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        desk, replies = Desk(), (tool_call("pay"), "done")
        one, other = desk.agent(here, *replies), desk.agent(elsewhere, *replies)
        (item,) = (await one.run("Go", run_id="r")).pending
        assert await getattr(other.attach("r"), verb)("by the way")
        run = (await one.recover()).runs["r"]
        if verb == "inject":
            assert (run.stop, texts(run)) == (stops.Suspended(), ["Go"])
            assert not (await one.recover()).runs, "it still waits, and is not due"
            run = await one.resume("r", {item.id: Approve()})
        assert run.stop == stops.Completed()
        assert texts(run)[-2:] == ["by the way", "done"]
        assert run.observations[0] == "paid" if verb == "inject" else "redirected" in run.observations[0]


@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_a_decision_on_a_run_that_is_driven_elsewhere_is_used_when_the_others_have_ended(
    kind: str, tmp_path: Path
) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        desk, replies = Desk(), (assistant(tool_call("pay"), tool_call("wait")), "done")
        one, attached = desk.agent(here, *replies), desk.agent(elsewhere, *replies).attach("r")
        driving = asyncio.create_task(one.run("Go", run_id="r"))
        await desk.waits.wait()
        while not (pending := (await attached.status()).pending):
            await desk.waits.wait()
        (item,) = pending
        with pytest.raises(ConfigurationError, match="no call with the id"):
            await attached.decide({"other": Approve()})
        for _ in range(2):
            await attached.decide({item.id: Approve()})
        desk.goes_on.set()
        assert not (await attached.status()).pending
        run = await driving
        assert (run.text, run.observations) == ("done", ("paid", "waited"))
        assert not (await one.recover()).runs


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_the_first_of_two_decisions_counts(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        desk, replies = Desk(), (assistant(tool_call("pay"), tool_call("wait")), "done")
        one, attached = desk.agent(here, *replies), desk.agent(elsewhere, *replies).attach("r")
        driving = asyncio.create_task(one.run("Go", run_id="r"))
        await desk.waits.wait()
        (item,) = (await attached.status()).pending
        for _ in range(2):
            await attached.decide({item.id: Deny("not now")})
            for other in (Approve(), Deny("no")):
                with pytest.raises(AlreadyDecided, match="not now"):
                    await attached.decide({item.id: other})
        both = await asyncio.gather(
            *(attached.decide({item.id: Deny(each)}) for each in ("not now", "a", "b")), return_exceptions=True
        )
        assert [type(each) for each in both] == [type(None), AlreadyDecided, AlreadyDecided]
        desk.goes_on.set()
        await driving
        for decide in (attached.decide, partial(one.resume, "r")):
            with pytest.raises(AlreadyDecided):
                await decide({item.id: Approve()})
        await attached.decide({item.id: Deny("not now")})
        run = await one.resume("r")
        assert (run.text, "not now" in run.observations[0]) == ("done", True)


async def test_what_an_agent_does_not_allow_is_refused_where_it_is_sent(tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path, 1) as (store,):
        desk = Desk()
        quiet = desk.agent(store, tool_call("pay"), middleware=[Steerable("cancel")], name="quiet")
        await quiet.run("Go", run_id="r")

        @flow(store=store)
        async def order() -> None:
            """Order."""

        for attached, error in ((quiet.attach("r"), Denied), (order.attach("r"), ConfigurationError)):
            for steer in (attached.inject, attached.redirect):
                with pytest.raises(error):
                    await steer("by the way")
        with pytest.raises(ConfigurationError, match="no loop"):
            await order.attach("r").cancel(after_step=True)
        with pytest.raises(RunNotFound, match="there is no run 'other'"):
            await quiet.attach("other").cancel()
        with pytest.raises(ConfigurationError, match="what a user says"):
            await desk.agent(store).attach("r").inject(assistant("x"))
        assert not await store.inbox("run:r")


async def test_a_run_of_another_agent_is_left_as_it_is(tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path, 1) as (store,):
        await Desk().agent(store, tool_call("pay"), name="clerk").run("Go", run_id="r")
        other = Desk().agent(store, name="other")
        attached = other.attach("r")
        verbs: list[Any] = [attached.cancel(), attached.inject("Wait."), attached.redirect("Wait."), attached.send("x")]
        for verb in [*verbs, other.delete("r")]:
            with pytest.raises(RunNotFound, match="clerk"):
                await verb
        assert not await store.inbox("run:r")
        assert await send("r", "x", store=store), "it needs no agent"


async def test_what_an_agent_does_not_allow_is_refused_where_it_arrives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:

    async with stores("sqlite", tmp_path) as (here, elsewhere):
        desk, replies = Desk(), (tool_call("pay"), "done")
        closed = desk.agent(here, *replies, middleware=[Steerable()])
        (item,) = (await closed.run("Go", run_id="r")).pending
        attached = desk.agent(elsewhere, *replies).attach("r")  # another version of the agent
        assert await attached.inject("by the way")
        assert await attached.cancel()
        run = await closed.resume("r", {item.id: Approve()})
        assert (run.stop, texts(run)[-2:]) == (stops.Completed(), ["paid", "done"])
    assert caplog.text.count("is refused") == 2

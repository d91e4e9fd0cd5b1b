"""Steering: a run is stopped after a step, given a message, or redirected, and the record has it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.support import assert_sendable, elsewhere, texts, turns
from tests.samples import sample
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    ConfigurationError,
    Context,
    Denied,
    Event,
    ModelRequest,
    Runnable,
    Usage,
    stop_when,
    user,
)
from ziggurat.agents import RunHandle, Steerable
from ziggurat.errors import EmptyPrompt
from ziggurat.events import AgentEnded, Delta, Steered, StepEnded, ToolEnded
from ziggurat.journal.entries import Ended
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.retry import retry
from ziggurat.messages import ValidationPolicy, assistant, stops, tool_call, validate
from ziggurat.stores import InMemoryStore
from ziggurat.testing import Pause, ScriptedModel, assert_no_leaks

COST = Usage(10, 1, requests=1)


class Work:
    """An agent whose tools take a few turns of the event loop; its model calls two of them in each of three steps."""

    def __init__(self) -> None:
        self.did: list[str] = []

    async def slow(self, what: str) -> str:
        """Work for a while."""
        self.did.append(f"+{what}")
        await turns(8)
        self.did.append(f"-{what}")
        return f"did {what}"

    def agent(self, store: InMemoryStore | None = None, **options: Any) -> Agent:
        def reply(request: ModelRequest) -> Any:
            turn = sum(message.role == "assistant" for message in request.messages)
            if turn >= 3:
                return [Pause(), f"answer {turn}", Pause()]
            calls = [tool_call("slow", what=f"{turn}{name}", id=f"{turn}{name}") for name in "ab"]
            return [Pause(), *calls, Pause()] if turn != 1 else [Pause(), calls[0], Pause()]

        model = ScriptedModel(always=reply, usage=COST)
        return Agent(model, tools=[self.slow], store=store, **options)


def _valid(run: AgentRun) -> None:
    assert validate(run.messages, ValidationPolicy.sendable()) is None
    assert_sendable(run.messages)


async def _steer(handle: RunHandle, verb: str) -> bool:
    if verb == "inject":
        return await handle.inject("by the way")
    if verb == "redirect":
        return await handle.redirect("no, do this")
    return await handle.cancel(after_step=verb == "cancel after step")


VERBS = ("cancel", "cancel after step", "inject", "redirect")


@pytest.mark.parametrize(("verb", "after"), [(verb, after) for verb in VERBS for after in sample(range(64), 8)])
async def test_steered_at_any_turn_the_run_is_valid_and_resume_and_replay_agree(verb: str, after: int) -> None:
    work, again, store = Work(), Work(), InMemoryStore()
    async with assert_no_leaks():
        handle = work.agent(store).start("go", run_id="r")
        await turns(after)
        steered = await _steer(handle, verb)
        run = await handle.result()
    _valid(run)
    if not verb.startswith("cancel"):
        replayed = await again.agent(elsewhere(store, "r")).replay("r")
        assert again.did == []
        assert (replayed.messages, replayed.stop, replayed.usage) == (run.messages, run.stop, run.usage)
        assert len({"by the way", "no, do this"} & {*texts(run.messages)}) == steered
    elif run.stop != stops.Completed():
        assert run.stop == stops.Cancelled()
        if run.model_calls:
            resumed = await again.agent(elsewhere(store, "r")).resume("r")
            _valid(resumed)
            assert resumed.messages[: len(run.messages)] == list(run.messages)
            assert (resumed.stop, resumed.text) == (stops.Completed(), "answer 3")


@pytest.mark.parametrize("verbs", [("inject", "cancel after step"), ("redirect", "inject"), ("inject", "redirect")])
@pytest.mark.parametrize("after", sample(range(0, 60, 4), 4))
async def test_two_at_once_are_valid_too_and_a_soft_cancel_wins(verbs: tuple[str, str], after: int) -> None:
    work, again = Work(), Work()

    store = InMemoryStore()
    handle = work.agent(store).start("go", run_id="r")
    await turns(after)
    for verb in verbs:
        await _steer(handle, verb)
    run = await handle.result()
    _valid(run)
    ended = run.stop
    replayed = await again.agent(elsewhere(store, "r")).replay("r")
    assert (replayed.messages, replayed.stop) == (run.messages, ended)
    if ended == stops.Cancelled():
        resumed = await again.agent(elsewhere(store, "r")).resume("r")
        _valid(resumed)
        assert "by the way" in texts(resumed.messages)
        assert resumed.stop == stops.Completed()


# -- inject ------------------------------------------------------------------------------------------------------


def _at(when: Callable[[Event], bool], do: Callable[[RunHandle], Awaitable[object]], **options: Any) -> Any:
    """Start a run and steer it on the first event of a kind."""
    work = Work()

    async def main() -> tuple[AgentRun, Work, list[Event]]:
        heard: list[Event] = []
        todo = [do]

        async def listen(event: Event) -> None:
            heard.append(event)
            if todo and when(event):
                await todo.pop()(handle)

        handle = work.agent(**options).start("go", listeners=[listen])
        return await handle.result(), work, heard

    return asyncio.run(main())


def test_what_is_injected_while_tools_run_comes_after_their_results() -> None:
    run, _, heard = _at(lambda event: isinstance(event, ToolEnded), lambda handle: handle.inject("by the way"))
    assert [message.role for message in run.messages[:6]] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert run.messages[4] == user("by the way")
    assert [(event.verb, event.step) for event in heard if isinstance(event, Steered)] == [("inject", 2)]


def test_what_is_injected_while_the_last_answer_comes_is_answered_too() -> None:
    def last(event: Event) -> bool:
        return isinstance(event, Delta) and "answer" in str(event.delta)

    run, _, _ = _at(last, lambda handle: handle.inject("and then?"))
    assert texts(run.messages[-3:]) == ["answer 3", "and then?", "answer 4"]
    assert (run.stop, run.output) == (stops.Completed(), "answer 4")
    run, _, _ = _at(last, lambda handle: handle.inject("and then?"), max_steps=4)
    assert (run.stop, run.output) == (stops.Completed(), "answer 3")  # no step is left to answer in


def test_a_policy_that_stops_has_the_last_word() -> None:
    stop = stop_when(lambda progress: progress.step == 2)
    run, _, _ = _at(lambda event: isinstance(event, StepEnded), lambda handle: handle.inject("more"), stop=stop)
    assert run.stop == stops.StopCondition("")
    assert run.messages[-1].role == "tool"


async def test_messages_with_parts_may_be_injected_and_only_a_users() -> None:
    handle = Work().agent().start("go")
    assert await handle.inject(["a", "b"])
    with pytest.raises(ConfigurationError, match="what a user says"):
        await handle.inject(assistant("I am the model"))
    with pytest.raises(EmptyPrompt):
        await handle.redirect(" ")
    run = await handle.result()
    assert run.messages[1] == user("a", "b")
    assert not await handle.inject("too late")
    assert not await handle.redirect("too late")


# -- redirect ----------------------------------------------------------------------------------------------------


async def test_a_redirection_cancels_the_tools_that_run() -> None:
    work = Work()

    handle = work.agent().start("go")
    while "+0a" not in work.did:
        await turns(1)
    await handle.redirect("no, do this")
    run = await handle.result()
    assert "-0a" not in work.did
    assert all(text.startswith("interrupted: the run was redirected") for text in run.observations[:2])
    assert run.messages[4] == user("no, do this")
    assert run.stop == stops.Completed()


def test_a_redirection_while_the_model_is_asked_drops_the_calls_of_its_reply() -> None:
    run, work, _ = _at(lambda event: isinstance(event, Delta), lambda handle: handle.redirect("no, do this"))
    assert run.observations[:2] == ("not executed: the run was redirected",) * 2
    assert run.messages[4] == user("no, do this")
    assert work.did == ["+1a", "-1a", "+2a", "+2b", "-2a", "-2b"]


# -- cancel ------------------------------------------------------------------------------------------------------


async def test_soft_cancel_completes_the_turn_keeps_usage_and_conversation_and_stops_the_next_turn() -> None:
    work = Work()
    ended: list[Event] = []

    handle = work.agent().start("go", listeners=[ended.append])
    while "+0a" not in work.did:
        await turns(1)
    await handle.cancel(after_step=True)
    await handle.cancel(after_step=True)
    run = await handle.result()
    following = await work.agent().run("again", history=run.messages)
    assert work.did[:4] == ["+0a", "+0b", "-0a", "-0b"]
    assert (run.stop, run.steps, run.model_calls, run.tool_calls) == (stops.Cancelled(), 1, 1, 2)
    assert run.usage == COST
    assert run.observations == ("did 0a", "did 0b")
    assert sum(isinstance(event, StepEnded) for event in ended) == 1
    assert following.stop == stops.Completed()


async def test_cancel_is_idempotent_and_a_soft_one_can_be_made_hard() -> None:
    work = Work()

    handle = work.agent().start("go")
    while "+0a" not in work.did:
        await turns(1)
    await handle.cancel(after_step=True)
    await handle.cancel()
    await handle.cancel()
    run = await handle.result()
    await handle.cancel()
    assert await handle.result() is run
    assert run.stop == stops.Cancelled()
    assert "-0a" not in work.did


async def test_cancel_unblocks_a_waiting_consumer_of_events_and_none_come_after_it() -> None:
    async with assert_no_leaks():
        handle = Agent(ScriptedModel(["a", *[Pause()] * 1000, "b"])).start("go")
        events, heard = handle.events(), list[object]()

        async def consume() -> None:
            async for item in events:
                heard.append(item.what)

        consumer = asyncio.ensure_future(consume())
        await turns(20)
        assert not consumer.done()
        assert heard
        await handle.cancel()
        await consumer
        assert (await handle.result()).stop == stops.Cancelled()
        assert isinstance(heard[-1], Ended)


async def test_events_tell_of_the_whole_run_to_its_end() -> None:
    handle = Work().agent().start("go")
    early, another = handle.events(), handle.events()
    await turns(2)
    late = handle.events()
    heard, beside, later = [[item.what async for item in each] for each in (early, another, late)]
    assert heard == beside
    assert later[0] == heard[0]
    ended = [event for event in heard if isinstance(event, AgentEnded)]
    assert [event.run for event in ended] == [await handle.result()]
    assert [event for event in heard if isinstance(event, Delta)]


async def test_a_hard_cancel_lets_tools_clean_up_and_cancels_siblings() -> None:
    cleaned: list[str] = []

    async def careful(name: str) -> str:
        """Clean up when told to stop."""
        try:
            await turns(1000)
        finally:
            await turns(3)
            cleaned.append(name)
        return name

    model = ScriptedModel([tool_call("careful", name="a", id="1"), tool_call("careful", name="b", id="2")])
    handle = Agent(model, tools=[careful]).start("go")
    await turns(20)
    await handle.cancel()
    assert (await handle.result()).stop == stops.Cancelled()
    assert sorted(cleaned) == ["a", "b"]


# -- permission, and what is steered------------------------------------------------------------------------------


@pytest.mark.parametrize("verbs", [(), ("cancel",), ("inject", "redirect")])
async def test_an_agent_may_forbid_it(verbs: tuple[Any, ...]) -> None:
    agent = Work().agent(middleware=[Steerable(*verbs), Steerable("cancel", "inject", "redirect")])
    handle = agent.layered(retry(attempts=2)).start("go")
    for verb in ("inject", "redirect", "cancel", "cancel after step"):
        if verb.split()[0] in verbs:
            await _steer(handle, verb)
        else:
            with pytest.raises(Denied, match=rf"agent may not be steered by {verb.split()[0]} \(allowed: "):
                await _steer(handle, verb)
    await handle.result()
    with pytest.raises(ConfigurationError, match="'redirect'"):
        Steerable("pause")  # type: ignore[arg-type]


async def test_what_has_no_loop_can_only_be_cancelled_at_once() -> None:
    async def team(request: AgentRequest, ctx: Context) -> AgentRun:
        member = Agent(ScriptedModel([Pause()] * 100), name="member")
        return await member(request, ctx.under("member"))

    handle = Runnable(team, name="team").start("go")
    with pytest.raises(ConfigurationError, match="team"):
        await handle.inject("x")
    with pytest.raises(ConfigurationError, match="no loop"):
        await handle.cancel(after_step=True)
    await turns(9)
    await handle.cancel()
    assert (await handle.result()).stop == stops.Cancelled()


async def test_agents_beneath_are_not_steered_but_the_one_that_was_started() -> None:
    inner = Agent(ScriptedModel([*[Pause()] * 10, "inner is done"]), name="inner")
    outer = Agent(ScriptedModel(tool_call("inner", input="go"), "done"), tools=[inner])
    handle = outer.start("go")
    await turns(3)
    assert await handle.inject("by the way")
    run = await handle.result()
    assert texts(run.messages)[-2:] == ["by the way", "done"]
    assert run.observations == ("inner is done",)


def test_a_run_started_within_a_tool_is_steered_by_its_own_handle() -> None:
    helper = Agent(ScriptedModel("first", "second"), name="helper")

    async def ask() -> str:
        handle = helper.start("go")
        await handle.inject("more")
        return " ".join(texts((await handle.result()).messages))

    run = Agent(ScriptedModel(tool_call("ask"), "done"), tools=[ask]).run_sync("go")
    assert run.observations == ("go more first",)
    assert run.model_calls == 3


async def test_a_run_that_nobody_steers_is_the_same_as_one_that_is_not_started() -> None:
    run, started = await Work().agent().run("go"), await Work().agent().start("go").result()
    assert replace(run, id="", seconds=0.0) == replace(started, id="", seconds=0.0)


def _slow(name: str) -> Agent:
    return Agent(ScriptedModel([Pause()] * 100), name=name)


COMBINED: dict[str, Callable[[], Runnable]] = {
    "fallback": lambda: Runnable(fallback(_slow("a"), _slow("b")), name="both"),
    "fallback of one twice": lambda: Runnable(fallback(one := _slow("a"), one), name="both"),
    "hedge": lambda: Runnable(hedge(_slow("a"), delay=60), name="both"),
    "layers around a race": lambda: Runnable(hedge(_slow("a"), delay=60), name="both").layered(retry()),
}


@pytest.mark.parametrize("combined", COMBINED)
async def test_several_agents_behind_one_front_cannot_be_steered(combined: str) -> None:
    handle = COMBINED[combined]().start("go")
    for verb in (handle.inject, handle.redirect):
        with pytest.raises(ConfigurationError, match="no loop"):
            await verb("also this")
    await handle.cancel()
    assert (await handle.result()).stop == stops.Cancelled()


async def test_one_agent_in_layers_of_any_kind_can_be_steered() -> None:
    def closure(inner: Any) -> Any:
        return lambda request, ctx: inner(request, ctx)

    model = ScriptedModel("one")

    handle = Agent(model).layered(retry(), closure).start("go")
    assert await handle.inject("also this")
    assert (await handle.result()).text == "one"
    assert texts(model.last.messages) == ["go", "also this"]

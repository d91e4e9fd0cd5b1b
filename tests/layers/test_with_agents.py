"""Layers and combinators around real models and agents."""

import asyncio
from collections.abc import Callable

import pytest

from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Budget,
    Context,
    Event,
    Runnable,
    Service,
    Timeout,
    Usage,
    layer,
    stack,
    tool,
)
from ziggurat.agents import Environment
from ziggurat.core import CLOCK, root
from ziggurat.core.context import JOURNAL, RUN_ID
from ziggurat.errors import ModelError
from ziggurat.events import Diverged, Dropped
from ziggurat.flows import event, flow
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Failure
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.retry import retry, timeout
from ziggurat.messages import Model, ModelRequest, ModelResponse, tool_call
from ziggurat.messages.prompts import request_of
from ziggurat.messages.usage import Tally
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, Pause, ScriptedModel, ScriptedReply, assert_no_leaks


def opened(journal: LocalJournal, clock: HandClock | None = None) -> Context:
    ctx = root().within(JOURNAL, journal).within(RUN_ID, "r")
    return ctx.within(CLOCK, clock or HandClock(auto=True))


def half_said(name: str = "a") -> ScriptedModel:
    return ScriptedModel(["I was going to", ModelError("lost", transient=True)], always="never", name=name)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wrap", [lambda a, b: fallback(a, b), lambda a, b: hedge(a, b, delay=1)])
async def test_what_a_lost_model_said_is_dropped(wrap: Callable[[Model, Model], Model], streamed: bool) -> None:
    model = wrap(half_said(), ScriptedModel("all is well", name="b"))
    agent = Agent(model)

    async def main() -> AgentRun:
        async with assert_no_leaks():
            if not streamed:
                return await agent.run("?")
            async with agent.stream("?") as events:
                async for _ in events:
                    pass
            return events.response

    run = await main()
    assert run.text == "all is well"
    assert len(run.messages) == 2


@layer
async def once_more(request: ModelRequest, ctx: Context, inner: Model) -> ModelResponse:
    try:
        return await inner(request, ctx)
    except ModelError as error:
        failure = error
    return await inner(request, await ctx.drop(failure))


@pytest.mark.parametrize("requests", [1, 2, 3])
async def test_a_layer_that_drops_a_try_counts_as_retry_does(requests: int) -> None:
    ends: list[object] = []
    for each in (once_more(), retry(attempts=2, base=0)):
        seen: list[Event] = []
        agent = Agent(stack(half_said(), each), budget=Budget(requests=requests))
        run = await agent.run("?", listeners=[seen.append])
        ends.append((run.stop, run.usage, run.text, [event for event in seen if isinstance(event, Dropped)]))
    assert ends[0] == ends[1]


async def test_a_slow_model_is_hedged_and_its_tokens_are_dropped() -> None:
    slow = ScriptedModel(["thinking", Pause(9.0), "done"], name="slow")
    quick = ScriptedModel("here", name="quick")
    clock = HandClock(auto=True)
    agent = Agent(hedge(slow, quick, delay=2))
    async with assert_no_leaks():
        assert (await agent.run("?", environment=Environment(clock=clock))).text == "here"


def dear(*replies: ScriptedReply, name: str) -> Agent:
    return Agent(ScriptedModel(*replies, name=name, usage=Usage(input=10, output=1, requests=1)), name=name)


def test_agents_fall_back_and_the_record_answers_for_both() -> None:
    def front(*replies: ScriptedReply) -> Runnable:
        return Runnable(fallback(dear(*replies, name="one"), dear("from two", name="two")), name="desk")

    journal = LocalJournal()
    ctx = opened(journal)
    run = asyncio.run(front(ModelError("down"))(request_of("?"), ctx))
    assert run.text == "from two"
    ends = [(entry.path, entry.kind) for entry in journal.entries if entry.kind != "Entered"]
    assert ends == [
        ("run/alt-1/step-1/model", "Failure"),
        ("run/alt-1", "Failure"),
        ("run/alt-2/step-1/model", "Result"),
        ("run/alt-2", "Result"),
        ("run", "Result"),
    ]
    later = LocalJournal.load(journal.dump())
    again = opened(later)
    answered = asyncio.run(front("would do now")(request_of("?"), again))
    assert answered.text == "from two"
    assert answered.usage == run.usage
    assert len(later.entries) == len(journal.entries)


def test_what_was_spent_is_rebuilt_from_the_leaves() -> None:
    def front(*replies: ScriptedReply) -> Runnable:
        return Runnable(fallback(dear(*replies, name="one"), dear("from two", name="two")), name="desk")

    costly = ModelError("down")
    costly.usage = Usage(input=5, output=2, requests=1)
    journal = LocalJournal()
    run = asyncio.run(front(costly)(request_of("?"), opened(journal)))
    later = LocalJournal.load(b"\n".join(journal.dump().splitlines()[:-1]))  # lost before the very end
    tally = Tally()
    for _, costs in later.spent(""):
        for usage in costs:
            tally.add(usage)
    assert tally.usage == Usage(input=15, output=3, requests=2)
    assert asyncio.run(front("would do now")(request_of("?"), opened(later))).usage == run.usage


def test_a_timeout_within_an_agent_is_one_verdict() -> None:
    clock = HandClock(auto=True)
    slow = Agent(ScriptedModel([Pause(60.0), "late"], [Pause(1.0), "in time"], name="slow"), name="slow")
    other = Agent(ScriptedModel(ModelError("down"), always="never", name="other"), name="other")

    def service() -> Service[AgentRequest, AgentRun]:
        return stack(fallback(slow.layered(timeout(seconds=10)), other), retry(base=0, when=lambda _: True))

    journal = LocalJournal()
    run = asyncio.run(service()(request_of("?"), opened(journal, clock)))
    assert run.text == "in time"
    verdicts = [entry for entry in journal.entries if entry.path == "run/alt-1" and isinstance(entry, Failure)]
    assert [type(verdict.error) for verdict in verdicts] == [Timeout]
    later = LocalJournal.load(journal.dump())
    assert asyncio.run(service()(request_of("?"), opened(later, clock))).text == "in time"
    assert len(later.entries) == len(journal.entries)


@pytest.mark.parametrize(
    "first", [[tool_call("look"), [Pause(100.0), "late"]], [tool_call("look"), ModelError("down")]]
)
async def test_a_race_in_a_flow_is_replayed_with_what_all_have_cost(first: list[ScriptedReply]) -> None:
    @tool(effect="none")
    def look() -> str:
        """Look."""
        return "seen"

    one = Agent(ScriptedModel(*first, name="one"), tools=[look], name="one")
    other = Agent(ScriptedModel([Pause(10.0), "here"], name="other"), name="other")

    @flow(store=InMemoryStore())
    async def order() -> str:
        said = (await Runnable(hedge(one, other, delay=1), name="desk").run("?")).text
        return f"{said} {await event('go', str)}"

    environment = Environment(clock=HandClock(auto=True))
    before = await order.run(run_id="r", environment=environment)
    await order.attach("r").send("go", "on")
    heard: list[Event] = []
    after = await order.resume("r", environment=environment, listeners=[heard.append])
    again = await order.replay("r")
    assert (after.output, again.output) == ("here on", "here on")
    assert before.usage == after.usage == again.usage
    assert before.model_calls == after.model_calls == again.model_calls
    assert not [each for each in heard if isinstance(each, Diverged)]

"""Timers: recorded when they begin, over when their time has come and not before, in any process."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.calls.test_step import again
from tests.hard_cases.support import ByTurn
from tests.samples import amount, rows, sample
from tests.stores.places import PLACES, new_store, reopened
from tests.wrong import wrong
from ziggurat import Agent, AgentRun, Approvals, Approve, ConfigurationError, Middleware, ToolCall, tool
from ziggurat.agents import Answer, Environment, runs_of
from ziggurat.flows import ask, flow, gather, sleep, step
from ziggurat.journal.entries import Ended
from ziggurat.layers import timeout
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel, run_until_idle

START = datetime.fromtimestamp(HandClock().now(), UTC)

LENGTHS: dict[str, tuple[Callable[[], Awaitable[None]], float]] = {
    "seconds": (lambda: sleep(seconds=90), 90),
    "the sum": (lambda: sleep(days=1, hours=2, minutes=3, seconds=4), 93_784),
    "until": (lambda: sleep(until=START + timedelta(hours=5)), 18_000),
}


@pytest.mark.parametrize(("length", "place"), rows(LENGTHS, sample(["by reference", *PLACES], 2)), indirect=["place"])
async def test_a_run_waits_until_its_time_and_needs_no_process_meanwhile(place: str, length: str) -> None:
    wait, seconds = LENGTHS[length]
    made: list[str] = []

    @step
    async def note(what: str) -> str:
        made.append(what)
        return what

    async def waiting() -> str:
        await note("before")
        await wait()
        return await note("after")

    clock, store = HandClock(), new_store()
    environment = Environment(clock=clock)
    run: AgentRun[Any] = await flow(store=store)(waiting).run(run_id="w", environment=environment)
    due = clock.now() + seconds
    for _ in range(3):
        assert isinstance(run.stop, stops.Suspended)
        (item,) = run.pending
        assert (item.stage, item.until, item.needs_decision, item.path) == ("timer", due, False, "waiting/sleep")
        ended = (await runs_of(store).read("w")).ended
        assert ended is not None
        assert ended.due == due
        await clock.advance(seconds / 3 - 1)
        other = flow(store=store if place == "by reference" else reopened(store))(waiting)
        run = await other.resume("w", environment=environment)
    await clock.advance(3)
    run = await other.resume("w", environment=environment)
    assert (run.output, made) == ("after", ["before", "after"])
    assert run.seconds == 0
    assert (await other.replay("w")).output == "after"
    assert (await other.replay("w", live="tools")).output == "after"
    fork = await other.fork("w", 3, effects="live", environment=environment)
    assert fork.output == "after"
    fork = await other.fork("w", 2, effects="live", new_id="f", environment=environment)
    assert isinstance(fork.stop, stops.Suspended) == (length != "until")  # which is past by now


@pytest.mark.parametrize("kept", [False, True])
async def test_a_short_wait_and_any_without_a_store_is_spent_in_the_process_and_free(kept: bool) -> None:
    @tool(timeout=0.1)
    async def nap() -> str:
        await sleep(seconds=0.5 if kept else 500_000)
        return "slept"

    agent = Agent(
        ScriptedModel(ToolCall("1", "nap", "{}"), "Done."),
        tools=[nap],
        timeout=0.2,
        store=InMemoryStore() if kept else None,
    ).layered(timeout(seconds=0.3))
    clock = HandClock(auto=True)
    run = await agent.run("Sleep", environment=Environment(clock=clock))
    assert (run.text, run.observations, run.seconds) == ("Done.", ("slept",), 0)
    assert clock.monotonic() == pytest.approx(0.5 if kept else 500_000)


class SetClock(HandClock):
    """A clock that is set back and forward: only the time of day is, not the time that passes."""

    by = 0.0

    def now(self) -> float:
        return super().now() + self.by


@pytest.mark.parametrize("seed", range(amount(30, 500)))
@pytest.mark.parametrize("kept", [True, False])
async def test_a_timer_ends_when_its_time_has_come_however_the_clock_is_set(kept: bool, seed: int) -> None:
    chance, clock, over = random.Random(seed), SetClock(), list[tuple[float, float]]()
    store = InMemoryStore(clock=clock) if kept else None
    lengths = [chance.choice((0.5, 1.0, 3.0, 700.0, 90_000.0)) for _ in range(3)]
    untils: list[float] = []

    @flow(name="timers", store=store)
    async def timers() -> int:
        for number, length in enumerate(lengths):
            if number == len(untils):
                untils.append(clock.now() + length)
            await sleep(seconds=length)
            if number == len(over):
                over.append((untils[number], clock.now()))
        return len(over)

    environment = Environment(clock=clock)
    task = asyncio.create_task(timers.run(run_id="r", environment=environment))
    for _ in range(2000):
        await run_until_idle()
        if task.done() and isinstance((await task).stop, stops.Completed):
            break
        if chance.random() < 0.3:
            clock.by += chance.choice((-1, 1)) * chance.choice((0.5, 60.0, 100_000.0))
        seconds = chance.choice((0.3, 0.5, 2.0, 650.0, 30_000.0))
        await clock.advance(seconds)
        await run_until_idle()
        assert task.done() or not kept or seconds < 5, "a run with a store needs no process for a long wait"
        if task.done() and kept and untils[-1] <= clock.now():
            task = asyncio.create_task(timers.resume("r", environment=environment))
    assert (await task).output == 3
    assert all(until <= at for until, at in over)


async def test_it_can_be_cancelled_and_goes_on_with_what_is_left() -> None:
    clock = HandClock()

    @flow
    async def waiting() -> str:
        await sleep(hours=10)
        return "over"

    environment = Environment(clock=clock)
    handle = waiting.start(run_id="w", environment=environment)
    await clock.advance(9 * 3600)
    await handle.cancel()
    assert isinstance((await handle.result()).stop, stops.Cancelled)
    task = asyncio.create_task(waiting.resume("w", environment=environment))
    await clock.advance(3599)
    assert not task.done()
    await clock.advance(1.1)
    await run_until_idle()
    assert (await task).output == "over"


async def test_parts_wait_each_for_its_own_time_and_for_people() -> None:
    @step
    async def note(what: str) -> str:
        return what

    async def part(days: float) -> str:
        await sleep(days=days)
        return await note(f"{days}")

    @flow(store=InMemoryStore())
    async def parts() -> list[str]:
        three, one, answer, quick = await gather(part(3), part(1), ask("Who?"), note("quick"))
        await sleep(days=1)
        return [three, one, answer, quick]

    clock = HandClock()
    environment = Environment(clock=clock)
    began = clock.now()
    run: AgentRun[Any] = await parts.run(run_id="p", environment=environment)
    assert [item.stage for item in run.pending] == ["timer", "timer", "question"]
    seen = []
    for days in (0.5, 1.1, 2, 3.5, 4, 4.6):
        await clock.advance(began + days * 86400 - clock.now())
        decisions = {item.id: Answer("Ada") for item in run.pending if item.needs_decision and days > 1.5}
        run = await parts.resume("p", decisions, environment=environment)
        dues = [entry.due for entry in (await runs_of(parts.store).read("p")).entries if isinstance(entry, Ended)]
        seen.append((len(run.pending), None if dues[-1] is None else round((dues[-1] - began) / 86400, 3)))
    assert seen == [(3, 1), (2, 3), (1, 3), (1, 4.5), (1, 4.5), (0, None)]
    assert run.output == ["3", "1", "Ada", "quick"]


async def test_a_hook_waits_as_well() -> None:
    class Patient(Middleware):
        async def before_agent(self, request: Any, ctx: Any) -> Any:
            await sleep(days=1)
            return request

    agent = Agent(ByTurn("Done."), middleware=[Patient()], store=InMemoryStore())
    clock = HandClock()
    environment = Environment(clock=clock)
    run = await agent.run("Go", environment=environment)
    assert [item.stage for item in run.pending] == ["timer"]
    clock.skip(86_401)
    assert (await agent.resume(run.id, environment=environment)).text == "Done."


async def test_questions_and_approvals_that_expire_make_the_run_due() -> None:
    @tool(approval=True)
    async def pay() -> str:
        return "paid"

    @flow(store=InMemoryStore())
    async def asking() -> str:
        return await ask("Who?", expires=60, default="nobody")

    clock = HandClock()
    await asking.run(run_id="a", environment=Environment(clock=clock))
    agent = Agent(ByTurn(ToolCall("1", "pay", "{}")), tools=[pay], approvals=Approvals(expires=60), store=asking.store)
    await agent.run("Pay", run_id="b", environment=Environment(clock=clock))
    for run_id in ("a", "b"):
        ended = (await runs_of(asking.store).read(run_id)).ended
        assert ended is not None
        assert ended.due == clock.now() + 60


def test_it_is_not_decided_by_a_person() -> None:
    @flow(store=InMemoryStore())
    async def waiting() -> None:
        await sleep(days=1)

    run = waiting.run_sync()
    for decision in (Approve(), Answer(None)):
        with pytest.raises(ConfigurationError, match="waiting/sleep"):
            again(waiting, run, decisions={run.pending[0].id: decision})


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        (lambda: sleep(), "give one of them"),
        (lambda: sleep(days=1, until=START), "give one of them"),
        (lambda: sleep(until=START.replace(tzinfo=None)), "needs a time zone"),
        (lambda: sleep(days=wrong("1")), "days"),
        (lambda: sleep(days=-1), "days"),
        (lambda: sleep(days=1e9), "before the year 10000"),
    ],
)
def test_a_length_that_is_none_is_refused(wait: Callable[[], Awaitable[None]], text: str) -> None:
    @flow
    async def unfitting() -> None:
        await wait()

    with pytest.raises(ConfigurationError, match=text):
        unfitting.run_sync()

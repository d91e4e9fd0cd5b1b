import asyncio
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from msgspec import Struct

from tests.agents.support import turns
from tests.samples import pairs
from ziggurat import ConfigurationError, Context, Event, Service, stack, tool
from ziggurat.core import CLOCK, root
from ziggurat.core.context import JOURNAL
from ziggurat.core.service import COMPOSITE, NAME, Effect, fact, name_of
from ziggurat.errors import ModelError, Suspend
from ziggurat.events import Dropped
from ziggurat.journal import LocalJournal
from ziggurat.journal.journal import Charged
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.retry import retry
from ziggurat.testing import HandClock, assert_no_leaks, run_until_idle
from ziggurat.testing.expect import expect

R = TypeVar("R")


class Timed:
    """Answers or fails after a while."""

    def __init__(self, name: str, seconds: float, outcome: object = "answer") -> None:
        self.facts = {NAME: name}
        self.seconds = seconds
        self.outcome = outcome
        self.calls = 0
        self.cancelled = 0

    async def __call__(self, request: str, ctx: Context) -> str:
        self.calls += 1
        try:
            await ctx.clock.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return f"{self.facts[NAME]} at {ctx.path}"


def calling(clock: HandClock) -> Context:
    return root().within(CLOCK, clock)


def run(service: Service[str, R], ctx: Context) -> R:
    async def main() -> R:
        async with assert_no_leaks():
            return await service("q", ctx)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("first", "second", "answer", "seconds"),
    [
        ((1, "x"), (1, "x"), "a at run/alt-1", 1),
        ((9, "x"), (1, "x"), "b at run/alt-2", 3),
        ((3, "x"), (9, "x"), "a at run/alt-1", 3),
        ((1, ModelError("down")), (4, "x"), "b at run/alt-2", 5),
        ((9, ModelError("down")), (4, "x"), "b at run/alt-2", 6),
        ((5, "x"), (1, ModelError("down")), "a at run/alt-1", 5),
        ((4, "x"), (2, "x"), "a at run/alt-1", 4),
    ],
)
def test_the_first_answer_wins(
    first: tuple[int, Exception | str], second: tuple[int, Exception | str], answer: str, seconds: int
) -> None:
    clock = HandClock(auto=True)
    a, b = Timed("a", *first), Timed("b", *second)
    assert run(hedge(a, b, delay=2), calling(clock)) == answer
    assert clock.monotonic() == seconds
    assert clock.waiting == 0


def test_a_quick_answer_is_asked_for_once_and_a_slow_one_again() -> None:
    a, b = Timed("a", 1), Timed("b", 1)
    run(hedge(a, b, delay=2), calling(HandClock(auto=True)))
    assert (a.calls, b.calls) == (1, 0)
    a = Timed("a", 5)
    assert run(hedge(a, delay=2), calling(HandClock(auto=True))) == "a at run/alt-1"
    assert (a.calls, a.cancelled) == (2, 1)


def test_when_all_fail_the_last_error_tells_of_the_others() -> None:
    last = ModelError("slow and wrong")
    with pytest.raises(ModelError) as raised:
        run(hedge(Timed("a", 9, last), Timed("b", 1, ValueError("no")), delay=2), calling(HandClock(auto=True)))
    assert raised.value is last
    assert last.__notes__ == ["b had failed before: ValueError: no"]


@pytest.mark.parametrize("delays", pairs([0, 1, 2, 5], [0, 1, 2, 5], [0, 1, 2, 5]))
def test_for_any_times_the_earliest_wins_and_nothing_is_left(delays: tuple[int, ...]) -> None:
    clock = HandClock(auto=True)
    services = [Timed(name, seconds) for name, seconds in zip("abc", delays, strict=True)]
    answer = run(hedge(*services, delay=1.5), calling(clock))
    finish = [number * 1.5 + seconds for number, seconds in enumerate(delays)]
    assert clock.monotonic() == min(finish)
    assert answer[0] in {"abc"[number] for number, when in enumerate(finish) if when == min(finish)}
    assert sum(each.calls for each in services) == 1 + sum(each.cancelled for each in services) + sum(
        when == min(finish) and each.calls and not each.cancelled and answer[0] != each.facts[NAME]
        for each, when in zip(services, finish, strict=True)
    )


def test_the_loser_is_dropped_for_listeners() -> None:
    heard: list[Event] = []
    ctx = calling(HandClock(auto=True)).heard_by(heard.append)
    run(hedge(Timed("a", 1, ModelError("down")), Timed("b", 9), Timed("c", 1), delay=2), ctx)
    assert heard == [Dropped("run/alt-1", "ModelError: down"), Dropped("run/alt-2", "another answered first")]


def test_what_losers_cost_is_counted_where_it_is_known() -> None:
    class Cost(Struct, frozen=True):
        of: str

    class Answer:
        usage = Cost("late")

    async def stubborn(request: str, ctx: Context) -> Answer:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Answer()

    async def told(request: str, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            vars(error)["usage"] = Cost("cut off")
            raise

    broken = ModelError("down")
    broken.usage = Cost("failed")
    services = stubborn, told, Timed("c", 1, broken), Timed("d", 1)
    charged = Charged(LocalJournal(), "run")
    run(hedge(*services, delay=1), calling(HandClock(auto=True)).charging(charged))
    assert {*charged.spent} == {Cost("cut off"), Cost("failed"), Cost("late")}


async def test_cancelling_ends_all_of_them_also_twice() -> None:
    clock = HandClock()
    async with assert_no_leaks():
        ending = asyncio.Event()

        async def slow_to_end(request: str, ctx: Context) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await ending.wait()

        b = Timed("b", 9)
        task = asyncio.create_task(hedge(slow_to_end, b, delay=1)("q", calling(clock)))
        await clock.advance(1)
        assert b.calls == 1
        task.cancel()
        await run_until_idle()
        assert not task.done()
        task.cancel()
        await run_until_idle()
        ending.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert b.cancelled == 1


async def test_a_suspension_passes_and_ends_the_others() -> None:
    a, b = Timed("a", 9), Timed("b", 1, Suspend(()))
    async with assert_no_leaks():
        with pytest.raises(Suspend):
            await hedge(a, b, delay=1)("q", calling(HandClock(auto=True)))
    assert a.cancelled == 1


@pytest.mark.parametrize("outcome", [asyncio.CancelledError(), Suspend(()), ModelError("down")], ids=repr)
@pytest.mark.parametrize("answers_first", [True, False])
async def test_an_answer_counts_whatever_another_one_does_in_the_same_turn(
    outcome: BaseException, answers_first: bool
) -> None:
    both = asyncio.Event()

    async def answering(request: str, ctx: Context) -> str:
        await both.wait()
        return "answer"

    async def failing(request: str, ctx: Context) -> str:
        await both.wait()
        raise outcome

    parts = (answering, failing) if answers_first else (failing, answering)
    clock = HandClock()
    race = asyncio.create_task(hedge(*parts, delay=1)("q", calling(clock)))
    await turns(10)
    await clock.advance(1)
    await turns(10)
    both.set()
    assert await race == "answer"


def test_a_race_that_was_decided_is_not_run_again() -> None:
    journal = LocalJournal()
    ctx = calling(HandClock(auto=True)).within(JOURNAL, journal)
    first = run(hedge(Timed("a", 9), Timed("b", 1), delay=1), ctx)
    a, b = Timed("a", 0), Timed("b", 0)
    later = calling(HandClock()).within(JOURNAL, LocalJournal.load(journal.dump(), "replay"))
    assert run(hedge(a, b, delay=1), later) == first == "b at run/alt-2"
    assert a.calls == b.calls == 0


def test_all_failures_stand_on_replay() -> None:
    journal = LocalJournal()
    down = [ModelError("a"), ModelError("b")]
    service = hedge(Timed("a", 1, down[0]), Timed("b", 1, down[1]), delay=5)
    with pytest.raises(ModelError, match="b"):
        run(service, calling(HandClock(auto=True)).within(JOURNAL, journal))
    a, b = Timed("a", 0), Timed("b", 0)
    later = calling(HandClock()).within(JOURNAL, LocalJournal.load(journal.dump(), "replay"))
    with pytest.raises(ModelError, match="b"):
        run(hedge(a, b, delay=5), later)
    assert a.calls == b.calls == 0


async def test_the_handle_sees_the_loser_abandoned() -> None:
    clock = HandClock()
    service, handle = expect(str, str)
    task = asyncio.create_task(hedge(service, delay=1)("q", calling(clock)))
    _, slow = await handle.next()
    await clock.advance(1)
    _, quick = await handle.next()
    quick.send("here")
    assert await task == "here"
    assert slow.abandoned
    slow.send("too late")


def test_facts_and_repr() -> None:
    async def a(request: str, ctx: Context) -> str:
        return request

    assert repr(hedge(a, delay=0.5)) == "hedge(a, a, delay=0.5)"
    assert name_of(hedge(Timed("x", 1), Timed("y", 1), delay=1)) == "hedge(x, y)"
    assert not fact(hedge(a, delay=1), COMPOSITE)


@pytest.mark.parametrize("effect", ["repeatable", "once"])
def test_what_acts_upon_the_world_is_not_asked_twice(effect: Effect) -> None:
    @tool(effect=effect)
    async def pay() -> str:
        return "paid"

    @tool(effect="none")
    async def look() -> str:
        return "seen"

    for services in ((pay,), (look, pay), (stack(pay, retry()),), (fallback(look, pay),)):
        with pytest.raises(ConfigurationError, match=f"pay.* has effects \\({effect}\\)"):
            hedge(*services, delay=1)
    hedge(look, delay=1)


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "2", None])
def test_a_delay_that_makes_no_sense_is_refused(delay: Any) -> None:
    with pytest.raises(ConfigurationError, match="delay"):
        hedge(Timed("a", 1), delay=delay)

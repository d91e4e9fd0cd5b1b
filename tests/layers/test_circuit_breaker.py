import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.layers.guarded import GONE, Guarded, Thing
from tests.samples import amount
from ziggurat import ConfigurationError, Context, Denied, Event, Timeout, ToolError, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.context import JOURNAL
from ziggurat.errors import CircuitOpen, InvalidArguments, LimitExceeded, ModelError, Suspend
from ziggurat.journal import LocalJournal
from ziggurat.layers import CircuitBreaker
from ziggurat.layers.circuit_breaker import circuit_breaker
from ziggurat.layers.retry import retry, timeout
from ziggurat.testing import HandClock, assert_no_leaks, run_until_idle
from ziggurat.testing.expect import expect


async def test_it_opens_after_failures_in_a_row_and_calls_no_more() -> None:
    it = Guarded(consecutive=3)
    answers = await it.ask(GONE, GONE, "fine", GONE, GONE, GONE, "x", "x")
    names = ["ConnectionError"] * 3
    assert answers == [*names[:2], "fine", *names, "CircuitOpen", "CircuitOpen"]
    assert it.thing.calls == 6
    assert it.heard == [("closed", "open")]


async def test_a_refusal_says_when_to_come_again() -> None:
    it = Guarded(open_seconds=30, name="weather")
    await it.opened()
    await it.clock.advance(10)
    with pytest.raises(CircuitOpen, match="weather") as raised:
        await it.service("x", it.ctx)
    assert isinstance(raised.value, LimitExceeded)
    assert raised.value.transient
    assert raised.value.retry_after == 20
    assert raised.value.kind == "circuit"


async def test_it_closes_after_a_trial_that_ends_well_and_opens_again_after_one_that_fails() -> None:
    it = Guarded(open_seconds=30)
    await it.opened()
    await it.clock.advance(30)
    assert await it.ask(GONE, "x") == ["ConnectionError", "CircuitOpen"]
    await it.clock.advance(29.5)
    assert await it.ask("x") == ["CircuitOpen"]
    await it.clock.advance(0.5)
    assert await it.ask("x", "y") == ["x", "y"]
    changes = ["closed", "open", "half_open", "open", "half_open", "closed"]
    assert it.heard == list(pairwise(changes))


@pytest.mark.parametrize(
    "error",
    [
        ModelError("no such model", kind="invalid_request", status=400),
        ModelError("who are you", kind="authentication", status=401), ToolError("cannot"), Denied("no"),
        InvalidArguments("bad"), LimitExceeded("concurrency", 1, 1, transient=True), ValueError("a bug"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
async def test_mistakes_and_refusals_do_not_count(error: object) -> None:
    it = Guarded(consecutive=1)
    await it.ask(*[error] * 20)
    assert it.thing.calls == 20
    assert it.breaker.state() == "closed"


@pytest.mark.parametrize(
    "error", [GONE, Timeout(seconds=1), ModelError(kind="overloaded"), ToolError("x", kind="transient")]
)
async def test_errors_of_the_service_count(error: Exception) -> None:
    it = Guarded(consecutive=2)
    await it.ask(error, error, "x")
    assert it.thing.calls == 2


async def test_which_errors_count_can_be_said() -> None:
    it = Guarded(consecutive=1, when=lambda error: isinstance(error, KeyError))
    assert await it.ask(GONE, KeyError("x"), "x") == ["ConnectionError", "KeyError", "CircuitOpen"]


async def test_failures_in_a_row_count_and_a_success_begins_anew() -> None:
    it = Guarded(consecutive=2)
    await it.ask(GONE, ValueError(), GONE)
    assert it.breaker.state() == "open"
    it = Guarded(consecutive=2)
    await it.ask(*[GONE, "fine"] * 10)
    assert it.breaker.state() == "closed"


@pytest.mark.parametrize("permits", [1, 3, 10])
async def test_exactly_so_many_pass_on_trial(permits: int) -> None:
    it = Guarded(permits=permits)
    async with assert_no_leaks():
        await it.opened()
        await it.clock.advance(30)
        before = it.thing.calls
        answers = await asyncio.gather(*[it.ask(1.0) for _ in range(100)])
        assert answers.count([1.0]) == permits
        assert answers.count(["CircuitOpen"]) == 100 - permits
        assert it.thing.calls == before + permits
        assert it.breaker.state() == "closed"


@pytest.mark.parametrize("ending", ["cancelled", "timed out outside", Suspend(()), ValueError("says nothing")])
async def test_a_trial_that_says_nothing_gives_its_permit_back(ending: Exception | Suspend | str) -> None:
    it = Guarded(permits=2)
    hanging, handle = expect(object, object)
    service = stack(hanging, circuit_breaker(breaker=it.breaker))
    async with assert_no_leaks():
        await it.opened()
        await it.clock.advance(30)
        for _ in range(amount(20, 1_000) if ending == "cancelled" else 5):
            if ending == "timed out outside":
                task = asyncio.create_task(stack(service, timeout(seconds=5))("q", it.ctx))
            else:
                task = asyncio.create_task(service("q", it.ctx))
            _, reply = await handle.next()
            if ending == "cancelled":
                task.cancel()
            elif isinstance(ending, BaseException):
                reply.fail(ending)
            with pytest.raises((asyncio.CancelledError, Timeout, Suspend, ValueError)):
                await task
        assert it.breaker.state() == "half_open"
        answers = await asyncio.gather(*[it.ask(1.0) for _ in range(10)])
        assert answers.count([1.0]) == 2


async def test_what_began_before_a_change_counts_for_nothing_after_it() -> None:
    it = Guarded(consecutive=1, permits=1)
    it.clock = it.thing.clock = HandClock()
    it.ctx = it.ctx.within(CLOCK, it.clock)
    early = asyncio.create_task(it.ask(100.0))
    late = asyncio.create_task(it.ask(100.0))
    await run_until_idle(3)
    await it.ask(GONE)
    await it.clock.advance(30)
    trial, handle = expect(object, object)
    probing = asyncio.create_task(stack(trial, circuit_breaker(breaker=it.breaker))("q", it.ctx))
    _, reply = await handle.next()
    await it.clock.advance(70)  # the early calls end well while one is on trial
    assert await early == await late == [100.0]
    assert it.breaker.state() == "half_open"
    reply.fail(GONE)
    with pytest.raises(ConnectionError):
        await probing
    assert it.breaker.state() == "open"


async def test_a_time_window_forgets() -> None:
    it = Guarded(failure_rate=0.5, window_seconds=10, minimum_calls=4)
    await it.ask(GONE, GONE, GONE)
    await it.clock.advance(10)
    await it.ask("a", GONE, "a")
    assert it.breaker.state() == "closed"
    await it.ask(GONE)
    assert it.breaker.state() == "open"


async def test_forced_states_stand_until_another_order() -> None:
    it = Guarded(consecutive=1, open_seconds=1)
    it.breaker.force_open()
    await it.clock.advance(1_000)
    assert await it.ask("x") == ["CircuitOpen"]
    it.breaker.force_closed()
    await it.ask(*[GONE] * 50)
    assert await it.ask("x") == ["x"]
    it.breaker.reset()
    assert await it.ask(GONE, "x") == ["ConnectionError", "CircuitOpen"]
    it.breaker.reset()
    assert await it.ask("x") == ["x"]
    assert it.thing.calls == 53


async def test_under_a_full_outage_hardly_anything_gets_through() -> None:
    """Retries stop at an open breaker, too, and try again after its `retry_after`."""
    it = Guarded(consecutive=5, open_seconds=30)
    service = stack(it.thing, retry(attempts=4), circuit_breaker(breaker=it.breaker))
    ctx = root().within(CLOCK, it.clock)
    ends = await asyncio.gather(*[service(GONE, ctx) for _ in range(100)], return_exceptions=True)
    assert {type(end) for end in ends} <= {ConnectionError, CircuitOpen}
    assert it.thing.calls <= 10  # of 400 tries: 5 until it opened, then one on trial each 30 seconds
    assert await service("back", ctx) == "back"


async def test_in_a_replay_it_lets_everything_pass() -> None:
    it = Guarded()
    it.breaker.force_open()
    ctx = it.ctx.within(JOURNAL, LocalJournal("replay"))
    assert await it.service("x", ctx) == "x"


async def test_a_refusal_beneath_a_record_stands_on_replay() -> None:
    journal = LocalJournal()
    it = Guarded()

    async def ask(journal: LocalJournal) -> object:
        return await root("trip/model").within(JOURNAL, journal).once("m", "q", it.service, returns=str)

    it.breaker.force_open()
    with pytest.raises(CircuitOpen):
        await ask(journal)
    it.breaker.reset()
    with pytest.raises(CircuitOpen) as raised:
        await ask(LocalJournal.load(journal.dump(), "replay"))
    assert raised.value.transient
    assert it.thing.calls == 0


async def test_listeners_that_are_told_of_a_trial_cannot_keep_its_permit() -> None:
    it = Guarded(permits=1)
    await it.opened()
    await it.clock.advance(30)

    async def stuck(event: Event) -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(it.service("x", root().within(CLOCK, it.clock).heard_by(stuck)))
    await run_until_idle(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await it.ask("x") == ["x"]


def test_its_settings_show_and_the_layer_takes_a_breaker() -> None:
    breaker = CircuitBreaker(failure_rate=0.5, window_seconds=30, permits=3, name="weather")
    shown = repr(stack(Thing(HandClock()), circuit_breaker(breaker=breaker)))
    assert all(part in shown for part in ("'weather'", "failure_rate=0.5", "window_seconds=30", "permits=3"))
    wrong: Any = 5
    with pytest.raises(ConfigurationError, match="made once and passed"):
        circuit_breaker(breaker=wrong)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"consecutive": 0}, "consecutive"), ({"consecutive": 1.5}, "consecutive"),
        ({"failure_rate": 0}, "failure_rate"),
        ({"open_seconds": 0}, "open_seconds"),
        ({"permits": 0}, "permits"), ({"window_seconds": 0}, "window_seconds"), ({"when": "all"}, "when"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        CircuitBreaker(**settings)


OUTCOMES = st.lists(st.tuples(st.sampled_from("sfx"), st.integers(0, 8)), max_size=120)


@given(OUTCOMES, st.integers(1, 5), st.integers(1, 3))
def test_it_goes_as_a_breaker_should(steps: list[tuple[str, int]], consecutive: int, permits: int) -> None:
    """Compared with a short reference model, with calls in sequence: s succeeds, f fails, x does not count."""
    it = Guarded(consecutive=consecutive, permits=permits, open_seconds=10)
    state, row, well, until, now = "closed", 0, 0, 0, 0

    async def main() -> None:
        nonlocal state, row, well, until, now
        for kind, wait in steps:
            await it.clock.advance(wait)
            now += wait
            (answer,) = await it.ask({"s": "s", "f": GONE, "x": ValueError()}[kind])
            if state == "open" and now >= until:
                state, well = "half_open", 0
            if state == "open":
                assert answer == "CircuitOpen"
                continue
            assert answer != "CircuitOpen"
            if kind == "f":
                row += 1
            elif kind == "s":
                row, well = 0, well + 1
            if kind == "f" and (state == "half_open" or row >= consecutive):
                state, until, row = "open", now + 10, 0
            elif state == "half_open" and kind == "s" and well >= permits:
                state, row = "closed", 0
            assert it.breaker.state() == state

    asyncio.run(main())


async def test_contexts_are_passed_on() -> None:
    async def service(request: str, ctx: Context) -> str:
        return ctx.path

    guarded = stack(service, circuit_breaker(breaker=CircuitBreaker()))
    assert await guarded("q", root("here")) == "here"

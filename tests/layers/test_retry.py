import asyncio
import itertools
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from ziggurat import Agent, ConfigurationError, Context, Event, Service, Timeout, layer, stack
from ziggurat.agents import Environment
from ziggurat.core import CLOCK, root
from ziggurat.core.context import RANDOM
from ziggurat.errors import ServiceError, Suspend, is_transient
from ziggurat.events import Dropped, Retrying
from ziggurat.journal import LocalJournal
from ziggurat.journal.journal import Charged
from ziggurat.layers import RetryBudget
from ziggurat.layers.retry import retry, timeout
from ziggurat.testing import HandClock, ScriptedModel, fail_on
from ziggurat.testing.expect import expect


class Spent(Struct, frozen=True):
    """A usage, of which layers know nothing."""

    tokens: int


class Piece(Event, frozen=True):
    delta: str


async def echo(request: str, ctx: Context) -> str:
    return request


def calling(clock: HandClock, draw: float = 0.5) -> Context:
    return root().within(CLOCK, clock).within(RANDOM, lambda: draw)


def failing(*errors: BaseException) -> tuple[Service[str, int], list[Context]]:
    """A service that raises these in turn, then answers with the number of tries; it stores its contexts."""
    seen: list[Context] = []

    async def service(request: str, ctx: Context) -> int:
        seen.append(ctx)
        if len(seen) <= len(errors):
            raise errors[len(seen) - 1]
        return len(seen)

    return service, seen


async def test_the_first_answer_is_the_answer() -> None:
    service, seen = failing()
    ctx = calling(HandClock(auto=True))
    assert await stack(service, retry())("q", ctx) == 1
    assert seen == [ctx]


@given(failures=st.integers(0, 6), attempts=st.integers(1, 6))
def test_attempts_count_all_tries(failures: int, attempts: int) -> None:
    errors = [ConnectionError(str(number)) for number in range(failures)]
    service, seen = failing(*errors)
    call = stack(service, retry(attempts=attempts))("q", calling(HandClock(auto=True)))
    if failures < attempts:
        assert asyncio.run(call) == failures + 1
    else:
        with pytest.raises(ConnectionError) as raised:
            asyncio.run(call)
        assert raised.value is errors[attempts - 1]
    assert len(seen) == min(failures + 1, attempts)


async def test_tries_share_a_path_and_number_anew() -> None:
    paths: list[str] = []

    async def service(request: str, ctx: Context) -> str:
        paths.append(ctx.under("part").path)
        if len(paths) < 3:
            raise ConnectionError
        return "done"

    await stack(service, retry())("q", calling(HandClock(auto=True)))
    assert paths == ["run/part"] * 3


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (ValueError("wrong"), 1), (ServiceError("no"), 1), (ServiceError("later", transient=True), 3),
        (Timeout(seconds=1), 3), (ConnectionResetError(), 3), (TimeoutError(), 3),
    ],
)  # fmt: skip
async def test_only_what_may_pass_is_tried_again(error: Exception | Timeout, tries: int) -> None:
    service, seen = failing(*[error] * 5)
    with pytest.raises(type(error)) as raised:
        await stack(service, retry())("q", calling(HandClock(auto=True)))
    assert raised.value is error
    assert len(seen) == tries


@pytest.mark.parametrize("signal", [asyncio.CancelledError(), Suspend(()), KeyboardInterrupt()])
async def test_signals_pass(signal: BaseException) -> None:
    service, seen = failing(signal)
    with pytest.raises(type(signal)):
        await stack(service, retry(when=lambda error: True))("q", calling(HandClock(auto=True)))
    assert len(seen) == 1


async def test_waits_double_up_to_the_cap() -> None:
    clock = HandClock(auto=True)
    times: list[float] = []

    async def service(request: str, ctx: Context) -> None:
        times.append(clock.monotonic())
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await stack(service, retry(attempts=7, base=1, cap=8, jitter="none"))("q", calling(clock))
    assert [after - before for before, after in itertools.pairwise(times)] == [1, 2, 4, 8, 8, 8]


async def test_the_wait_of_a_late_try_does_not_overflow() -> None:
    service, seen = failing(*[ConnectionError()] * 1_100)
    with pytest.raises(ConnectionError):
        await stack(service, retry(attempts=1_100, cap=1))("q", calling(HandClock(auto=True)))
    assert len(seen) == 1_100


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        (None, 0.25), (7, 7), (7.5, 7.5), (0.1, 0.25), (-5, 0.25), (float("nan"), 0.25), ("soon", 0.25), (60, 60),
        (61, None), (float("inf"), None), (10**400, None),
    ],
)  # fmt: skip
def test_what_the_other_side_asks_for_is_obeyed_within_reason(asked: Any, waited: float | None) -> None:
    clock = HandClock(auto=True)
    error = ServiceError("busy", transient=True)
    error.retry_after = asked
    service, _seen = failing(error)
    call = stack(service, retry())("q", calling(clock))
    if waited is None:
        with pytest.raises(ServiceError):
            asyncio.run(call)
        assert clock.monotonic() == 0
    else:
        asyncio.run(call)
        assert clock.monotonic() == waited


async def test_no_wait_passes_the_deadline() -> None:
    clock = HandClock(auto=True)
    error = ServiceError("busy", transient=True, retry_after=10)
    service, seen = failing(error, error, error)
    with pytest.raises(ServiceError, match="busy"):
        async with calling(clock).limit(15) as ctx:
            await stack(service, retry(attempts=5))("q", ctx)
    assert len(seen) == 2
    assert clock.monotonic() == 10


async def test_a_timeout_inside_bounds_each_try() -> None:
    clock = HandClock()
    service, handle = expect(str, str)
    task = asyncio.create_task(stack(service, retry(), timeout(seconds=5))("q", calling(clock)))
    for _ in range(2):
        await handle.next()
        await clock.advance(7)
    _, reply = await handle.next()
    reply.send("third")
    assert await task == "third"


async def test_a_cancelled_wait_ends_the_call() -> None:
    clock = HandClock()
    service, seen = failing(ConnectionError())
    task = asyncio.create_task(stack(service, retry())("q", calling(clock)))
    await clock.advance(0)
    assert clock.waiting == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(seen) == 1
    assert clock.waiting == 0


async def test_listeners_hear_of_each_try() -> None:
    heard: list[Event] = []
    service, _ = failing(ConnectionError("a"), ConnectionError("b"))
    ctx = calling(HandClock(auto=True)).heard_by(heard.append)
    await stack(service, retry(base=2))("q", ctx)
    assert heard == [
        Dropped("run", "ConnectionError: a"),
        Retrying("run", 1, "ConnectionError: a", 1.0),
        Dropped("run", "ConnectionError: b"),
        Retrying("run", 2, "ConnectionError: b", 2.0),
    ]


@pytest.mark.parametrize(("after_delta", "shows", "tries"), [(True, True, 2), (False, True, 1), (False, False, 2)])
def test_after_delta(after_delta: bool, shows: bool, tries: int) -> None:
    heard: list[Event] = []
    calls = 0

    async def service(request: str, ctx: Context) -> str:
        nonlocal calls
        calls += 1
        if shows:
            await ctx.emit(Piece(ctx.path, "x"))
        if calls == 1:
            raise ConnectionError
        return "done"

    call = stack(service, retry(after_delta=after_delta))
    ctx = calling(HandClock(auto=True)).heard_by(heard.append)
    if tries == 1:
        with pytest.raises(ConnectionError):
            asyncio.run(call("q", ctx))
    else:
        assert asyncio.run(call("q", ctx)) == "done"
    assert calls == tries
    assert sum(isinstance(event, Piece) for event in heard) == (tries if shows else 0)


async def test_failed_tries_are_charged_beneath_a_record() -> None:
    error = ServiceError("half", transient=True)
    error.usage = Spent(12)
    last = ServiceError("whole", transient=True)
    last.usage = "charged by who records it"
    service, _ = failing(error, last)
    charged = Charged(LocalJournal(), "run")
    ctx = root().within(CLOCK, HandClock(auto=True)).charging(charged)
    with pytest.raises(ServiceError):
        await stack(service, retry(attempts=2))("q", ctx)
    assert charged.spent == [Spent(12)]


async def test_a_thousand_clients_do_not_return_together() -> None:
    """At most twice the mean in any tenth of a second of the window they spread over."""
    clock = HandClock(auto=True)
    random = Random(7)
    arrivals: list[float] = []

    async def client() -> None:
        tried = False

        async def service(request: str, ctx: Context) -> None:
            nonlocal tried
            if not tried:
                tried = True
                raise ConnectionError
            arrivals.append(clock.monotonic())

        await stack(service, retry(base=2.0))("q", root().within(CLOCK, clock).within(RANDOM, random.random))

    await asyncio.gather(*[client() for _ in range(1_000)])
    per_bin = Counter(int(when * 10) for when in arrivals)
    assert len(arrivals) == 1_000
    assert max(per_bin) < 20
    assert max(per_bin.values()) <= 2 * 1_000 / 20


@pytest.mark.parametrize(("minimum", "bound"), [(0, 1.2), (10, 1.3)])
async def test_a_budget_bounds_the_load_when_everything_fails(minimum: int, bound: float) -> None:
    clock = HandClock()
    budget = RetryBudget(minimum_per_second=minimum)
    tries = 0

    async def service(request: str, ctx: Context) -> None:
        nonlocal tries
        tries += 1
        raise ConnectionError

    call = stack(service, retry(attempts=3, base=0, budget=budget))
    for _ in range(20):
        for _ in range(100):
            with pytest.raises(ConnectionError):
                await call("q", calling(clock))
        await clock.advance(0.5)
    assert 2_000 < tries <= 2_000 * bound


def test_a_budget_forgets() -> None:
    budget = RetryBudget(ratio=0.5, minimum_per_second=0.1, seconds=10)
    assert budget.balance(0) == 1
    for _ in range(4):
        budget.deposit(0)
    assert [budget.withdraw(0) for _ in range(4)] == [True, True, True, False]
    assert budget.balance(9) == 0
    assert budget.balance(10.5) == 1


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 3)), max_size=60), st.floats(0, 1), st.integers(0, 3))
def test_a_budget_keeps_its_promise_in_every_window(
    steps: list[tuple[bool, float]], ratio: float, minimum: int
) -> None:
    budget = RetryBudget(ratio=ratio, minimum_per_second=minimum, seconds=2)
    now, calls, retries = 0.0, list[float](), list[float]()
    for is_call, wait in steps:
        now += wait
        if is_call:
            budget.deposit(now)
            calls.append(now)
        elif budget.withdraw(now):
            retries.append(now)
            held = sum(each > now - 2 for each in calls)
            used = sum(each > now - 1.8 for each in retries)
            assert used <= ratio * held + 2 * minimum + 1e-6


@pytest.mark.parametrize(
    "settings",
    [
        {"attempts": 0}, {"attempts": 1.5}, {"attempts": True}, {"base": -1}, {"base": float("nan")},
        {"cap": float("inf")}, {"cap": "30"}, {"jitter": "some"}, {"budget": 0.2}, {"when": ConnectionError()},
        {"after_delta": "no"}, {"max_retry_after": -1}, {"tries": 3},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_where_they_are_made(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        retry(**settings)


@pytest.mark.parametrize("settings", [{"ratio": -1}, {"seconds": 0}, {"minimum_per_second": float("inf")}])
def test_budgets_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        RetryBudget(**settings)


def test_a_stack_shows_what_was_set() -> None:
    layered = stack(echo, retry(attempts=3, budget=RetryBudget()), timeout(seconds=30))
    assert repr(layered).startswith("retry(attempts=3, budget=RetryBudget(ratio=0.2, ")
    assert repr(layered).endswith(" > timeout(seconds=30) > echo")
    assert repr(retry()) == "retry()"


async def test_every_call_may_fail_in_turn() -> None:
    for k in range(1, 4):
        service = fail_on(echo, k)
        assert await three_calls(service) == ["a", "b", "c"]
        assert service.calls == 4


async def three_calls(service: Service[str, str]) -> list[str]:
    ctx = calling(HandClock(auto=True))
    return [await stack(service, retry())(text, ctx) for text in "abc"]


async def test_a_layer_within_may_alter_the_next_try() -> None:
    @layer
    async def louder(request: str, ctx: Context, inner: Service[str, int]) -> int:
        return await inner(request + "!" * ctx.tries, ctx)

    asked: list[str] = []

    async def deaf(request: str, ctx: Context) -> int:
        asked.append(request)
        if len(asked) < 3:
            raise ConnectionError
        return len(asked)

    assert await stack(deaf, retry(), louder())("hey", calling(HandClock(auto=True))) == 3
    assert asked == ["hey", "hey!", "hey!!"]


@pytest.mark.parametrize(
    ("settings", "deadline", "tries"),
    [
        ({"attempts": 3}, None, 3),
        ({"attempts": 9}, 10, 4),
        ({"attempts": 3}, 100, 3),
        ({"attempts": 9, "budget": RetryBudget(ratio=0, minimum_per_second=0.2)}, None, 3),
        ({"attempts": 9, "when": lambda error: is_transient(error) and str(error) != "2"}, None, 2),
        ({"attempts": 9, "when": lambda error: isinstance(error, ValueError) or is_transient(error)}, 1, 1),
    ],
)
async def test_whatever_says_stop_first_stops(settings: dict[str, Any], deadline: int | None, tries: int) -> None:
    """Waits are 1, 2, 4, 8: after four tries 7 s are over and the next wait would pass 10."""
    clock = HandClock(auto=True)
    seen: list[float] = []

    async def service(request: str, ctx: Context) -> None:
        seen.append(clock.monotonic())
        raise ConnectionError(str(len(seen)))

    retried = stack(service, retry(base=1, jitter="none", **settings))
    limited = retried if deadline is None else stack(retried, timeout(seconds=deadline))
    with pytest.raises(ConnectionError, match=str(tries)):
        await limited("q", calling(clock))
    assert len(seen) == tries


async def test_a_clock_that_jumps_takes_the_waits_out_of_a_whole_run() -> None:
    """A test needs only one line, the clock of the run; nothing global is changed."""
    model = ScriptedModel(*[ConnectionError("down")] * 4, "up")
    agent = Agent(stack(model, retry(attempts=5, base=3_600, cap=3_600, jitter="none")))
    clock = HandClock(auto=True)
    assert (await agent.run("?", environment=Environment(clock=clock))).text == "up"
    assert clock.monotonic() == 4 * 3_600

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError, Context, Event, Key, Timeout
from ziggurat.core import CLOCK, root
from ziggurat.core.context import JOURNAL, RUN_ID, Charges
from ziggurat.events import Dropped
from ziggurat.journal import LocalJournal

from .hand import HandClock, run, settle

COUNT = Key[int]("count")


def test_a_path_is_made_of_escaped_names_and_may_be_deep() -> None:
    ctx = root("trip").under("step-2").at("tool-1:search").at("model")
    assert ctx.path == "trip/step-2/tool-1:search/model"
    assert root("a/b").under("c/d").path == "a%2Fb/c%2Fd"
    ctx = root()
    for _ in range(5000):
        ctx = ctx.under("x")
    assert ctx.path.count("/") == 5000


def test_a_name_used_again_is_numbered() -> None:
    ctx = root()
    assert [ctx.under("x").path for _ in range(3)] == ["run/x", "run/x#2", "run/x#3"]
    assert ctx.under("y").path == "run/y"


@given(st.lists(st.sampled_from(["x", "x#2", "y", "a/b", "a%2Fb", "", "unnamed/"]), max_size=12))
def test_no_two_children_share_a_path(names: list[str]) -> None:
    ctx = root()
    paths = [ctx.under(name).path for name in names]
    assert len(set(paths)) == len(paths)
    again = ctx.again()
    assert [again.under(name).path for name in names] == paths


def test_numbering_goes_on_in_copies_for_the_same_entry() -> None:
    ctx = root()
    ctx.under("x")
    copies = [ctx.within(COUNT, 1), ctx.heard_by(lambda _: None), ctx.emitting(ctx.emit)]
    assert [copy.under("x").path for copy in copies] == ["run/x#2", "run/x#3", "run/x#4"]
    assert ctx.under("x").path == "run/x#5"
    assert [copies[0].under("y").path, ctx.under("y").path] == ["run/y", "run/y#2"]


def test_another_try_has_the_same_path_and_counts_anew() -> None:
    ctx = root().under("call")
    ctx.under("x")
    again = ctx.again()
    assert again.path == ctx.path
    assert again.under("x").path == "run/call/x"


async def test_a_dropped_try_is_charged_asked_for_and_told_before_the_next() -> None:
    done: list[object] = []

    class Noted(Charges):
        def lose(self, cost: object, /) -> None:
            done.append(cost)

        def admit(self) -> None:
            done.append("admitted")

    error = ValueError("no")
    call = root().heard_by(done.append).under("call")
    for ctx, expected in ((call, []), (call.charging(Noted()), [error, "admitted"])):
        done.clear()
        after = await ctx.drop(error)
        assert done == [*expected, Dropped(call.path, "ValueError: no")]
        assert (after.path, after.tries, after.charges) == (ctx.path, 1, ctx.charges)


async def test_numbers_follow_the_order_of_asking_not_of_running() -> None:
    ctx = root()
    seen: list[str] = []

    async def work(child: Context, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        seen.append(child.path)

    await asyncio.gather(*(work(ctx.under("x"), turns) for turns in (3, 2, 1)))
    assert seen == ["run/x#3", "run/x#2", "run/x"]


def test_a_context_is_frozen() -> None:
    with pytest.raises(AttributeError):
        root().path = "other"  # type: ignore[misc]


def test_the_scope_reaches_all_beneath_and_none_beside() -> None:
    ctx = root()
    inside = ctx.within(COUNT, 1)
    assert inside.under("a").at("b").again().scope[COUNT] == 1
    assert ctx.under("a").scope.get(COUNT) is None


def test_state_lives_for_one_call_and_owner() -> None:
    ctx, one, other = root(), object(), object()
    state: list[object] = ctx.state(one, list)
    assert ctx.state(one, list) is state
    assert ctx.within(COUNT, 1).state(one, list) is state
    assert ctx.state(other, list) is not state
    assert ctx.under("x").state(one, list) is not state
    assert ctx.again().state(one, list) is not state
    ctx = root()
    for _ in range(50):
        assert ctx.state(type("Owner", (), {})(), list[int]) == []
        ctx.state(type("Owner", (), {})(), list[int]).append(1)


def test_the_run_is_known_by_its_id_and_each_call_by_its_key() -> None:
    ctx = root().within(RUN_ID, "r-17").under("pay")
    assert ctx.run_id == "r-17"
    assert ctx.idempotency_key == "r-17:run/pay"
    assert ctx.again().idempotency_key == ctx.idempotency_key
    with pytest.raises(ConfigurationError, match="not given 'run id'"):
        _ = root().run_id
    assert root().idempotency_key == ":run"


def test_events_go_up_from_any_depth() -> None:
    heard: list[Event] = []
    ctx = root().heard_by(heard.append).under("a").at("b").again().within(COUNT, 1)
    event = Dropped(ctx.path, "why")
    run(ctx.emit(event))
    assert heard == [event]
    assert ctx.listens(Dropped)


def test_charges_count_beneath_once_only() -> None:
    journal = LocalJournal()
    ctx = root().within(JOURNAL, journal)

    async def call(request: int, ctx: Context) -> int:
        ctx.charge("first try")
        ctx.charge(None)
        ctx.again().charge("second try")
        ctx.under("deep").at("deeper").charge("third try")
        return request

    ctx.charge("nowhere")
    run(ctx.at("model").once("m", 1, call, returns=int))
    ctx.charge("nowhere")
    record = journal.find("run/model")
    assert record is not None
    assert record.result is not None
    assert record.result.spent == ("first try", "second try", "third try")


@pytest.fixture
def clock() -> Iterator[HandClock]:
    clock = HandClock()
    yield clock
    assert clock.set_timers() == 0


@pytest.fixture
def ctx(clock: HandClock) -> Context:
    return root().within(CLOCK, clock)


async def waiting(ctx: Context, seconds: float, work: float) -> str:
    async with ctx.limit(seconds) as ctx:
        await ctx.clock.sleep(work)
        return "in time"


async def test_work_within_the_limit(clock: HandClock, ctx: Context) -> None:
    task = asyncio.create_task(waiting(ctx, 5, 4.5))
    await clock.advance(4.5)
    assert await task == "in time"


async def test_work_over_the_limit_is_cancelled_and_named(clock: HandClock, ctx: Context) -> None:
    task = asyncio.create_task(waiting(ctx.under("model"), 5, 6))
    await clock.advance(4.9)
    assert not task.done()
    await clock.advance(0.1)
    with pytest.raises(Timeout, match="run/model") as caught:
        await task
    assert caught.value.seconds == 5
    assert caught.value.transient
    assert task.cancelling() == 0
    clock.timers.clear()


@pytest.mark.parametrize(("outer", "inner", "blamed"), [(3, 5, 3), (5, 3, 3), (4, 4, 4)])
async def test_of_nested_limits_the_right_one_is_blamed(
    outer: float, inner: float, blamed: float, clock: HandClock, ctx: Context
) -> None:
    async def nested(ctx: Context) -> str:
        async with ctx.limit(outer) as ctx:
            return await waiting(ctx.under("inner"), inner, 100)

    path = "run/inner" if inner < outer else "run"
    task = asyncio.create_task(nested(ctx))
    await clock.advance(10)
    with pytest.raises(Timeout) as caught:
        await task
    clock.timers.clear()
    assert caught.value.seconds == blamed
    assert str(caught.value) == f"{path} timed out after {blamed:g} s"


async def test_an_inner_timeout_may_be_caught_and_work_goes_on_within_the_outer_limit(
    clock: HandClock, ctx: Context
) -> None:
    async def nested(ctx: Context) -> str:
        async with ctx.limit(10) as ctx:
            try:
                return await waiting(ctx, 3, 100)
            except Timeout:
                await ctx.clock.sleep(2)
                return "second best"

    task = asyncio.create_task(nested(ctx))
    await clock.advance(6)
    result = await task
    clock.timers.clear()
    assert result == "second best"


async def test_the_outer_limit_passes_while_the_inner_cleans_up(clock: HandClock, ctx: Context) -> None:
    async def inner(ctx: Context) -> None:
        async with ctx.limit(2) as ctx:
            try:
                await ctx.clock.sleep(100)
            finally:
                await ctx.clock.sleep(100)

    async def nested(ctx: Context) -> None:
        async with ctx.limit(4) as ctx:
            await inner(ctx.under("inner"))

    task = asyncio.create_task(nested(ctx))
    await clock.advance(10)
    with pytest.raises(Timeout) as caught:
        await task
    clock.timers.clear()
    assert caught.value.seconds == 4


async def test_being_cancelled_is_not_a_timeout(clock: HandClock, ctx: Context) -> None:
    task = asyncio.create_task(waiting(ctx, 5, 100))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    clock.timers = [timer for timer in clock.timers if timer.when != 1100]


async def test_being_cancelled_in_the_moment_the_limit_passes_is_cancellation(clock: HandClock, ctx: Context) -> None:
    task = asyncio.create_task(waiting(ctx, 5, 100))
    await settle()
    clock.at += 5
    limit = next(timer for timer in clock.timers if timer.when == 1005)
    limit.callback()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    clock.timers.clear()


async def test_an_error_of_the_work_is_itself(ctx: Context) -> None:
    async def broken(ctx: Context) -> None:
        async with ctx.limit(5):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await broken(ctx)


async def test_work_that_swallows_its_cancellation_is_not_blamed_when_it_ends(clock: HandClock, ctx: Context) -> None:
    async def stubborn(ctx: Context) -> str:
        async with ctx.limit(1) as ctx:
            try:
                await ctx.clock.sleep(100)
            except asyncio.CancelledError:
                return "late but there"
        return "never"

    task = asyncio.create_task(stubborn(ctx))
    await clock.advance(2)
    assert await task == "late but there"
    assert task.cancelling() == 0
    clock.timers.clear()


async def test_children_never_have_a_later_deadline(clock: HandClock, ctx: Context) -> None:
    assert ctx.remaining() is None
    async with ctx.limit(10) as outer:
        assert outer.under("x").at("y").again().remaining() == 10
        async with outer.limit(99) as inner:
            assert inner.remaining() == 10
            clock.at += 4
            assert inner.under("x").remaining() == 6
        async with outer.limit(2) as inner:
            assert inner.remaining() == 2
    assert ctx.remaining() is None


async def test_the_systems_clock_limits_too() -> None:
    with pytest.raises(Timeout, match="timed out after 0 s"):
        async with root().limit(0):
            await asyncio.Event().wait()


async def test_outside_of_a_run_a_call_is_only_made() -> None:
    async def call(request: int, ctx: Context) -> int:
        return request

    assert await root().once("n", 1, call, returns=int) == 1


def test_what_a_call_is_held_to_goes_beneath_and_ends_where_an_agent_is_entered() -> None:
    ctx = root()
    held = ctx.freezing("this")
    assert (ctx.frozen, held.frozen, held.path) == (None, "this", ctx.path)
    assert [each.frozen for each in (held.under("x"), held.at("y"), held.again())] == ["this"] * 3
    assert held.within(Key("k"), 1).frozen == "this"
    assert held.entered(held.scope).frozen is None
    owner = object()
    assert ctx.state(owner, list) is held.state(owner, list), "it is the same call still"

import asyncio
from typing import Any, TypeVar

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError, Context, Denied, Event, ModelResponse, Service, Timeout, Usage, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.context import RUN_ID
from ziggurat.errors import ModelError, Suspend
from ziggurat.events import Joined
from ziggurat.layers import DedupeStore
from ziggurat.layers.cache import dedupe
from ziggurat.layers.retry import timeout
from ziggurat.messages import assistant
from ziggurat.testing import HandClock, assert_no_leaks, run_until_idle
from ziggurat.testing.expect import Responder, expect

R = TypeVar("R")


def beginning(service: Service[str, R], *requests: str, ctx: Context | None = None) -> list[asyncio.Task[R]]:
    return [asyncio.create_task(service(request, ctx or root())) for request in requests]


async def test_new_and_in_progress() -> None:
    heard: list[Event] = []
    clock = HandClock()
    ctx = root().within(CLOCK, clock).heard_by(heard.append)
    async with assert_no_leaks():
        service, handle = expect(str, str)
        store = DedupeStore(seconds=10)
        once = stack(service, dedupe(store=store, key=str))
        tasks = beginning(once, "q", "q", "other", "q", ctx=ctx)
        (asked, reply), (also, second) = await handle.next(), await handle.next()
        assert (asked, also) == ("q", "other")
        assert handle.none_waiting()
        assert store.in_progress == 2
        reply.send("answer")
        second.send("another")
        assert await asyncio.gather(*tasks) == ["answer", "answer", "another", "answer"]
        assert store.in_progress == 0
        [task] = beginning(once, "q", ctx=ctx)
        (_, reply) = await handle.next()
        reply.send("anew")
        assert await task == "anew"
    assert heard == [Joined("run", "q"), Joined("run", "q")]


async def test_a_joiner_that_is_cancelled_leaves_the_call_to_the_others() -> None:
    async with assert_no_leaks():
        service, handle = expect(str, str)
        leader, joiner, other = beginning(stack(service, dedupe(store=DedupeStore())), *"qqq")
        _, reply = await handle.next()
        await run_until_idle()
        joiner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joiner
        assert not reply.abandoned
        reply.send("answer")
        assert await asyncio.gather(*[leader, other]) == ["answer"] * 2


@pytest.mark.parametrize("also_cancelled", [0, 1, 2])
async def test_when_the_one_who_calls_is_cancelled_one_who_waits_takes_over(also_cancelled: int) -> None:
    async with assert_no_leaks():
        service, handle = expect(str, str)
        store = DedupeStore()
        leader, *joiners = beginning(stack(service, dedupe(store=store)), *"qqqq")
        _, first = await handle.next()
        await run_until_idle()
        leader.cancel()
        for joiner in joiners[:also_cancelled]:  # cancelled in the same turn, so the call must pass to another
            joiner.cancel()
        _, second = await handle.next()
        await run_until_idle()
        assert first.abandoned
        assert handle.none_waiting()
        second.send("answer")
        results = await asyncio.gather(leader, *joiners, return_exceptions=True)
        assert results[also_cancelled + 1 :] == ["answer"] * (3 - also_cancelled)
        assert store.in_progress == 0


async def test_who_runs_out_of_its_own_time_hands_over() -> None:
    clock = HandClock()
    async with assert_no_leaks():
        service, handle = expect(str, str)
        once = stack(service, dedupe(store=DedupeStore()))
        hasty = asyncio.create_task(stack(once, timeout(seconds=5))("q", root().within(CLOCK, clock)))
        _, _first = await handle.next()
        [patient] = beginning(once, "q", ctx=root().within(CLOCK, clock))
        await clock.advance(5)
        with pytest.raises(Timeout):
            await hasty
        _, second = await handle.next()
        second.send("answer")
        assert await patient == "answer"


async def test_a_timeout_of_the_callers_own_deadline_is_no_answer_for_others() -> None:
    clock = HandClock()
    calls = 0

    async def service(request: str, ctx: Context) -> str:
        nonlocal calls
        calls += 1
        if ctx.deadline is not None:
            await clock.sleep(5)
            raise Timeout("its own time was over")
        return "answer"

    once = stack(service, dedupe(store=DedupeStore()))
    ctx = root().within(CLOCK, clock)
    hasty = asyncio.create_task(stack(once, timeout(seconds=5))("q", ctx))
    await run_until_idle()
    [patient] = beginning(once, "q", ctx=ctx)
    await clock.advance(5)
    with pytest.raises(Timeout):
        await hasty
    assert await patient == "answer"
    assert calls == 2


async def test_a_suspension_is_of_one_call_and_the_next_is_made() -> None:
    service, handle = expect(str, str)
    leader, joiner = beginning(stack(service, dedupe(store=DedupeStore())), *"qq")
    _, first = await handle.next()
    await run_until_idle()
    first.fail(Suspend(()))
    with pytest.raises(Suspend):
        await leader
    _, second = await handle.next()
    second.send("approved since")
    assert await joiner == "approved since"


class Odd(Exception):
    """An error whose constructor needs more than its text."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


@pytest.mark.parametrize("error", [ModelError("down", kind="overloaded", status=503), Odd(code=7), OSError(2, "no")])
async def test_a_failure_is_shared_by_those_who_wait_counted_once_and_not_kept(error: Any) -> None:
    error.usage = "what it cost"
    service, handle = expect(str, str)
    store = DedupeStore()
    once = stack(service, dedupe(store=store))
    leader, joiner = beginning(once, *"qq")
    _, reply = await handle.next()
    await run_until_idle()
    reply.fail(error)
    failures = await asyncio.gather(leader, joiner, return_exceptions=True)
    [task] = beginning(once, "q")
    _, reply = await handle.next()
    reply.send("up again")
    assert await task == "up again"
    first, second = failures
    assert first is error
    assert isinstance(second, BaseException)
    assert second is not error
    assert second.__cause__ is error
    assert (type(second), str(second), second.args) == (type(error), str(error), error.args)
    assert {**vars(second), "usage": None} == {**vars(error), "usage": None, "sent": False}
    assert getattr(second, "usage", None) is None


async def test_an_answer_given_again_costs_nothing() -> None:
    async def service(request: str, ctx: Context) -> ModelResponse:
        await asyncio.sleep(0)
        return ModelResponse(assistant("hello"), usage=Usage(10, 5, requests=1))

    asked, joined = await asyncio.gather(*beginning(stack(service, dedupe(store=DedupeStore())), *"qq"))
    assert (asked.usage, joined.usage) == (Usage(10, 5, requests=1), Usage())
    assert asked.message == joined.message


@pytest.mark.parametrize("others", [[], [timeout(seconds=10)]])
async def test_layers_with_the_same_store_around_one_service_do_not_wait_for_each_other(others: list[Any]) -> None:
    calls: list[str] = []

    async def service(request: str, ctx: Context) -> str:
        calls.append(request)
        await asyncio.sleep(0)
        return "answer"

    once: Any = dedupe(store=DedupeStore(), key=str)
    both = stack(service, once, *others, once)
    answers = await asyncio.wait_for(asyncio.gather(both("q", root()), both("q", root())), 5)
    assert [*answers] == ["answer", "answer"]
    assert len(calls) <= 2


async def test_a_call_within_itself_is_made_and_does_not_wait_for_itself() -> None:
    depth = 0

    async def again(request: str, ctx: Context) -> str:
        nonlocal depth
        depth += 1
        return await once(request, ctx.under("again")) if depth < 3 else "the end"

    once = stack(again, dedupe(store=DedupeStore()))
    assert await once("q", root().within(RUN_ID, "r")) == "the end"


def test_a_call_of_another_event_loop_is_not_waited_for() -> None:
    store = DedupeStore()
    service, _ = expect(str, str)

    async def leave_hanging() -> asyncio.Task[str]:
        task = asyncio.create_task(stack(service, dedupe(store=store, key=str))("q", root()))
        await run_until_idle()
        return task

    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(leave_hanging())

    async def quick(request: str, ctx: Context) -> str:
        return "here"

    assert store.in_progress == 1
    assert asyncio.run(stack(quick, dedupe(store=store, key=str))("q", root())) == "here"
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    assert store.in_progress == 0


async def test_a_call_that_hangs_is_not_joined_for_ever() -> None:
    clock = HandClock()
    service, handle = expect(str, str)
    once = stack(service, dedupe(store=DedupeStore(seconds=10)))
    ctx = root().within(CLOCK, clock)
    [stuck] = beginning(once, "q", ctx=ctx)
    _, slow = await handle.next()
    await clock.advance(10)
    fresh, joiner = beginning(once, *"qq", ctx=ctx)
    _, reply = await handle.next()
    await run_until_idle()
    slow.send("late")
    assert await stuck == "late"
    reply.send("fresh")
    assert await fresh == "fresh"
    assert await joiner == "fresh"
    assert handle.none_waiting()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["ask", "cancel", "answer", "fail"])), max_size=25))
def test_whatever_happens_each_is_answered_once_and_nothing_is_left(steps: list[tuple[str, str]]) -> None:
    async def main() -> None:
        service, handle = expect(str, str)
        store = DedupeStore()
        once = stack(service, dedupe(store=store, key=str))
        tasks: dict[str, list[asyncio.Task[str]]] = {"a": [], "b": []}
        replies: dict[str, list[Responder[str]]] = {"a": [], "b": []}

        async def arrived() -> None:
            await run_until_idle()
            while not handle.none_waiting():
                request, reply = await handle.next()
                replies[request].append(reply)

        for key, what in steps:
            if what == "ask":
                tasks[key] += beginning(once, key)
            elif what == "cancel" and tasks[key]:
                tasks[key][len(steps) % len(tasks[key])].cancel()
            elif replies[key] and not replies[key][-1].abandoned:
                reply = replies[key].pop()
                reply.send(key) if what == "answer" else reply.fail(Denied("no"))
            await arrived()
            for each in "ab":
                assert sum(not reply.abandoned for reply in replies[each]) <= 1, "one call at a time"
        for _ in range(2):
            for each in "ab":
                for reply in replies[each]:
                    if not reply.abandoned and not reply._answer.done():
                        reply.send(each)
            await arrived()
        for each in "ab":
            for result in await asyncio.gather(*tasks[each], return_exceptions=True):
                assert result == each or isinstance(result, (Denied, asyncio.CancelledError))
        assert store.in_progress == 0

    asyncio.run(main())


@pytest.mark.parametrize("settings", [{"seconds": 0}, {"seconds": float("inf")}, {"seconds": "1"}])
def test_a_store_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        DedupeStore(**settings)


@pytest.mark.parametrize("settings", [{"store": {}}, {"store": DedupeStore(), "key": "q"}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"dedupe\\({list(settings)[-1]}="):
        dedupe(**settings)


@pytest.mark.parametrize("joins", [0.0, 2.0], ids=["before the wait", "during the wait"])
@pytest.mark.parametrize(("works", "late"), [(5.0, False), (11.0, True)])
async def test_who_joins_a_call_that_waits_for_a_person_waits_for_free(works: float, late: bool, joins: float) -> None:
    clock = HandClock(auto=True)
    base = root().within(CLOCK, clock)

    async def ask(request: str, ctx: Context) -> str:
        await clock.sleep(1)
        assert ctx.watch is not None
        with ctx.watch.waiting():
            await clock.sleep(10_000)
        await clock.sleep(works)
        return "answer"

    once = stack(ask, dedupe(store=DedupeStore(seconds=100_000)))

    async def join() -> str:
        await clock.sleep(joins)
        return await stack(once, timeout(seconds=10))("q", base)

    outcomes: list[Any] = await asyncio.gather(once("q", base), join(), return_exceptions=True)
    first, joined = outcomes[0], outcomes[1]
    assert first == "answer"
    assert isinstance(joined, Timeout) if late else joined == "answer"

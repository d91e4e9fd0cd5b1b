import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.samples import amount
from ziggurat import ConfigurationError, Context, Event, stack
from ziggurat.core import root
from ziggurat.core.clock import Stopwatch, take_back
from ziggurat.core.context import JOURNAL
from ziggurat.errors import LimitExceeded, Suspend
from ziggurat.events import Queued
from ziggurat.journal import LocalJournal
from ziggurat.layers import Bulkhead
from ziggurat.layers.concurrency_limit import concurrency_limit
from ziggurat.testing import assert_no_leaks, run_until_idle
from ziggurat.testing.expect import expect
from ziggurat.tools import guarded_call


class Crowd:
    """Makes many calls at once, and records which ran, in order, and how many ran at the same time at most."""

    def __init__(self, bulkhead: Bulkhead) -> None:
        self.bulkhead = bulkhead
        self.service = stack(self, concurrency_limit(bulkhead=bulkhead))
        self.inside: dict[object, asyncio.Future[object]] = {}
        self.order: list[Any] = []
        self.most = 0
        self.tasks: dict[object, asyncio.Task[object]] = {}

    async def __call__(self, request: object, ctx: Context) -> object:
        self.order.append(request)
        self.inside[request] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.inside))
        try:
            return await self.inside[request]
        finally:
            del self.inside[request]

    def come(self, *requests: object, ctx: Context | None = None) -> None:
        for request in requests:
            self.tasks[request] = asyncio.create_task(self.service(request, ctx or root()))

    def end(self, request: object) -> None:
        self.inside[request].set_result(request)

    async def finish(self) -> None:
        while self.inside:
            for waiting in list(self.inside.values()):
                waiting.set_result(None)
            await run_until_idle()


async def test_only_so_many_are_inside_and_others_come_in_their_order() -> None:
    crowd = Crowd(Bulkhead(3))
    async with assert_no_leaks():
        crowd.come(*range(20))
        await run_until_idle()
        assert list(crowd.inside) == [0, 1, 2]
        assert crowd.bulkhead.waiting == 17
        crowd.end(1)
        await run_until_idle()
        assert list(crowd.inside) == [0, 2, 3]
        await crowd.finish()
        assert crowd.order == list(range(20))
        assert crowd.most == 3
        assert (crowd.bulkhead.running, crowd.bulkhead.waiting) == (0, 0)


async def test_nobody_slips_in_before_those_who_wait() -> None:
    crowd = Crowd(Bulkhead(1))
    crowd.come("first", "second")
    await run_until_idle()
    crowd.end("first")
    crowd.come("late")  # asks in the same turn as the slot becomes free
    await run_until_idle()
    assert list(crowd.inside) == ["second"]
    await crowd.finish()
    assert crowd.order == ["first", "second", "late"]


@pytest.mark.parametrize("queue", [0, 2])
async def test_a_full_queue_refuses_at_once(queue: int) -> None:
    crowd = Crowd(Bulkhead(1, queue=queue))
    crowd.come(*range(1 + queue))
    await run_until_idle()
    with pytest.raises(LimitExceeded, match=f"all 1 slots are taken and {queue} calls wait") as raised:
        await crowd.service("one too many", root())
    assert raised.value.transient
    assert (raised.value.kind, raised.value.limit, raised.value.used) == ("concurrency", 1, 1)
    await crowd.finish()
    assert crowd.order == list(range(1 + queue))


@pytest.mark.parametrize("error", [ValueError("bad"), Suspend(()), asyncio.CancelledError()])
async def test_whatever_ends_a_call_frees_its_slot(error: Exception) -> None:
    bulkhead = Bulkhead(1)
    service, handle = expect()
    limited = stack(service, concurrency_limit(bulkhead=bulkhead))
    for _ in range(10):
        task = asyncio.create_task(limited("q", root()))
        _, reply = await handle.next()
        reply.fail(error)
        with pytest.raises(type(error)):
            await task
    assert bulkhead.running == 0


async def test_a_cancelled_call_frees_its_slot_and_a_cancelled_wait_never_runs() -> None:
    crowd = Crowd(Bulkhead(1))
    crowd.come("a", "b", "c")
    await run_until_idle()
    crowd.tasks["b"].cancel()
    await run_until_idle()
    assert crowd.bulkhead.waiting == 1
    crowd.tasks["a"].cancel()
    await run_until_idle()
    assert list(crowd.inside) == ["c"]
    await crowd.finish()
    assert crowd.order == ["a", "c"]
    assert crowd.bulkhead.running == 0


@pytest.mark.parametrize("first", ["slot", "cancel"])
async def test_a_slot_that_comes_together_with_a_cancellation_is_passed_on(first: str) -> None:
    crowd = Crowd(Bulkhead(1))
    crowd.come("a", "b", "c")
    await run_until_idle()
    if first == "slot":
        crowd.bulkhead.release("another call")  # passes the slot to b, which has not continued yet
        crowd.bulkhead.running += 1  # a is still inside, and has not given its own back
        crowd.tasks["b"].cancel()
    else:
        crowd.tasks["b"].cancel()
        crowd.end("a")
    await run_until_idle()
    assert "c" in crowd.inside
    assert "b" not in crowd.order
    await crowd.finish()
    assert (crowd.bulkhead.running, crowd.bulkhead.waiting) == (0, 0)


async def test_one_bulkhead_bounds_many_services_together() -> None:
    bulkhead = Bulkhead(1)
    one, other = Crowd(bulkhead), Crowd(bulkhead)
    one.come("a")
    await run_until_idle()
    other.come("b")
    await run_until_idle()
    assert not other.inside
    one.inside["a"].set_exception(ConnectionError("gone"))
    await run_until_idle()
    assert list(other.inside) == ["b"]
    await other.finish()
    with pytest.raises(ConnectionError):
        await one.tasks["a"]


async def test_waiting_is_an_event() -> None:
    crowd, heard = Crowd(Bulkhead(1)), list[Event]()
    crowd.come("a", "b", "c", ctx=root().heard_by(heard.append))
    await run_until_idle()
    await crowd.finish()
    assert heard == [Queued("run", "concurrency", 0), Queued("run", "concurrency", 1)]


async def test_in_a_replay_nobody_waits() -> None:
    bulkhead = Bulkhead(1, queue=0)
    bulkhead.take("another call")

    async def service(request: str, ctx: Context) -> str:
        return request

    limited = stack(service, concurrency_limit(bulkhead=bulkhead))
    assert await limited("q", root().within(JOURNAL, LocalJournal("replay"))) == "q"


@given(st.integers(1, 3), st.integers(0, 4), st.lists(st.tuples(st.sampled_from("aec"), st.integers(0, 30))))
def test_slots_are_kept_whatever_happens(limit: int, queue: int, steps: list[tuple[str, int]]) -> None:
    """Arrivals, ends and cancellations in any order, several of them in one turn of the event loop."""
    crowd = Crowd(Bulkhead(limit, queue=queue))

    async def main() -> None:
        for number, (kind, which) in enumerate(steps):
            if kind == "a":
                crowd.come(number)
            elif kind == "e" and crowd.inside:
                waiting = list(crowd.inside.values())[which % len(crowd.inside)]
                if not waiting.done():
                    waiting.set_result(None)
            elif kind == "c" and crowd.tasks:
                list(crowd.tasks.values())[which % len(crowd.tasks)].cancel()
            if which % 3:
                await asyncio.sleep(0)
            assert crowd.most <= limit
            assert crowd.bulkhead.waiting <= queue
        await run_until_idle()
        assert len(crowd.inside) == crowd.bulkhead.running
        await crowd.finish()
        await asyncio.gather(*crowd.tasks.values(), return_exceptions=True)
        assert (crowd.bulkhead.running, crowd.bulkhead.waiting) == (0, 0)
        assert crowd.order == sorted(crowd.order)

    asyncio.run(main())


@pytest.mark.parametrize("settings", [{"limit": 0}, {"limit": 1.5}, {"limit": True}, {"limit": 1, "queue": -1}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=list(settings)[-1]):
        Bulkhead(**settings)


def test_the_layer_takes_a_bulkhead_and_shows_it() -> None:
    wrong: Any = 3
    with pytest.raises(ConfigurationError, match="made once and passed"):
        concurrency_limit(bulkhead=wrong)
    assert repr(concurrency_limit(bulkhead=Bulkhead(3))) == "concurrency_limit(bulkhead=Bulkhead(3, queue=1000))"


class Waiters:
    """Calls within a limit that work or wait for a person, as they are told."""

    def __init__(self, slots: Bulkhead) -> None:
        self.slots = slots
        self.told: dict[int, asyncio.Future[str]] = {}
        self.active: set[int] = set()
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.service = stack(self, concurrency_limit(bulkhead=slots))

    async def __call__(self, number: int, ctx: Context) -> None:
        assert ctx.watch is not None
        self.active.add(number)
        try:
            while await self._told(number) == "wait":
                with ctx.watch.waiting():
                    self.active.discard(number)
                    await self._told(number)
                    await take_back(ctx.watch)
                self.active.add(number)
        finally:
            self.active.discard(number)

    async def _told(self, number: int) -> str:
        self.told[number] = asyncio.get_running_loop().create_future()
        try:
            return await self.told[number]
        finally:
            del self.told[number]

    def tell(self, number: int, what: str) -> None:
        if number not in self.tasks or self.tasks[number].done():
            ctx = root()
            self.tasks[number] = asyncio.create_task(self.service(number, ctx.timed(Stopwatch(ctx.clock))))
        elif what == "cancel":
            self.tasks[number].cancel()
        elif number in self.told and not self.told[number].done():
            self.told[number].set_result(what)


ACTS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["wait", "end", "cancel"])), max_size=40)


@given(st.integers(1, 3), st.lists(ACTS, max_size=10))
def test_no_slot_is_lost_or_given_twice(limit: int, rounds: list[list[tuple[int, str]]]) -> None:
    async def main() -> None:
        waiters = Waiters(Bulkhead(limit))
        for acts in rounds:
            for number, what in acts:
                waiters.tell(number, what)
            await run_until_idle()
            assert waiters.slots.running == len(waiters.active) <= limit
            assert waiters.slots.waiting == 0 or waiters.slots.running == limit
        for task in waiters.tasks.values():
            task.cancel()
        await run_until_idle()
        assert (waiters.slots.running, waiters.slots.waiting, waiters.slots._inside) == (0, 0, set())

    asyncio.run(main())


class Nest:
    """Calls within a limit that work, wait for people, or make such calls beneath them, one or several, by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.slots = Bulkhead(self.chance.randint(1, 3), queue=self.chance.choice([0, 2, 100]))
        self.service = stack(self, concurrency_limit(bulkhead=self.slots))
        self.most = 0

    async def __call__(self, depth: int, ctx: Context) -> None:
        for _ in range(self.chance.randint(0, 4)):
            await self.chance.choice([self.work, self.ask, self.call])(depth, ctx)

    async def work(self, depth: int, ctx: Context) -> None:
        for _ in range(self.chance.randint(0, 4)):
            self.most = max(self.most, self.slots.running)
            await asyncio.sleep(0)

    async def ask(self, depth: int, ctx: Context) -> None:
        assert ctx.watch is not None
        with ctx.watch.waiting():
            await self.work(depth, ctx)
            await take_back(ctx.watch)

    async def call(self, depth: int, ctx: Context) -> None:
        async def beneath(ctx: Context) -> None:
            with suppress(LimitExceeded):
                await self.service(depth + 1, ctx)

        if depth < 3:
            members = [(beneath, ctx)] * self.chance.randint(1, 3)
            await guarded_call.fan_out(members, ctx, name="calls").run()

    async def run(self) -> None:
        async def begin() -> None:
            with suppress(LimitExceeded):
                await self.service(0, root().timed(Stopwatch(root().clock)))

        tasks = [asyncio.create_task(begin()) for _ in range(self.chance.randint(1, 8))]
        await self.work(0, root())
        for task in tasks:
            if self.chance.random() < 0.3:
                task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(each) for each in ended} <= {type(None), asyncio.CancelledError}


async def test_calls_that_wait_for_people_beneath_each_other_never_wait_for_ever() -> None:
    for seed in range(amount(50, 200)):
        nest = Nest(seed)
        await nest.run()
        slots = nest.slots
        assert nest.most <= slots.limit
        assert (slots.running, slots.waiting) == (0, 0)
        assert not any((slots._inside, slots._borrowed, slots._blocked))

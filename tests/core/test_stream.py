import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ziggurat import Agent, AgentRequest, ConfigurationError, Context, Event, Timeout, open_stream, tool, user
from ziggurat.core import CLOCK, root
from ziggurat.errors import Suspend
from ziggurat.events import Dropped, Retrying
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

from .hand import HandClock, HandTimer, settle


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


def note(ctx: Context, number: int) -> Event:
    return Dropped(ctx.path, str(number))


def numbers(events: list[Event]) -> list[int]:
    return [int(event.why) for event in events if isinstance(event, Dropped)]


async def counting(request: int, ctx: Context) -> str:
    for number in range(request):
        await ctx.emit(note(ctx, number))
    return "done"


async def test_all_events_come_in_order_and_then_the_response() -> None:
    async with open_stream(counting, 200, buffer=3) as events:
        seen = [event async for event in events]
    assert (numbers(seen), events.response) == (list(range(200)), "done")
    async with open_stream(counting, 0) as events:
        assert [event async for event in events] == []
    async with open_stream(counting, 1, root("trip").at("step-1")) as events:
        assert [event.path async for event in events] == ["trip/step-1"]


async def test_a_slow_reader_slows_the_producer() -> None:
    told: list[int] = []

    async def service(request: int, ctx: Context) -> None:
        for number in range(request):
            await ctx.emit(note(ctx, number))
            told.append(number)

    async with open_stream(service, 10, buffer=2) as events:
        reader = aiter(events)
        await settle()
        assert told == [0, 1]
        await anext(reader)
        await settle()
        assert told == [0, 1, 2]
        assert [event async for event in reader]
    assert told == list(range(10))


async def test_many_writers_lose_nothing() -> None:
    async def service(request: int, ctx: Context) -> None:
        async def writer(start: int) -> None:
            for number in range(start, start + 10):
                await ctx.emit(note(ctx, number))

        await asyncio.gather(*(writer(10 * index) for index in range(request)))

    async with open_stream(service, 5, buffer=1) as events:
        seen = numbers([event async for event in events])
    assert sorted(seen) == list(range(50))
    for index in range(5):
        mine = [number for number in seen if number // 10 == index]
        assert mine == sorted(mine)


async def test_a_writer_cancelled_with_room_in_its_hand_passes_the_room_on() -> None:
    async def service(request: int, ctx: Context) -> str:
        await ctx.emit(note(ctx, 0))
        first = asyncio.create_task(_emit(ctx, 1))
        second = asyncio.create_task(_emit(ctx, 2))
        await settle()
        told.set()
        await go.wait()
        first.cancel()
        await asyncio.wait([first, second])
        return "done"

    async def _emit(ctx: Context, number: int) -> None:
        await ctx.emit(note(ctx, number))

    told, go = asyncio.Event(), asyncio.Event()
    async with open_stream(service, 0, buffer=1) as events:
        await told.wait()
        reader = aiter(events)
        go.set()
        seen = [await anext(reader)]  # gives room to the first writer, which is cancelled in the same turn
        seen.extend([event async for event in reader])
        assert numbers(seen) in ([0, 2], [0, 1, 2])


async def test_a_writer_cancelled_while_it_waits_leaves_the_others_alone() -> None:
    async def service(request: int, ctx: Context) -> None:
        await ctx.emit(note(ctx, 0))
        waiting = asyncio.create_task(_emit(ctx))
        await settle()
        waiting.cancel()
        await asyncio.wait([waiting])
        await ctx.emit(note(ctx, 2))

    async def _emit(ctx: Context) -> None:
        await ctx.emit(note(ctx, 1))

    async with open_stream(service, 0, buffer=1) as events:
        await settle(60)
        assert numbers([event async for event in events]) == [0, 2]


@pytest.mark.parametrize(("after", "buffer"), [(0, 1), (1, 2), (3, 1), (4, 2), (5, 64)])
async def test_leaving_early_cancels_and_waits_also_when_the_service_tells_more_while_it_ends(
    after: int, buffer: int
) -> None:
    ended: list[str] = []

    async def service(request: int, ctx: Context) -> None:
        try:
            for number in range(request):
                await ctx.emit(note(ctx, number))
            await asyncio.Event().wait()
        finally:
            for number in range(100):  # many more than the buffer holds
                await ctx.emit(note(ctx, number))
            await asyncio.sleep(0)
            ended.append("ended")

    async with open_stream(service, 5, buffer=buffer) as events:
        reader = aiter(events)
        for _ in range(min(after, 5)):
            await anext(reader)
        await settle()
    assert ended == ["ended"]


async def test_leaving_early_stops_parallel_writers() -> None:
    async def service(request: int, ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(request):
                group.create_task(counting(100, ctx))

    async with open_stream(service, 8, buffer=1) as events:
        await anext(aiter(events))


async def test_an_error_of_the_readers_leaves_too_and_stays_itself() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_stream(counting, 100, buffer=1) as events:
            async for _ in events:
                raise KeyError("mine")


async def test_a_cancelled_reader_cancels_the_call() -> None:
    ended: list[str] = []

    async def service(request: int, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def read() -> None:
        async with open_stream(service, 0) as events:
            async for _ in events:
                pass

    reader = asyncio.create_task(read())
    await settle()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert ended == ["ended"]


async def test_nobody_listens_once_the_reader_has_left() -> None:
    listened: list[bool] = []

    async def service(request: int, ctx: Context) -> None:
        listened.append(ctx.listens(Retrying))
        try:
            await asyncio.Event().wait()
        finally:
            listened.append(ctx.listens(Retrying))

    async with open_stream(service, 0):
        await settle()
    assert listened == [True, False]


async def test_a_failure_while_leaving_is_logged_and_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def service(request: int, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    with caplog.at_level(logging.WARNING, "ziggurat"):
        async with open_stream(service, 0):
            await settle()
    assert "while cleaning up" in caplog.text


class Mine(Exception):
    pass


@pytest.mark.parametrize(("error", "before"), [(Mine("x"), 0), (Timeout("late"), 3), (Suspend(()), 3)])
async def test_the_services_own_error_is_raised_bare_after_its_events(error: BaseException, before: int) -> None:
    seen: list[Event] = []

    async def service(request: int, ctx: Context) -> None:
        await counting(request, ctx)
        raise error

    with pytest.raises(type(error)) as caught:
        async with open_stream(service, before) as events:
            async for event in events:
                seen.append(event)
    assert caught.value is error
    assert numbers(seen) == list(range(before))


async def test_the_response_is_there_at_the_end_only() -> None:
    async with open_stream(counting, 100, buffer=1) as events:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="iterate"):
                _ = events.response
            await anext(aiter(events))
    with pytest.raises(ConfigurationError, match="iterate"):
        _ = events.response
    assert [event async for event in events] == []


async def test_a_second_reader_is_refused() -> None:
    async def service(request: int, ctx: Context) -> None:
        await asyncio.Event().wait()

    async with open_stream(service, 0) as events:
        reader: Any = aiter(events)
        first = asyncio.ensure_future(anext(reader))
        await settle()
        with pytest.raises(ConfigurationError, match="one reader"):
            await anext(events)
        first.cancel()
        await asyncio.wait([first])


async def test_time_blocked_by_the_reader_is_charged_to_no_timeout() -> None:
    async def service(request: float, ctx: Context) -> str:
        clock = ctx.clock
        async with ctx.limit(10) as ctx:
            await ctx.emit(note(ctx, 0))
            await clock.sleep(2)
            await ctx.emit(note(ctx, 1))  # blocked for 100 seconds
            await clock.sleep(request)
            return "done"

    async def main(seconds: float) -> str:
        clock = HandClock()
        async with open_stream(service, seconds, root().within(CLOCK, clock), buffer=1) as events:
            await clock.advance(102)
            reader = aiter(events)
            await anext(reader)
            await settle()
            assert events.blocked == 100
            await clock.advance(7.5)
            await anext(reader)
            await clock.advance(2)
            async for _ in reader:
                pass
        return events.response

    assert await main(7) == "done"
    with pytest.raises(Timeout, match="10 s"):
        await main(9)


async def test_a_blocked_timer_does_not_spin() -> None:
    fired = 0

    class Counted(HandClock):
        def call_at(self, when: float, callback: Callable[[], None]) -> HandTimer:
            nonlocal fired
            fired += 1
            return super().call_at(when, callback)

    async def service(request: int, ctx: Context) -> str:
        clock = ctx.clock
        async with ctx.limit(1) as ctx:
            await ctx.emit(note(ctx, 0))
            await clock.sleep(1 - 2**-20)
            await ctx.emit(note(ctx, 1))  # blocked a hair before the limit
            return "done"

    clock = Counted()
    async with open_stream(service, 0, root().within(CLOCK, clock), buffer=1) as events:
        await clock.advance(2)
        async for _ in events:
            pass
    assert events.response == "done"
    assert fired < 150


async def test_several_blocked_writers_are_counted_once() -> None:
    async def service(request: int, ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(counting(1, ctx))

    clock = HandClock()
    async with open_stream(service, 0, root().within(CLOCK, clock), buffer=1) as events:
        await clock.advance(5)
        during = events.blocked
        async for _ in events:
            pass
        assert during == events.blocked
        assert during == 5


@pytest.mark.parametrize("service", [None, "agent", 3, str], ids=repr)
def test_only_a_service_is_streamed(service: Any) -> None:
    with pytest.raises(ConfigurationError, match="Service"):
        open_stream(service, 1)
    with pytest.raises(ConfigurationError, match="buffer"):
        open_stream(counting, 1, buffer=0)


async def test_a_stream_that_is_read_without_its_block_says_so() -> None:
    stream: Any = open_stream(counting, 1)
    with pytest.raises(ConfigurationError, match="async with"):
        async for _ in stream:
            pass
    with pytest.raises(ConfigurationError, match="async with"):
        for _ in stream:
            pass
    with pytest.raises(ConfigurationError, match="async with"):
        await stream
    with pytest.raises(ConfigurationError, match="async with"), stream:
        pass
    with pytest.raises(ConfigurationError, match="async with"):
        await stream.__aexit__(None, None, None)
    async with stream as events:
        with pytest.raises(ConfigurationError, match="async with"):
            await stream.__aenter__()
        assert numbers([event async for event in events]) == [0]


@pytest.mark.parametrize(("buffer", "leave_at"), [(1, 0), (2, 1), (1, 7), (1, None), (64, None)])
async def test_a_part_of_the_call_may_run_in_the_loop_of_another_thread(buffer: int, leave_at: int | None) -> None:
    async def emit_all(ctx: Context) -> None:
        await asyncio.gather(*[ctx.emit(note(ctx, number)) for number in range(30)])

    async def service(request: str, ctx: Context) -> str:
        await asyncio.gather(
            emit_all(ctx), *[asyncio.to_thread(lambda at: asyncio.run(emit_all(at)), ctx.under("there")) for _ in "ab"]
        )
        return "end"

    heard = 0
    async with asyncio.timeout(20), open_stream(service, "x", buffer=buffer) as events:
        async for _ in events:
            if heard == leave_at:
                return
            heard += 1
        assert (heard, events.response) == (90, "end")


async def test_a_tool_in_a_thread_may_run_an_agent_in_a_loop_of_its_own_while_it_is_streamed() -> None:
    helper = Agent(ScriptedModel(always="this has several words"), name="helper")

    @tool
    def ask(ctx: Context) -> str:
        return asyncio.run(helper(AgentRequest((user("q"),)), ctx.under("helper"))).text

    agent = Agent(ScriptedModel([tool_call("ask", id="1"), tool_call("ask", id="2")], "end"), tools=[ask])
    async with asyncio.timeout(20), agent.stream("x", buffer=1) as events:
        async for _ in events:
            pass
    assert (events.response.text, events.response.observations) == ("end", ("this has several words",) * 2)

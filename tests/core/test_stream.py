import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ziggurat.agents.agent import Agent
from ziggurat.core.clock import CLOCK
from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError, Suspend, Timeout
from ziggurat.core.event import Dropped, Event, Retrying
from ziggurat.core.stream import open_stream
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.message import user
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.function import tool

from .hand import HandClock, HandTimer, settle

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main`, and fail if it leaves a task behind."""

    async def watched() -> T:
        before = asyncio.all_tasks()
        result = await main()
        assert asyncio.all_tasks() == before
        return result

    return asyncio.run(watched())


def note(ctx: Context, number: int) -> Event:
    return Dropped(ctx.path, str(number))


def numbers(events: list[Event]) -> list[int]:
    return [int(event.why) for event in events if isinstance(event, Dropped)]


async def counting(request: int, ctx: Context) -> str:
    for number in range(request):
        await ctx.emit(note(ctx, number))
    return "done"


def test_all_events_come_in_order_and_then_the_response() -> None:
    async def main() -> tuple[list[int], str]:
        async with open_stream(counting, 200, buffer=3) as events:
            seen = [event async for event in events]
        return numbers(seen), events.response

    assert run(main) == (list(range(200)), "done")


def test_a_service_that_tells_nothing() -> None:
    async def main() -> list[Event]:
        async with open_stream(counting, 0) as events:
            return [event async for event in events]

    assert run(main) == []


def test_the_call_stands_where_the_given_context_stands() -> None:
    async def main() -> list[str]:
        async with open_stream(counting, 1, root("trip").at("step-1")) as events:
            return [event.path async for event in events]

    assert run(main) == ["trip/step-1"]


def test_a_slow_reader_slows_the_producer() -> None:
    told: list[int] = []

    async def service(request: int, ctx: Context) -> None:
        for number in range(request):
            await ctx.emit(note(ctx, number))
            told.append(number)

    async def main() -> None:
        async with open_stream(service, 10, buffer=2) as events:
            reader = aiter(events)
            await settle()
            assert told == [0, 1]
            await anext(reader)
            await settle()
            assert told == [0, 1, 2]
            assert [event async for event in reader]
        assert told == list(range(10))

    run(main)


def test_many_writers_lose_nothing() -> None:
    async def service(request: int, ctx: Context) -> None:
        async def writer(start: int) -> None:
            for number in range(start, start + 10):
                await ctx.emit(note(ctx, number))

        await asyncio.gather(*(writer(10 * index) for index in range(request)))

    async def main() -> list[int]:
        async with open_stream(service, 5, buffer=1) as events:
            return numbers([event async for event in events])

    seen = run(main)
    assert sorted(seen) == list(range(50))
    for index in range(5):
        mine = [number for number in seen if number // 10 == index]
        assert mine == sorted(mine)


def test_a_writer_cancelled_with_room_in_its_hand_passes_the_room_on() -> None:
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

    async def main() -> list[int]:
        async with open_stream(service, 0, buffer=1) as events:
            await told.wait()
            reader = aiter(events)
            go.set()
            seen = [await anext(reader)]  # gives room to the first writer, which is cancelled in the same turn
            seen.extend([event async for event in reader])
            return numbers(seen)

    told, go = asyncio.Event(), asyncio.Event()
    assert run(main) in ([0, 2], [0, 1, 2])


def test_a_writer_cancelled_while_it_waits_leaves_the_others_alone() -> None:
    async def service(request: int, ctx: Context) -> None:
        await ctx.emit(note(ctx, 0))
        waiting = asyncio.create_task(_emit(ctx))
        await settle()
        waiting.cancel()
        await asyncio.wait([waiting])
        await ctx.emit(note(ctx, 2))

    async def _emit(ctx: Context) -> None:
        await ctx.emit(note(ctx, 1))

    async def main() -> list[int]:
        async with open_stream(service, 0, buffer=1) as events:
            await settle(60)
            return numbers([event async for event in events])

    assert run(main) == [0, 2]


# -- leaving early -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("buffer", [1, 2, 64])
def test_leaving_early_cancels_and_waits_also_when_the_service_tells_more_while_it_ends(
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

    async def main() -> None:
        async with open_stream(service, 5, buffer=buffer) as events:
            reader = aiter(events)
            for _ in range(min(after, 5)):
                await anext(reader)
            await settle()
        assert ended == ["ended"]

    run(main)


def test_leaving_early_stops_parallel_writers() -> None:
    async def service(request: int, ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(request):
                group.create_task(counting(100, ctx))

    async def main() -> None:
        async with open_stream(service, 8, buffer=1) as events:
            await anext(aiter(events))

    run(main)


def test_an_error_of_the_readers_leaves_too_and_stays_itself() -> None:
    async def main() -> None:
        async with open_stream(counting, 100, buffer=1) as events:
            async for _ in events:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(main)


def test_a_cancelled_reader_cancels_the_call() -> None:
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

    async def main() -> None:
        reader = asyncio.create_task(read())
        await settle()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert ended == ["ended"]

    run(main)


def test_nobody_listens_once_the_reader_has_left() -> None:
    listened: list[bool] = []

    async def service(request: int, ctx: Context) -> None:
        listened.append(ctx.listens(Retrying))
        try:
            await asyncio.Event().wait()
        finally:
            listened.append(ctx.listens(Retrying))

    async def main() -> None:
        async with open_stream(service, 0):
            await settle()

    run(main)
    assert listened == [True, False]


def test_a_failure_while_leaving_is_logged_and_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def service(request: int, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    async def main() -> None:
        async with open_stream(service, 0):
            await settle()

    with caplog.at_level(logging.WARNING, "ziggurat"):
        run(main)
    assert "while cleaning up" in caplog.text


# -- errors --------------------------------------------------------------------------------------------------------


class Mine(Exception):
    pass


@pytest.mark.parametrize("error", [Mine("x"), Timeout("late"), Suspend(()), OSError("gone")])
@pytest.mark.parametrize("before", [0, 3])
def test_the_services_own_error_is_raised_bare_after_its_events(error: BaseException, before: int) -> None:
    seen: list[Event] = []

    async def service(request: int, ctx: Context) -> None:
        await counting(request, ctx)
        raise error

    async def main() -> None:
        async with open_stream(service, before) as events:
            async for event in events:
                seen.append(event)

    with pytest.raises(type(error)) as caught:
        run(main)
    assert caught.value is error
    assert numbers(seen) == list(range(before))


def test_the_response_is_there_at_the_end_only() -> None:
    async def main() -> None:
        async with open_stream(counting, 100, buffer=1) as events:
            with pytest.raises(ConfigurationError, match="iterate over it first"):
                _ = events.response
            await anext(aiter(events))
            with pytest.raises(ConfigurationError, match="iterate over it first"):
                _ = events.response

    run(main)


def test_a_stream_that_was_left_has_no_response_and_no_more_events() -> None:
    async def main() -> None:
        async with open_stream(counting, 100, buffer=1) as events:
            await settle()
        with pytest.raises(ConfigurationError, match="iterate over it first"):
            _ = events.response
        assert [event async for event in events] == []

    run(main)


def test_a_second_reader_is_refused() -> None:
    async def service(request: int, ctx: Context) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with open_stream(service, 0) as events:
            first = asyncio.create_task(_next(aiter(events)))
            await settle()
            with pytest.raises(ConfigurationError, match="one reader"):
                await anext(events)
            first.cancel()
            await asyncio.wait([first])

    async def _next(reader: "asyncio.Future[Event] | object") -> None:
        await anext(reader)  # type: ignore[call-overload]

    run(main)


def test_a_buffer_holds_something() -> None:
    async def main() -> None:
        async with open_stream(counting, 1, buffer=0):
            pass

    with pytest.raises(ConfigurationError, match=r"buffer=...\) is a whole number of at least 1; got 0"):
        run(main)


# -- time ----------------------------------------------------------------------------------------------------------


def test_time_blocked_by_the_reader_is_charged_to_no_timeout() -> None:
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

    assert run(lambda: main(7)) == "done"
    with pytest.raises(Timeout, match="run timed out after 10 s"):
        run(lambda: main(9))


def test_a_blocked_timer_does_not_spin() -> None:
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

    async def main() -> str:
        clock = Counted()
        async with open_stream(service, 0, root().within(CLOCK, clock), buffer=1) as events:
            await clock.advance(2)
            async for _ in events:
                pass
        return events.response

    assert run(main) == "done"
    assert fired < 150


def test_several_blocked_writers_are_counted_once() -> None:
    async def service(request: int, ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(counting(1, ctx))

    async def main() -> float:
        clock = HandClock()
        async with open_stream(service, 0, root().within(CLOCK, clock), buffer=1) as events:
            await clock.advance(5)
            during = events.blocked
            async for _ in events:
                pass
            assert during == events.blocked
            return during

    assert run(main) == 5


@pytest.mark.parametrize("service", [None, "agent", 3, str], ids=repr)
def test_only_a_service_is_streamed(service: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"service=...\) is a Service, an async callable"):
        open_stream(service, 1)


async def test_a_stream_that_is_read_without_its_block_says_so() -> None:
    async def run(read: Callable[[Any], Awaitable[None]]) -> None:
        with pytest.raises(ConfigurationError, match=r"a stream is read within its block.*async with agent\.stream"):
            await read(open_stream(counting, 1))

    async def loop(stream: Any) -> None:
        async for _ in stream:
            pass

    async def plain_loop(stream: Any) -> None:
        for _ in stream:
            pass

    async def waiting(stream: Any) -> None:
        await stream

    for read in (loop, plain_loop, waiting):
        await run(read)


@pytest.mark.parametrize("leave_at", [0, 1, 7, None])
@pytest.mark.parametrize("buffer", [1, 2, 64])
def test_a_part_of_the_call_may_run_in_the_event_loop_of_another_thread(buffer: int, leave_at: int | None) -> None:
    async def emit_all(ctx: Context) -> None:
        await asyncio.gather(*[ctx.emit(note(ctx, number)) for number in range(30)])

    async def service(request: str, ctx: Context) -> str:
        await asyncio.gather(
            emit_all(ctx), *[asyncio.to_thread(lambda at: asyncio.run(emit_all(at)), ctx.under("there")) for _ in "ab"]
        )
        return "end"

    async def main() -> None:
        heard = 0
        async with asyncio.timeout(20), open_stream(service, "x", buffer=buffer) as events:
            async for _ in events:
                if heard == leave_at:
                    return
                heard += 1
            assert (heard, events.response) == (90, "end")

    run(main)


def test_a_tool_in_a_thread_may_run_an_agent_in_a_loop_of_its_own_while_it_is_streamed() -> None:
    helper = Agent(ScriptedModel(always="this has several words"), name="helper")

    @tool
    def ask(ctx: Context) -> str:
        """Ask the helper."""
        return asyncio.run(helper(AgentRequest((user("q"),)), ctx.under("helper"))).text

    agent = Agent(ScriptedModel([tool_call("ask", id="1"), tool_call("ask", id="2")], "end"), tools=[ask])

    async def main() -> None:
        async with asyncio.timeout(20), agent.stream("x", buffer=1) as events:
            async for _ in events:
                pass
        assert (events.response.text, events.response.observations) == ("end", ("this has several words",) * 2)

    asyncio.run(main())

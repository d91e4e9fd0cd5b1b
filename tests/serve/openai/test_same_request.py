"""The same request of a client twice, with one Idempotency-Key: one run, and one answer for both."""

import asyncio

import openai
import pytest

from tests.serve.openai.test_background import Paused
from tests.serve.openai.test_openai import HELLO, Wire, clerk, each_way, talking, user
from ziggurat import tool
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.messages import tool_call

KEY = {"Idempotency-Key": "order-7"}


@each_way
async def test_again_after_the_end_it_is_the_same_answer(wire: Wire, streamed: bool) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    first = [ThinkingDelta("Hm."), TextDelta("I look."), tool_call("look")]
    async with talking(clerk(first, "There.", tools=[look]), wire=wire, streamed=streamed) as (talk, _):
        one, other = [await talk.ask(HELLO, extra_headers=KEY) for _ in range(2)]
        assert (one.text, one.tokens, one.run_id) == (other.text, other.tokens, other.run_id)
        assert one.text == "I look.\n\nThere."


@each_way
async def test_while_the_first_is_answered_the_second_waits_for_the_same(wire: Wire, streamed: bool) -> None:
    slow = Paused()
    async with talking(clerk(slow), wire=wire, streamed=streamed) as (talk, server):
        asking = [asyncio.ensure_future(talk.ask(HELLO, extra_headers=KEY))]
        await slow.began.wait()
        asking += [asyncio.ensure_future(talk.ask(HELLO, extra_headers=KEY)) for _ in range(3)]
        for _ in range(20):  # round trips, in which the others arrive
            assert len((await server.get("/runs"))["runs"]) == 1
        slow.goes_on.set()
        assert [said.text for said in await asyncio.gather(*asking)] == ["ab"] * 4
        assert slow.times == 1


@each_way
async def test_another_request_with_its_key_is_refused_at_the_end_of_the_first(wire: Wire, streamed: bool) -> None:
    slow = Paused()
    async with talking(clerk(slow), wire=wire, streamed=streamed) as (talk, server):
        first = asyncio.ensure_future(talk.ask(HELLO, extra_headers=KEY))
        await slow.began.wait()
        other = asyncio.ensure_future(talk.ask(user("Another?"), extra_headers=KEY))
        for _ in range(20):
            assert len((await server.get("/runs"))["runs"]) == 1
        slow.goes_on.set()
        with pytest.raises(openai.ConflictError):
            await other
        assert (await first).text == "ab"


async def test_who_waits_for_the_answer_of_another_request_does_not_cancel_it() -> None:
    slow = Paused()
    async with talking(clerk(slow)) as (talk, server):
        first = asyncio.ensure_future(talk.ask(HELLO, extra_headers=KEY))
        await slow.began.wait()
        second = asyncio.ensure_future(talk.ask(HELLO, extra_headers=KEY))
        for _ in range(20):
            await server.get("/runs")
        second.cancel()
        for _ in range(20):
            assert (await server.get("/runs/order-7"))["status"] == "running"
        slow.goes_on.set()
        assert (await first).text == "ab"

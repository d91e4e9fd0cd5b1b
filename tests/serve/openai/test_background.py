"""The official client of OpenAI has responses given in the background: followed, read later, cancelled."""

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.serve.openai.test_openai import clerk, talking
from tests.serve.openai.test_stored_responses import same_fields
from tests.serve.test_app import paying
from ziggurat import tool
from ziggurat.events import TextDelta
from ziggurat.messages import tool_call


class Paused:
    """A reply that waits in its middle until it may go on."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.times = 0

    def __call__(self, _: Any) -> list[Any]:
        self.began.set()
        self.times += 1
        return [TextDelta("a"), self.goes_on, TextDelta("b")]


async def test_it_is_in_progress_until_it_is_completed() -> None:
    paused = Paused()
    async with talking(clerk(paused), wire="responses") as (talk, server):
        responses = talk.client.responses
        begun = await responses.create(model="clerk", input="x", background=True)
        assert (begun.status, begun.background, begun.output) == ("in_progress", True, [])
        assert (await responses.retrieve(begun.id)).status == "in_progress"
        paused.goes_on.set()
        await server.until(begun.id.removeprefix("resp_"), "end")
        read = await responses.retrieve(begun.id)
        assert (read.status, read.output_text) == ("completed", "ab")


async def test_its_events_are_followed_from_any_number_on() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    paused = Paused()
    async with talking(clerk([tool_call("look")], paused, tools=[look]), wire="responses") as (talk, server):
        responses = talk.client.responses
        seen: list[Any] = []
        stream = await responses.create(model="clerk", input="x", background=True, stream=True)
        async for event in stream:
            seen.append(event)
            if event.type == "response.output_text.delta":
                break
        await stream.close()  # a client that goes away cancels nothing
        name = seen[0].response.id
        followers = [
            asyncio.ensure_future(_all(await responses.retrieve(name, stream=True, starting_after=after)))
            for after in range(len(seen))
        ]
        paused.goes_on.set()
        whole = await _all(await responses.retrieve(name, stream=True))
        assert [event.sequence_number for event in whole] == list(range(len(whole)))
        assert whole[: len(seen)] == seen
        for after, following in enumerate(followers):
            assert await following == whole[after + 1 :]
        assert whole[-1].response.output_text == "ab"
        read = await responses.retrieve(name)
        assert same_fields(read) == same_fields(whole[-1].response)
        async with responses.stream(response_id=name, starting_after=3) as again:
            assert [event.sequence_number async for event in again] == list(range(4, len(whole)))
        assert paused.times == 1
        assert len((await server.get("/runs"))["runs"]) == 1


async def _all(stream: Any) -> list[Any]:
    return [event async for event in stream]


async def test_it_is_cancelled() -> None:
    async with talking(clerk(Paused()), wire="responses") as (talk, _):
        responses = talk.client.responses
        begun = await responses.create(model="clerk", input="x", background=True)
        following = asyncio.ensure_future(_all(await responses.retrieve(begun.id, stream=True)))
        assert (await responses.cancel(begun.id)).status == "cancelled"
        assert (await following)[-1].type == "response.failed"
        assert (await responses.retrieve(begun.id)).status == "cancelled"


async def test_a_call_is_approved_in_the_background() -> None:
    acts: list[int] = []
    async with talking(paying(acts), wire="responses") as (talk, _):
        responses = talk.client.responses
        stream = await responses.create(model="desk", input="x", background=True, stream=True)
        asked = (await _all(stream))[-1].response
        [request] = [item for item in asked.output if item.type == "mcp_approval_request"]
        yes: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        going_on: Any = {"model": "desk", "input": [yes], "previous_response_id": asked.id, "background": True}
        last = (await _all(await responses.create(**going_on, stream=True)))[-1].response
        assert (last.output_text, acts) == ("Done.", [3])
        with pytest.raises(openai.ConflictError, match="decided already"):
            await responses.create(**going_on)


async def test_what_cannot_begin_is_refused_and_what_fails_says_so() -> None:
    async with talking(clerk(ValueError("broken"), Paused()), wire="responses", max_runs=1) as (talk, _):
        responses = talk.client.responses
        with pytest.raises(openai.BadRequestError, match="store"):
            await responses.create(model="clerk", input="x", background=True, store=False)
        with pytest.raises(openai.NotFoundError):
            await responses.create(model="nobody", input="x", background=True)
        failed = (await _all(await responses.create(model="clerk", input="x", background=True, stream=True)))[-1]
        assert (failed.type, failed.response.status) == ("response.failed", "failed")
        assert "broken" in failed.response.error.message
        await responses.create(model="clerk", input="x", background=True)
        with pytest.raises(openai.InternalServerError) as raised:
            await talk.client.with_options(max_retries=0).responses.create(model="clerk", input="y", background=True)
        assert raised.value.status_code == 503


async def test_the_same_key_gives_the_same_response_at_once() -> None:
    paused = Paused()
    async with talking(clerk(paused), wire="responses") as (talk, _):
        responses, key = talk.client.responses, {"Idempotency-Key": "order-7"}
        begun = [await responses.create(model="clerk", input="x", background=True, extra_headers=key) for _ in range(2)]
        assert [each.id for each in begun] == ["resp_order-7"] * 2
        with pytest.raises(openai.ConflictError):
            await responses.create(model="clerk", input="y", background=True, extra_headers=key)
        paused.goes_on.set()
        same = await responses.create(model="clerk", input="x", background=True, stream=True, extra_headers=key)
        assert ((await _all(same))[-1].response.output_text, paused.times) == ("ab", 1)


async def test_another_server_of_the_same_store_gives_its_events_at_the_end(tmp_path: Path) -> None:
    paused, store = Paused(), f"sqlite:///{tmp_path}/runs.db"
    async with (
        talking(clerk(paused), wire="responses", store=store) as (talk, _),
        talking(clerk("never"), wire="responses", store=store) as (other, _),
    ):
        begun = await talk.client.responses.create(model="clerk", input="x", background=True)
        assert (await other.client.responses.retrieve(begun.id)).status == "in_progress"
        following = asyncio.ensure_future(_all(await other.client.responses.retrieve(begun.id, stream=True)))
        paused.goes_on.set()
        assert (await following)[-1].response.output_text == "ab"


async def test_after_the_end_of_its_server_another_goes_on_with_it(tmp_path: Path) -> None:
    paused, store = Paused(), f"sqlite:///{tmp_path}/runs.db"
    async with talking(clerk(paused), wire="responses", store=store) as (talk, _):
        begun = await talk.client.responses.create(model="clerk", input="x", background=True)
        await paused.began.wait()
    async with talking(clerk("Done."), wire="responses", store=store) as (talk, server):
        assert (await talk.client.responses.retrieve(begun.id)).status == "queued"
        run_id = begun.id.removeprefix("resp_")
        await server.post(f"/runs/{run_id}/resume")
        await server.until(run_id, "end")
        read = await talk.client.responses.retrieve(begun.id)
        assert (read.status, read.output_text) == ("completed", "Done.")

"""The official client of OpenAI reads, cancels and deletes responses that were given before."""

import asyncio
from typing import Any, cast

import openai
import pytest

from tests.serve.openai.test_openai import HELLO, clerk, talking
from tests.serve.test_app import paying
from ziggurat import tool
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.messages import tool_call


@tool
def look() -> str:
    """Look."""
    return "seen"


LOOK = [ThinkingDelta("Hm."), TextDelta("I look."), tool_call("look")]
WEATHER = [TextDelta("I ask."), tool_call("weather", city="Oslo")]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("replies", [["Hello."], [LOOK, "There."], [WEATHER]], ids=["text", "own tool", "client tool"])
async def test_a_response_is_read_as_it_was_given(replies: list[Any], streamed: bool) -> None:
    async with talking(clerk(*replies, tools=[look]), wire="responses", streamed=streamed) as (talk, _):
        given = await talk.ask(HELLO, tools=True)
        read = await talk.client.responses.retrieve(given.reply.id)
        assert same_fields(read) == same_fields(given.reply)


def same_fields(response: Any) -> dict[str, Any]:
    """Return what is the same of a response whenever it is read."""
    names = {"id", "model", "status", "output", "usage", "error", "incomplete_details"}
    return {name: _unparsed(value) for name, value in response.to_dict().items() if name in names}


def _unparsed(value: Any) -> Any:
    """Return data without what the client itself adds to the end of a stream."""
    if isinstance(value, list):
        return [_unparsed(each) for each in value]
    if isinstance(value, dict):
        return {name: _unparsed(each) for name, each in value.items() if name not in ("parsed", "parsed_arguments")}
    return value


async def test_what_waits_for_a_person_is_read_with_the_address_of_the_page() -> None:
    async with talking(paying([]), wire="responses") as (talk, server):
        given = await talk.ask(HELLO, model="desk")
        read = await talk.client.responses.retrieve(given.reply.id)
        assert read.output_text == given.text
        assert f"{server.address}/#/runs/{given.run_id}" in read.output_text


async def test_a_response_in_progress_is_cancelled_and_then_deleted() -> None:
    began, never = asyncio.Event(), asyncio.Event()

    def begin(_: Any) -> list[Any]:
        began.set()
        return [TextDelta("a"), never]

    async with talking(clerk(begin), wire="responses") as (talk, server):
        responses = talk.client.responses
        asking = asyncio.ensure_future(responses.create(model="clerk", input="Hello?"))
        await began.wait()
        [row] = (await server.get("/runs"))["runs"]
        name = f"resp_{row['run_id']}"
        assert (await responses.retrieve(name)).status == "in_progress"
        with pytest.raises(openai.ConflictError, match="in progress"):
            await responses.delete(name)
        assert (await responses.cancel(name)).status == "cancelled"
        with pytest.raises(openai.ConflictError):
            await asking
        assert (await responses.retrieve(name)).status == "cancelled"
        await responses.delete(name)
        for act in (responses.retrieve, responses.cancel, responses.delete):
            with pytest.raises(openai.NotFoundError):
                await act(name)
        assert (await server.get("/runs"))["runs"] == []


async def test_a_response_that_failed_says_why() -> None:
    async with talking(clerk(ValueError("broken")), wire="responses") as (talk, _):
        with pytest.raises(openai.InternalServerError) as raised:
            await talk.ask(HELLO)
        name = f"resp_{raised.value.response.headers['ziggurat-run-id']}"
        read = await talk.client.responses.retrieve(name)
        assert (read.status, read.output) == ("failed", [])
        assert "broken" in str(read.error)
        events = [event async for event in await talk.client.responses.retrieve(name, stream=True)]
        assert (events[-1].type, "broken" in str(events[-1])) == ("response.failed", True)


async def test_an_answer_is_cancelled_no_more() -> None:
    async with talking(clerk("Hello."), wire="responses") as (talk, _):
        given = await talk.ask(HELLO)
        assert (await talk.client.responses.cancel(given.reply.id)).output_text == "Hello."


async def test_other_ids_are_refused_in_the_shape_of_openai() -> None:
    async with talking(clerk("Hello."), wire="responses") as (talk, _):
        for name in ("resp_nobody", "nobody", "resp_a%2Fb", "resp_%00", "resp_" + "a" * 200):
            for method, end in (("get", ""), ("delete", ""), ("post", "/cancel")):
                with pytest.raises((openai.NotFoundError, openai.BadRequestError)):
                    await getattr(talk.client, method)(f"/responses/{name}{end}", cast_to=object)


@pytest.mark.parametrize("replies", [["Hello."], [LOOK, "There."], [WEATHER]], ids=["text", "own tool", "client tool"])
async def test_a_response_on_record_is_streamed(replies: list[Any]) -> None:
    async with talking(clerk(*replies, tools=[look]), wire="responses") as (talk, _):
        given = await talk.ask(HELLO, tools=True)
        retrieve = talk.client.responses.retrieve
        events = [event async for event in await retrieve(given.reply.id, stream=True)]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert [event.type for event in events][:: len(events) - 1] == ["response.created", "response.completed"]
        assert same_fields(cast("Any", events[-1]).response) == same_fields(given.reply)
        for after in (0, len(events) - 2, len(events) - 1, 1000):
            rest = [event async for event in await retrieve(given.reply.id, stream=True, starting_after=after)]
            assert rest[:-1] == events[after + 1 : -1]
            assert (rest[-1].type, rest[-1].sequence_number) == ("response.completed", max(len(events) - 1, after + 1))
        for wrong in ("x", "-1", "9" * 20):
            with pytest.raises(openai.BadRequestError, match="starting_after"):
                await retrieve(given.reply.id, stream=True, extra_query={"starting_after": wrong})
        async with talk.client.responses.stream(response_id=given.reply.id) as stream:
            assert (await stream.get_final_response()).output_text == given.reply.output_text

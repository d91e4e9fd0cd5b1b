"""The official client of OpenAI reads, cancels and deletes responses that were given before."""

import asyncio
from typing import Any

import openai
import pytest

from tests.serve.test_app import paying
from tests.serve.test_openai import HELLO, clerk, talking
from tests.teams.models import asynchronous
from ziggurat.messages.delta import TextDelta, ThinkingDelta
from ziggurat.messages.parts import tool_call
from ziggurat.tools.function import tool


@tool
def look() -> str:
    """Look."""
    return "seen"


LOOK = [ThinkingDelta("Hm."), TextDelta("I look."), tool_call("look")]
WEATHER = [TextDelta("I ask."), tool_call("weather", city="Oslo")]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("replies", [["Hello."], [LOOK, "There."], [WEATHER]], ids=["text", "own tool", "client tool"])
@asynchronous
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


@asynchronous
async def test_what_waits_for_a_person_is_read_with_the_address_of_the_page() -> None:
    async with talking(paying([]), wire="responses") as (talk, server):
        given = await talk.ask(HELLO, model="desk")
        read = await talk.client.responses.retrieve(given.reply.id)
        assert read.output_text == given.text
        assert f"{server.address}/#/runs/{given.run_id}" in read.output_text


@asynchronous
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


@asynchronous
async def test_a_response_that_failed_says_why() -> None:
    async with talking(clerk(ValueError("broken")), wire="responses") as (talk, _):
        with pytest.raises(openai.InternalServerError) as raised:
            await talk.ask(HELLO)
        read = await talk.client.responses.retrieve(f"resp_{raised.value.response.headers['ziggurat-run-id']}")
        assert (read.status, read.output) == ("failed", [])
        assert read.error is not None
        assert "broken" in read.error.message


@asynchronous
async def test_an_answer_is_cancelled_no_more() -> None:
    async with talking(clerk("Hello."), wire="responses") as (talk, _):
        given = await talk.ask(HELLO)
        assert (await talk.client.responses.cancel(given.reply.id)).output_text == "Hello."


@pytest.mark.parametrize("name", ["resp_nobody", "nobody", "resp_a%2Fb", "resp_%00", "resp_" + "a" * 200])
@asynchronous
async def test_other_ids_are_refused_in_the_shape_of_openai(name: str) -> None:
    async with talking(clerk("Hello."), wire="responses") as (talk, _):
        for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/cancel")):
            request: Any = getattr(talk.client, method.lower())
            with pytest.raises((openai.NotFoundError, openai.BadRequestError)):
                await request(f"/responses/{name}{end}", cast_to=object)


@asynchronous
async def test_a_response_on_record_is_not_streamed() -> None:
    async with talking(clerk("Hello."), wire="responses") as (talk, _):
        given = await talk.ask(HELLO)
        with pytest.raises(openai.BadRequestError, match="as a whole"):
            await talk.client.responses.retrieve(given.reply.id, stream=True)

"""The official client of OpenAI reads, cancels and deletes responses that were given before."""

import asyncio
from typing import Any, cast

import openai
import pytest

from tests.serve.test_app import paying
from tests.serve.test_openai import HELLO, clerk, talking
from ziggurat import tool
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.tools import tool_call


@tool
def look() -> str:
    """Look."""
    return "seen"


LOOK = [ThinkingDelta("Hm."), TextDelta("I look."), tool_call("look")]
PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "low"}
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


INPUT: list[Any] = [
    {"role": "user", "content": "One"},
    {"role": "assistant", "content": "Two"},
    {"role": "user", "content": [{"type": "input_text", "text": "Three"}, PICTURE]},
]


async def test_what_a_response_was_given_for_is_listed_in_pages() -> None:
    async with talking(clerk("Hello.", "Again."), wire="responses") as (talk, _):
        responses = talk.client.responses
        given = await responses.create(model="clerk", input=INPUT)
        listed = [item async for item in responses.input_items.list(given.id, order="asc")]
        contents = [part for item in listed for part in cast("Any", item).content]
        assert [getattr(part, "text", part.type) for part in contents] == ["One", "Two", "Three", "input_image"]
        assert [cast("Any", item).role for item in listed] == ["user", "assistant", "user", "user"]
        pages = await responses.input_items.list(given.id, limit=3)
        assert (pages.data, pages.has_more) == (listed[:0:-1], True)
        assert [item async for item in pages] == listed[::-1]
        rest = await responses.input_items.list(given.id, after=str(listed[2].id), order="asc")
        assert (rest.data, rest.has_more) == (listed[3:], False)
        more = await responses.create(model="clerk", input="Five", previous_response_id=given.id)
        assert len([item async for item in responses.input_items.list(more.id)]) == len(listed) + 2
        for wrong in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"order": "up"}):
            with pytest.raises(openai.BadRequestError):
                await responses.input_items.list(given.id, extra_query=wrong)
        with pytest.raises(openai.NotFoundError):
            await responses.input_items.list(given.id, after="msg_nobody")
        with pytest.raises(openai.NotFoundError):
            await responses.input_items.list("resp_nobody")


async def test_what_went_on_with_a_run_was_given_for_results_and_decisions() -> None:
    acts: list[int] = []
    async with talking(paying(acts), clerk(WEATHER, "Rain."), wire="responses") as (talk, _):
        first = await talk.ask(HELLO, model="desk")
        [request] = [item for item in first.reply.output if item.type == "mcp_approval_request"]
        yes = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        paid = await talk.ask(yes, model="desk", previous_response_id=first.reply.id)
        asked = await talk.ask(HELLO, tools=True)
        rain = await talk.ask(*talk.results(asked, "rain")[-1:], previous_response_id=asked.reply.id, tools=True)
        lists = [
            [item async for item in talk.client.responses.input_items.list(said.reply.id, order="asc")]
            for said in (paid, rain)
        ]
        assert [[item.type for item in items] for items in lists] == [
            ["message", "mcp_call", "mcp_approval_response"],
            ["message", "message", "function_call", "function_call_output"],
        ]
        call, output = cast("list[Any]", lists[1][-2:])
        assert (output.call_id, output.output) == (call.call_id, "rain")
        ids = [item.id for items in lists for item in items]
        assert len(set(ids)) == len(ids)


async def test_metadata_are_labels_of_the_run() -> None:
    async with talking(clerk("Hello."), wire="responses") as (talk, server):
        given = await talk.ask(HELLO, metadata={"user": "ann"})
        read = await talk.client.responses.retrieve(given.reply.id)
        assert (given.reply.metadata, read.metadata) == ({"user": "ann"}, {"user": "ann"})
        assert [row["run_id"] for row in (await server.get("/runs?label=user:ann"))["runs"]] == [given.run_id]

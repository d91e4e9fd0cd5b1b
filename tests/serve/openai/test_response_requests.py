"""Requests to OpenAI Responses as clients make them, written from the types of the official client."""

import json
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.serve.openai.test_openai import HELLO, WEATHER, clerk, talking, user
from tests.serve.test_app import paying
from ziggurat import Agent, Usage, tool
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
FUNCTION = {"type": "function", "strict": None, **WEATHER}
FILE = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,eA=="}
PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "low"}


@tool
def look(place: str = "here") -> str:
    """Look."""
    return f"seen {place}"


@tool
def slip() -> str:
    """Slip."""
    raise ValueError("slipped")


CALLS = [tool_call("look"), tool_call("slip"), tool_call("nothing")]
WORK: list[Any] = [ThinkingDelta("Hm."), TextDelta("I look."), *CALLS]
LAST = [TextDelta("a"), TextDelta("b"), tool_call("weather", city="Oslo")]


def working() -> Agent:
    return clerk(WORK, LAST, "Rain.", "Again.", tools=[look, slip])


async def test_all_that_is_sent_is_what_the_types_of_the_client_say() -> None:
    """The client itself takes anything; here the types are checked."""
    async with talking(working(), paying([])) as (_, server):
        for model in ("clerk", "desk"):
            body: dict[str, Any] = {"model": model, "input": "x", "instructions": "Brief.", "metadata": {"a": "b"}}
            body |= {"tools": [FUNCTION]} if model == "clerk" else {}
            async with server.client.stream("POST", "/v1/responses", json={**body, "stream": True}) as reply:
                events = [json.loads(line[6:]) async for line in reply.aiter_lines() if line.startswith("data: ")]
            assert len(events) > 5
            for event in events:
                EVENT.validate_python(event)
            whole = events[-1]["response"]
            Response.model_validate(await server.get(f"/v1/responses/{whole['id']}"))
            assert Response.model_validate(whole).metadata == {"a": "b"}
        plain = await server.post("/v1/responses", {"model": "clerk", "input": "x", "background": True})
        Response.model_validate(plain)


async def test_a_response_repeats_its_request() -> None:
    fields: dict[str, Any] = {
        "instructions": "Be kind.",
        "max_output_tokens": 99,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "temperature": 0.3,
        "text": {"format": {"type": "json_object"}},
        "tool_choice": {"type": "function", "name": "weather"},
        "tools": [FUNCTION],
        "truncation": "auto",
        "user": "ann",
    }
    async with talking(clerk("{}", "{}")) as (talk, _):
        given = await talk.client.responses.create(model="clerk", input="x", **fields)
        assert {name: given.to_dict()[name] for name in fields} == fields
        again = await talk.client.responses.create(model="clerk", input="x", previous_response_id=given.id)
        assert (again.previous_response_id, again.metadata, again.parallel_tool_calls) == (given.id, {}, True)


@pytest.mark.parametrize("as_dicts", [False, True])
async def test_the_output_is_the_input_of_the_next_request(as_dicts: bool) -> None:
    model = ScriptedModel(WORK, "There.", "Again.")
    async with talking(Agent(model, name="clerk", tools=[look, slip]), wire="responses") as (talk, _):
        first = await talk.ask(HELLO, store=False, include=["reasoning.encrypted_content"])
        output = [item.model_dump(exclude_none=True) for item in first.reply.output] if as_dicts else first.reply.output
        last = await talk.ask(HELLO, *output, user("And?"), store=False)
        assert last.text == "Again."
        assert [message.role for message in model.last.messages] == [
            "user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "user"
        ]  # fmt: skip
        results = [result for message in model.last.messages for result in message.tool_results]
        assert [result.error for result in results] == [None, "permanent", "permanent"]
        assert results[0].text == "seen here"


async def test_items_of_earlier_responses_are_named_by_their_ids() -> None:
    model = ScriptedModel("One.", "Two.")
    async with talking(Agent(model, name="clerk"), wire="responses") as (talk, _):
        first = await talk.ask(HELLO)
        item = {"type": "item_reference", "id": first.reply.output[0].id}
        await talk.ask(HELLO, item, user("And?"))
        assert [message.text for message in model.last.messages] == ["Hello?", "One.", "And?"]
        refused: list[tuple[str, type[openai.APIStatusError]]] = [
            ("msg_1", openai.BadRequestError),
            (f"{item['id']}0", openai.BadRequestError),
            ("msg_nobody_0", openai.NotFoundError),
        ]
        for name, kind in refused:
            with pytest.raises(kind):
                await talk.ask({"type": "item_reference", "id": name}, HELLO)


async def test_files_and_pictures_reach_the_model() -> None:
    model = ScriptedModel("Seen.", "Seen.")
    async with talking(Agent(model, name="clerk"), wire="responses") as (talk, _):
        await talk.ask({"role": "user", "content": [{"type": "input_text", "text": "See."}, PICTURE, FILE]})
        parts = [type(part).__name__ for part in model.last.messages[-1].parts]
        assert parts == ["Text", "Image", "File"]
        part: Any = model.last.messages[-1].parts[-1]
        assert (part.data, part.name, part.media_type) == (b"x", "a.pdf", "application/pdf")
        with pytest.raises(openai.BadRequestError):
            await talk.ask({"role": "user", "content": [FILE | {"file_data": "data:application/pdf;base64,e"}]})


async def test_results_of_the_client_come_with_a_message_of_the_user() -> None:
    model = ScriptedModel(tool_call("weather", city="Oslo"), "Rain.")
    async with talking(Agent(model, name="clerk"), wire="responses") as (talk, _):
        first = await talk.ask(HELLO, tools=True)
        [result] = talk.results(first, "rain")[-1:]
        last = await talk.ask(result, user("In short."), previous_response_id=first.reply.id, tools=True)
        assert (last.text, last.run_id) == ("Rain.", first.run_id)
        assert [message.text for message in model.last.messages if message.role == "user"] == ["Hello?", "In short."]


WRONG: list[dict[str, Any]] = [
    {"input": ""},
    {"input": [{"type": "computer_call_output", "call_id": "x", "output": {}}, HELLO]},
    {"input": [{"type": "function_call_output", "call_id": "call_nobody", "output": "x"}]},
    {"tools": [{"type": "custom", "name": "x"}]},
    {"tools": [{"type": "mcp", "server_label": "x", "server_url": "http://x"}]},
    {"conversation": "conv_1"},
    {"prompt": {"id": "pmpt_1"}},
    {"previous_response_id": "resp_a~b"},
]


async def test_what_no_agent_can_answer_is_refused() -> None:
    async with talking(clerk("x")) as (talk, server):
        for change in WRONG:
            with pytest.raises(openai.BadRequestError):
                await talk.client.post("/responses", body={"model": "clerk", "input": "x"} | change, cast_to=object)
        assert (await server.get("/runs"))["runs"] == []


async def test_what_is_not_found_is_named() -> None:
    async with talking(clerk("x")) as (talk, _):
        responses = talk.client.responses
        asking: list[tuple[str, Any]] = [
            ("model_not_found", responses.create(model="nobody", input="x")),
            ("previous_response_not_found", responses.create(model="clerk", input="x", previous_response_id="resp_1")),
            ("response_not_found", responses.retrieve("resp_1")),
        ]
        for code, answer in asking:
            with pytest.raises(openai.NotFoundError) as raised:
                await answer
            assert raised.value.code == code


async def test_tokens_are_estimated() -> None:
    async with talking(clerk("x")) as (talk, _):
        counted = await talk.client.responses.input_tokens.count(model="clerk", input="x" * 400)
        assert (100 <= counted.input_tokens < 110, counted.object) == (True, "response.input_tokens")


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_usage_is_that_of_all_agents(streamed: bool) -> None:
    inner = ScriptedModel(tool_call("look"), "Seen.", usage=Usage(input=5, output=2, cache_write=1, requests=1))
    agent = clerk(
        tool_call("inner", input="x"), "Done.", tools=[Agent(inner, name="inner", description="d", tools=[look])]
    )
    async with talking(agent, wire="responses", streamed=streamed) as (talk, _):
        said = await talk.ask(HELLO)
        assert said.tokens == (30, 12)
        assert said.reply.usage.input_tokens_details.cache_write_tokens == 2

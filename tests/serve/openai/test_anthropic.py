"""The official client of Anthropic talks with agents: messages, streams of events, its own tools, errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import pytest
from anthropic.types import MessageParam, ToolParam

from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_app import paying
from ziggurat import Agent, ModelRequest, Usage, tool
from ziggurat.errors import ModelError
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.flows import flow
from ziggurat.messages import tool_call
from ziggurat.serve import app
from ziggurat.testing import ScriptedModel

WEATHER: ToolParam = {
    "name": "weather",
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
HELLO: list[MessageParam] = [{"role": "user", "content": "Hello?"}]


@asynccontextmanager
async def both(
    *agents: Any, token: str = TOKEN, **arguments: Any
) -> AsyncIterator[tuple[anthropic.AsyncAnthropic, Serving]]:
    async with (
        serving(app(agents, token=TOKEN, **arguments)) as server,
        anthropic.AsyncAnthropic(base_url=server.address, api_key=token) as client,
    ):
        yield client, server


@asynccontextmanager
async def client_of(*agents: Any, **arguments: Any) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with both(*agents, **arguments) as (client, _):
        yield client


def clerk(*replies: Any, **arguments: Any) -> Agent:
    return Agent(ScriptedModel(*replies, usage=Usage(input=10, output=4, requests=1)), name="clerk", **arguments)


async def test_a_message_is_answered_by_a_run_that_is_on_record() -> None:
    async with both(clerk("Good day.")) as (client, server):
        raw = await client.messages.with_raw_response.create(
            model="clerk", max_tokens=100, messages=HELLO, system="Be polite."
        )
        message = await raw.parse()
        [block] = message.content
        assert block.type == "text"
        assert (block.text, message.stop_reason, message.role, message.model) == (
            "Good day.",
            "end_turn",
            "assistant",
            "clerk",
        )
        assert (message.usage.input_tokens, message.usage.output_tokens) == (10, 4)
        run = await server.get(f"/runs/{raw.headers['ziggurat-run-id']}")
        assert (run["status"], run["output"], run["prompt"]) == ("Completed", "Good day.", "Hello?")
        assert message.id == f"msg_{run['run_id']}"


async def test_a_stream_has_all_kinds_of_events_in_order() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    first = [ThinkingDelta("Hm."), ThinkingDelta(signature="proof"), TextDelta("I look."), tool_call("look")]
    async with client_of(clerk(first, [TextDelta("It is "), TextDelta("there.")], tools=[look])) as client:
        events: list[Any] = []
        async with client.messages.stream(model="clerk", max_tokens=100, messages=HELLO) as stream:
            async for event in stream:
                events.append(event)
            message = await stream.get_final_message()
        thought, text = message.content
        assert thought.type == "thinking"
        assert (thought.thinking, thought.signature) == ("Hm.", "proof")
        assert text.type == "text"
        assert text.text == "I look.\n\nIt is there."
        assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("end_turn", 20, 8)
        kinds = [event.type for event in events if event.type not in ("text", "thinking", "signature")]
        assert kinds == [
            "message_start",
            *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
            *("content_block_start", *["content_block_delta"] * 3, "content_block_stop"),
            *("message_delta", "message_stop"),
        ]


@pytest.mark.parametrize("streamed", [False, True])
async def test_tools_of_the_client_are_called_by_the_client_in_the_same_run(streamed: bool) -> None:
    replies = [
        [TextDelta("I ask."), tool_call("weather", city="Oslo"), tool_call("weather", city="Rome")],
        "Rain, sun.",
    ]
    async with both(clerk(*replies)) as (client, server):

        async def ask(messages: list[MessageParam]) -> anthropic.types.Message:
            arguments: Any = {"model": "clerk", "max_tokens": 100, "messages": messages, "tools": [WEATHER]}
            if not streamed:
                message: anthropic.types.Message = await client.messages.create(**arguments)
                return message
            async with client.messages.stream(**arguments) as stream:
                return await stream.get_final_message()

        first = await ask(HELLO)
        assert first.stop_reason == "tool_use"
        text, *calls = first.content
        assert (text.type, [call.type for call in calls]) == ("text", ["tool_use", "tool_use"])
        assert [call.input for call in calls if call.type == "tool_use"] == [{"city": "Oslo"}, {"city": "Rome"}]
        results: Any = [
            {"type": "tool_result", "tool_use_id": call.id, "content": content}
            for call, content in zip(calls, ("rain", "sun"), strict=True)
            if call.type == "tool_use"
        ]
        answer: MessageParam = {"role": "assistant", "content": first.content}
        last = await ask([*HELLO, answer, {"role": "user", "content": results}])
        [block] = last.content
        assert block.type == "text"
        assert (block.text, last.stop_reason, last.id) == ("Rain, sun.", "end_turn", first.id)
        assert [row["status"] for row in (await server.get("/runs"))["runs"]] == ["Completed"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("error", [ValueError("broken"), ModelError("slow down", transient=False)])
async def test_a_run_that_fails_is_an_error_that_is_not_tried_again(error: Exception, streamed: bool) -> None:
    async with both(clerk(error)) as (client, server):
        with pytest.raises(anthropic.InternalServerError) as raised:
            if streamed:
                async with client.messages.stream(model="clerk", max_tokens=9, messages=HELLO) as stream:
                    await stream.get_final_message()
            else:
                await client.messages.create(model="clerk", max_tokens=9, messages=HELLO)
        assert raised.value.status_code == 500
        assert str(error) in raised.value.message
        assert len((await server.get("/runs"))["runs"]) == 1


async def test_an_error_in_the_middle_of_a_stream_is_its_last_event() -> None:
    async with client_of(clerk([TextDelta("Well, "), ValueError("broken")])) as client:
        said: list[str] = []
        with pytest.raises(anthropic.APIStatusError, match="broken"):
            async with client.messages.stream(model="clerk", max_tokens=9, messages=HELLO) as stream:
                async for text in stream.text_stream:
                    said.append(text)
        assert said == ["Well, "]


WRONG: list[dict[str, Any]] = [
    {"model": "nobody"},
    {"messages": []},
    {"messages": [{"role": "assistant", "content": "x"}]},
    {"messages": "x"},
    {"extra_body": {"max_tokens": "many"}},
    {"tools": [{"name": "no name", "input_schema": {"type": "object"}}]},
    {"tools": [{"name": "x", "input_schema": {"type": "strange"}}]},
    {"extra_headers": {"Idempotency-Key": "../x"}},
    {"model": "add", "system": "Be brief."},
]


async def test_the_tool_runner_of_the_sdk_runs_its_tools() -> None:
    """It begins a thread of the server, and sends whole conversations where there are none."""

    def reply(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            return f"The tool said: {request.messages[-1].tool_results[0].text}"
        return tool_call("weather", city="Rome")

    @anthropic.beta_async_tool
    async def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city}"

    async with client_of(Agent(ScriptedModel(always=reply), name="desk")) as client:
        asked: list[Any] = [{"role": "user", "content": "The weather?"}]
        runner = client.beta.messages.tool_runner(model="desk", max_tokens=99, tools=[weather], messages=asked)
        message: Any = await runner.until_done()
        assert message.content[0].text == "The tool said: sunny in Rome"


async def test_wrong_requests_are_refused_in_the_shape_of_anthropic() -> None:
    @flow
    async def add(text: str) -> str:
        return text

    async with client_of(clerk("x"), add) as client:
        for change in WRONG:
            arguments: dict[str, Any] = {"model": "clerk", "max_tokens": 9, "messages": HELLO} | change
            unknown = arguments["model"] == "nobody"
            with pytest.raises(anthropic.NotFoundError if unknown else anthropic.BadRequestError) as raised:
                await client.messages.create(**arguments)
            body: Any = raised.value.body
            assert (body["type"], bool(body["error"]["message"])) == ("error", True)
            assert body["error"]["type"] == ("not_found_error" if unknown else "invalid_request_error"), change


async def test_who_has_another_key_is_refused() -> None:
    async with client_of(clerk("x"), token="another-token-altogether") as client:
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.create(model="clerk", max_tokens=9, messages=HELLO)


async def test_the_same_key_gives_the_same_run() -> None:
    model = ScriptedModel("One.", "Two.")
    async with client_of(Agent(model, name="clerk")) as client:
        arguments: Any = {"model": "clerk", "max_tokens": 9, "messages": HELLO}
        headers = {"Idempotency-Key": "order-7"}
        first, second = [await client.messages.create(**arguments, extra_headers=headers) for _ in range(2)]
        assert first.content == second.content
        assert len(model.calls) == 1
        changed = arguments | {"messages": [{"role": "user", "content": "Another?"}]}
        with pytest.raises(anthropic.ConflictError):
            await client.messages.create(**changed, extra_headers=headers)


async def test_as_many_runs_as_may_be_are_answered_and_others_told_to_wait() -> None:
    never = asyncio.Event()
    async with both(clerk([TextDelta("a"), never]), max_runs=1) as (client, _):
        busy = client.with_options(max_retries=0)
        async with busy.messages.stream(model="clerk", max_tokens=9, messages=HELLO) as stream:
            async for _ in stream.text_stream:
                break
            with pytest.raises(anthropic.InternalServerError) as raised:
                await busy.messages.create(model="clerk", max_tokens=9, messages=HELLO)
            body: Any = raised.value.body
            assert (raised.value.status_code, body["error"]["type"]) == (503, "overloaded_error")
            assert raised.value.response.headers["retry-after"] == "1"


@pytest.mark.parametrize("streamed", [False, True])
async def test_when_the_client_has_gone_its_run_is_cancelled(streamed: bool) -> None:
    began = asyncio.Event()

    def begin(_: Any) -> list[Any]:
        began.set()
        return [TextDelta("a"), asyncio.Event()]

    async with both(clerk(begin)) as (client, server):
        arguments: Any = {"model": "clerk", "max_tokens": 9, "messages": HELLO, "stream": streamed}
        asking = asyncio.ensure_future(client.messages.create(**arguments))
        await began.wait()
        if streamed:
            await (await asking).close()
        else:
            asking.cancel()
        [row] = (await server.get("/runs"))["runs"]
        assert (await server.until(row["run_id"], "end"))["status"] == "Cancelled"


async def test_a_server_that_ends_says_so_and_the_run_can_be_resumed() -> None:
    async with both(clerk([TextDelta("a"), asyncio.Event()], "Done.")) as (client, server):
        patient = client.with_options(max_retries=0)
        async with patient.messages.stream(model="clerk", max_tokens=9, messages=HELLO) as stream:
            with pytest.raises(anthropic.APIStatusError, match="can be resumed"):
                async for _ in stream.text_stream:
                    server.application.agents.closing.close()


async def test_who_must_decide_gets_the_address_of_the_page() -> None:
    async with both(paying([])) as (client, server):
        message = await client.messages.create(model="desk", max_tokens=9, messages=HELLO)
        [block] = message.content
        assert block.type == "text"
        [row] = (await server.get("/runs"))["runs"]
        assert f"{server.address}/#/runs/{row['run_id']}" in block.text
        assert (row["status"], message.stop_reason) == ("Suspended", "end_turn")


async def test_tokens_are_counted_and_models_listed() -> None:
    async with client_of(clerk("x")) as client:
        few, many = [
            await client.messages.count_tokens(
                model="clerk", messages=[{"role": "user", "content": "word " * count}], tools=[WEATHER]
            )
            for count in (10, 1000)
        ]
        assert 0 < few.input_tokens < many.input_tokens
        assert many.input_tokens > 1000
        assert [model.id async for model in client.models.list()] == ["clerk"]
        assert (await client.models.retrieve("clerk")).id == "clerk"
        with pytest.raises(anthropic.NotFoundError):
            await client.models.retrieve("nobody")


async def test_a_picture_reaches_the_model() -> None:
    model = ScriptedModel("A dot.")
    async with client_of(Agent(model, name="clerk")) as client:
        source: Any = {"type": "base64", "media_type": "image/png", "data": "aGk="}
        content: Any = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]
        await client.messages.create(model="clerk", max_tokens=9, messages=[{"role": "user", "content": content}])
        _, picture = model.last.messages[-1].parts
        assert getattr(picture, "data", None) == b"hi"

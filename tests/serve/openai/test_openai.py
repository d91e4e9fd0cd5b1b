"""The official client of OpenAI talks with agents: Chat Completions and Responses, streams, its own tools, errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from tests.samples import sample
from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_app import paying
from ziggurat import Agent, Usage, tool
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.flows import flow
from ziggurat.messages import tool_call
from ziggurat.serve import app
from ziggurat.testing import ScriptedModel

Wire = Literal["chat", "responses"]
WIRES: tuple[Wire, ...] = ("chat", "responses")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "The weather in a city.", "parameters": CITY}


class Forecast(BaseModel):
    city: str
    degrees: int


class Said:
    """What is common to the answers of both APIs."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        if isinstance(reply, openai.types.chat.ChatCompletion):
            message = reply.choices[0].message
            self.text = message.content
            calls = [each for each in message.tool_calls or () if each.type == "function"]
            self.calls = [(each.id, each.function.arguments) for each in calls]
            self.finish = str(reply.choices[0].finish_reason)
            self.tokens = (reply.usage.prompt_tokens, reply.usage.completion_tokens) if reply.usage else None
            self.run_id = reply.id.removeprefix("chatcmpl-")
        else:
            self.text = reply.output_text or None
            self.calls = [(each.call_id, each.arguments) for each in reply.output if each.type == "function_call"]
            self.finish = reply.status
            self.tokens = (reply.usage.input_tokens, reply.usage.output_tokens)
            self.run_id = reply.id.removeprefix("resp_").partition("~")[0]


class Talk:
    """Asks by one of the APIs, plainly or by a stream, as their clients do."""

    def __init__(self, client: openai.AsyncOpenAI, wire: Wire, streamed: bool) -> None:
        self.client = client
        self.wire = wire
        self.streamed = streamed

    async def ask(self, *history: Any, model: str = "clerk", tools: bool = False, **more: Any) -> Said:
        arguments: dict[str, Any] = {"model": model, **more}
        if self.wire == "chat":
            arguments["messages"] = history
            arguments |= {"tools": [{"type": "function", "function": WEATHER}]} if tools else {}
            return Said(await self._chat(arguments))
        arguments["input"] = list(history)
        arguments |= {"tools": [{"type": "function", **WEATHER}]} if tools else {}
        return Said(await self._responses(arguments))

    async def _chat(self, arguments: dict[str, Any]) -> Any:
        if not self.streamed:
            return await self.client.chat.completions.create(**arguments)
        arguments |= {"stream_options": {"include_usage": True}}
        async with self.client.chat.completions.stream(**arguments) as stream:
            return await stream.get_final_completion()

    async def _responses(self, arguments: dict[str, Any]) -> Any:
        if not self.streamed:
            return await self.client.responses.create(**arguments)
        async with self.client.responses.stream(**arguments) as stream:
            return await stream.get_final_response()

    def results(self, said: Said, *texts: str) -> list[Any]:
        """Return what was said, and the results of its calls, as the messages or items that come next."""
        results = list(zip(said.calls, texts, strict=True))
        if self.wire == "chat":
            told = [{"role": "tool", "tool_call_id": call, "content": text} for (call, _), text in results]
            return [said.reply.choices[0].message.model_dump(exclude_none=True, exclude={"parsed"}), *told]
        told = [{"type": "function_call_output", "call_id": call, "output": text} for (call, _), text in results]
        return [*(item.model_dump(exclude_none=True) for item in said.reply.output), *told]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


HELLO = user("Hello?")


def clerk(*replies: Any, **arguments: Any) -> Agent:
    return Agent(ScriptedModel(*replies, usage=Usage(input=10, output=4, requests=1)), name="clerk", **arguments)


@asynccontextmanager
async def talking(
    *agents: Any, wire: Wire = "chat", streamed: bool = False, token: str = TOKEN, **arguments: Any
) -> AsyncIterator[tuple[Talk, Serving]]:
    async with (
        serving(app(agents, token=TOKEN, **arguments)) as server,
        openai.AsyncOpenAI(base_url=f"{server.address}/v1", api_key=token, max_retries=1) as client,
    ):
        yield Talk(client, wire, streamed), server


each_way = pytest.mark.parametrize(
    ("wire", "streamed"),
    [(wire, streamed) for wire in WIRES for streamed in (False, True)],
    ids=lambda value: value if isinstance(value, str) else "stream" if value else "plain",
)
each_wire = pytest.mark.parametrize("wire", WIRES)


@each_way
async def test_a_request_is_answered_by_a_run_that_is_on_record(wire: Wire, streamed: bool) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    first = [ThinkingDelta("Hm."), TextDelta("I look."), tool_call("look")]
    agent = clerk(first, [TextDelta("It is "), TextDelta("there.")], tools=[look])
    async with talking(agent, wire=wire, streamed=streamed) as (talk, server):
        said = await talk.ask(HELLO)
        assert said.text == "I look.\n\nIt is there."
        assert (said.calls, said.tokens) == ([], (20, 8))
        assert said.finish == {"chat": "stop", "responses": "completed"}[wire]
        assert (said.reply.model, "Hm." in said.reply.model_dump_json()) == ("clerk", True)
        run = await server.get(f"/runs/{said.run_id}")
        assert (run["status"], run["output"], run["prompt"]) == ("Completed", "It is there.", "Hello?")


@each_wire
async def test_a_stream_comes_piece_by_piece(wire: Wire) -> None:
    """A piece is here before the model has the next one."""
    heard = asyncio.Event()
    async with talking(clerk([TextDelta("One, "), heard, TextDelta("two.")]), wire=wire) as (talk, _):
        pieces: list[str] = []
        if wire == "chat":
            arguments: Any = {"model": "clerk", "messages": [HELLO], "stream": True}
            async for chunk in await talk.client.chat.completions.create(**arguments):
                assert chunk.usage is None
                pieces += [chunk.choices[0].delta.content or ""]
                heard.set() if pieces[-1] else None
        else:
            async for event in await talk.client.responses.create(model="clerk", input="Hello?", stream=True):
                if event.type == "response.output_text.delta":
                    pieces.append(event.delta)
                    heard.set()
        assert [piece for piece in pieces if piece] == ["One, ", "two."]


@each_way
async def test_tools_of_the_client_are_called_by_the_client_in_the_same_run(wire: Wire, streamed: bool) -> None:
    asked = [TextDelta("I ask."), tool_call("weather", city="Oslo"), tool_call("weather", city="Rome")]
    async with talking(clerk(asked, "Rain, sun."), wire=wire, streamed=streamed) as (talk, server):
        first = await talk.ask(HELLO, tools=True)
        assert first.finish == {"chat": "tool_calls", "responses": "completed"}[wire]
        assert (first.text, [arguments for _, arguments in first.calls]) == (
            "I ask.",
            ['{"city":"Oslo"}', '{"city":"Rome"}'],
        )
        last = await talk.ask(HELLO, *talk.results(first, "rain", "sun"), tools=True)
        assert (last.text, last.calls, last.run_id) == ("Rain, sun.", [], first.run_id)
        [row] = (await server.get("/runs"))["runs"]
        assert row["status"] == "Completed"


@each_way
async def test_an_answer_fits_the_schema_of_the_client(wire: Wire, streamed: bool) -> None:
    answer = '{"city":"Oslo","degrees":-3}'
    async with talking(clerk(answer), wire=wire, streamed=streamed) as (talk, _):
        if wire == "chat":
            arguments: Any = {"model": "clerk", "messages": [HELLO], "response_format": Forecast}
            if streamed:
                async with talk.client.chat.completions.stream(**arguments) as chunks:
                    completion = await chunks.get_final_completion()
            else:
                completion = await talk.client.chat.completions.parse(**arguments)
            parsed = completion.choices[0].message.parsed
        else:
            arguments = {"model": "clerk", "input": "Hello?", "text_format": Forecast}
            if streamed:
                async with talk.client.responses.stream(**arguments) as events:
                    parsed = (await events.get_final_response()).output_parsed
            else:
                parsed = (await talk.client.responses.parse(**arguments)).output_parsed
        assert parsed == Forecast(city="Oslo", degrees=-3)


@each_wire
async def test_the_messages_are_the_conversation(wire: Wire) -> None:
    model = ScriptedModel("Ann.")
    async with talking(Agent(model, name="clerk", instructions="Be kind."), wire=wire) as (talk, _):
        system = {"role": "developer", "content": "Be brief."}
        said = await talk.ask(
            system, user("I am Ann."), {"role": "assistant", "content": "Hello."}, user("Who am I?"), temperature=0.9
        )
        assert said.text == "Ann."
        assert [(each.role, each.text) for each in model.last.messages] == [
            ("user", "I am Ann."),
            ("assistant", "Hello."),
            ("user", "Who am I?"),
        ]
        assert model.last.instructions == "Be kind.\n\nBe brief."
        assert model.last.settings.temperature is None  # the settings are the agent's


@each_way
async def test_a_run_that_fails_is_an_error_that_is_not_tried_again(wire: Wire, streamed: bool) -> None:
    async with talking(clerk(ValueError("broken")), wire=wire, streamed=streamed) as (talk, server):
        with pytest.raises(openai.InternalServerError, match="broken") as raised:
            await talk.ask(HELLO)
        assert (raised.value.status_code, raised.value.type) == (500, "server_error")
        [row] = (await server.get("/runs"))["runs"]
        assert raised.value.response.headers["ziggurat-run-id"] == row["run_id"]


async def test_an_error_in_the_middle_of_a_stream_is_its_last_event() -> None:
    def fails() -> Agent:
        return clerk([TextDelta("Well, "), ValueError("broken")])

    async with talking(fails(), wire="chat", streamed=True) as (talk, _):
        with pytest.raises(openai.APIError, match="broken"):
            await talk.ask(HELLO)
    async with talking(fails()) as (talk, _):
        events: list[Any] = []
        async for event in await talk.client.responses.create(model="clerk", input="Hello?", stream=True):
            events.append(event)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        *_, error, failed = events
        assert (error.type, "broken" in error.message, failed.type) == ("error", True, "response.failed")
        assert (failed.response.status, "broken" in failed.response.error.message) == ("failed", True)


OLDER = {"role": "function", "name": "f", "content": "x"}
WRONG: list[dict[str, Any]] = [
    {"model": "nobody"},
    {"input": [], "messages": []},
    {"input": 3, "messages": 3},
    {"model": 3},
    {"n": 2},
    {"tools": [{"type": "function", "function": {"name": "no name"}, "name": "no name"}]},
    {"tools": [{"type": "web_search"}]},
    {"extra_headers": {"Idempotency-Key": "../x"}},
    {"messages": [HELLO, OLDER], "input": [HELLO, OLDER]},
    {"model": "add", "instructions": "Brief.", "messages": [{"role": "system", "content": "x"}, HELLO]},
]


@each_wire
async def test_wrong_requests_are_refused_in_the_shape_of_openai(wire: Wire) -> None:
    @flow
    async def add(text: str) -> str:
        return text

    path = {"chat": "/chat/completions", "responses": "/responses"}[wire]
    async with talking(clerk("x"), add, wire=wire) as (talk, server):
        for change in WRONG:
            body: dict[str, Any] = {"model": "clerk", "messages": [HELLO], "input": "Hello?"} | change
            headers = body.pop("extra_headers", {})
            unknown = body["model"] == "nobody"
            with pytest.raises(openai.NotFoundError if unknown else openai.BadRequestError) as raised:
                await talk.client.post(path, body=body, cast_to=object, options={"headers": headers})
            assert raised.value.type == "invalid_request_error", change
            error: Any = raised.value.body
            assert set(error) == {"message", "type", "param", "code"}
            assert (error["code"] == "model_not_found") == unknown
        assert (await server.get("/runs"))["runs"] == []


@each_wire
async def test_who_has_another_key_is_refused(wire: Wire) -> None:
    async with talking(clerk("x"), wire=wire, token="another-token-altogether") as (talk, _):
        with pytest.raises(openai.AuthenticationError) as raised:
            await talk.ask(HELLO)
        assert raised.value.code == "invalid_api_key"


@pytest.mark.parametrize("store", [None, False, True])
@each_way
async def test_a_client_that_goes_away_cancels_its_run_unless_it_is_stored(
    wire: Wire, streamed: bool, store: bool | None
) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()

    def begin(_: Any) -> list[Any]:
        began.set()
        return [TextDelta("a"), goes_on, TextDelta("b")]

    async with talking(clerk(begin), wire=wire) as (talk, server):
        arguments: Any = {"model": "clerk", "stream": streamed} | ({} if store is None else {"store": store})
        create: Any = talk.client.chat.completions.create if wire == "chat" else talk.client.responses.create
        arguments |= {"messages": [HELLO]} if wire == "chat" else {"input": "Hello?"}
        asking = asyncio.ensure_future(create(**arguments))
        await began.wait()
        if streamed:
            await (await asking).close()
        else:
            asking.cancel()
        [row] = (await server.get("/runs"))["runs"]
        if store or (store is None and wire == "responses"):
            goes_on.set()
            ended = await server.until(row["run_id"], "end")
            assert (ended["status"], ended["output"]) == ("Completed", "ab")
        else:
            assert (await server.until(row["run_id"], "end"))["status"] == "Cancelled"


@each_way
async def test_who_must_decide_gets_the_address_of_the_page(wire: Wire, streamed: bool) -> None:
    acts: list[int] = []
    async with talking(paying(acts), wire=wire, streamed=streamed) as (talk, server):
        said = await talk.ask(HELLO, model="desk")
        assert f"{server.address}/#/runs/{said.run_id}" in str(said.text)
        assert ((await server.get(f"/runs/{said.run_id}"))["status"], acts) == ("Suspended", [])


@pytest.mark.parametrize("wire", sample(WIRES, 1))
async def test_fifty_at_once_each_get_their_own_answer(wire: Wire) -> None:
    def echo(request: Any) -> str:
        return str(request.messages[-1].text)

    agent = Agent(ScriptedModel(always=echo), name="clerk")
    async with talking(agent, wire=wire, streamed=True, max_runs=60) as (talk, _):

        async def ask(number: int) -> str | None:
            return (await talk.ask(user(f"number {number}"))).text

        assert await asyncio.gather(*map(ask, range(50))) == [f"number {number}" for number in range(50)]


async def test_agents_are_listed_as_models() -> None:
    async with talking(clerk("x"), paying([])) as (talk, _):
        assert [model.id async for model in talk.client.models.list()] == ["clerk", "desk"]
        assert (await talk.client.models.retrieve("desk")).id == "desk"
        with pytest.raises(openai.NotFoundError):
            await talk.client.models.retrieve("nobody")


async def test_a_response_is_the_beginning_of_the_next_ones() -> None:
    """Two of them may go on with the same one; neither sees what the other said."""
    model = ScriptedModel("Hello Ann.", "Ann.", "Bea.")
    async with talking(Agent(model, name="clerk")) as (talk, _):
        create = talk.client.responses.create
        first = await create(model="clerk", input="I am Ann.")
        second = await create(model="clerk", input="Who am I?", previous_response_id=first.id)
        assert second.output_text == "Ann."
        assert [each.text for each in model.last.messages] == ["I am Ann.", "Hello Ann.", "Who am I?"]
        await create(model="clerk", input="Now I am Bea.", previous_response_id=first.id)
        assert [each.text for each in model.last.messages] == ["I am Ann.", "Hello Ann.", "Now I am Bea."]
        with pytest.raises(openai.NotFoundError):
            await create(model="clerk", input="Who am I?", previous_response_id="resp_nobody")


async def test_results_alone_go_on_with_a_response_that_called_a_tool_of_the_client() -> None:
    model = ScriptedModel([TextDelta("I ask."), tool_call("weather", city="Oslo")], "Rain.", "Still.")
    async with talking(Agent(model, name="clerk"), wire="responses") as (talk, _):
        first = await talk.ask(HELLO, tools=True)
        [result] = talk.results(first, "rain")[-1:]
        second = await talk.ask(result, previous_response_id=first.reply.id, tools=True)
        assert (second.text, second.run_id) == ("Rain.", first.run_id)
        third = await talk.ask(user("And now?"), previous_response_id=second.reply.id, tools=True)
        assert third.text == "Still."
        texts = [part.text for each in model.last.messages for part in each.tool_results]
        assert texts == ["rain"]

"""Agents on this wire, asked over real HTTP on loopback, plain and streamed."""

import asyncio
import json
from typing import Any

import pytest
from msgspec import Struct

from ziggurat import Agent, ModelResponse, ToolCall, tool
from ziggurat.events import Delta
from ziggurat.fake_provider import FakeProvider
from ziggurat.messages import Thinking, assistant, tool_call
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.http.providers import Provider


@tool
async def add(a: int, b: int) -> int:
    return a + b


class Sum(Struct):
    total: int


def asked(stream: bool, server: FakeProvider, dialect: str = "openai", **settings: Any) -> tuple[Any, list[Delta]]:
    heard: list[Delta] = []

    def listen(event: object) -> None:
        if isinstance(event, Delta):
            heard.append(event)

    async def main() -> Any:
        async with server, Provider(DIALECTS[dialect])("m", key="k", base_url=f"{server.url}/v1") as model:
            agent = Agent(model, **settings)
            return await agent.run("Add.", listeners=[listen] if stream else [])

    return asyncio.run(main()), heard


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_and_parallel_tools(stream: bool) -> None:
    both = assistant(Thinking("hm"), "so:", tool_call("add", id="x", a=1, b=2), tool_call("add", id="y", a=3, b=4))
    server = FakeProvider(both, "3 and 7.")
    run, heard = asked(stream, server, "groq", tools=[add])
    assert run.text == "3 and 7."
    assert run.model_calls == 2
    assert bool(heard) == stream
    sent = json.loads(server.last.body)
    assert sent.get("stream", False) == stream
    _, said, one, two = sent["messages"]
    assert (said["content"], said["reasoning"]) == ("so:", "hm")
    assert [call["id"] for call in said["tool_calls"]] == ["x", "y"]
    assert (one["tool_call_id"], one["content"]) == ("x", "3")
    assert (two["tool_call_id"], two["content"]) == ("y", "7")


@pytest.mark.parametrize("stream", [False, True])
def test_structured_output(stream: bool) -> None:
    server = FakeProvider('{"total": 3}')
    run, _ = asked(stream, server, output=Sum)
    assert run.output == Sum(3)
    assert json.loads(server.last.body)["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("stream", [False, True])
def test_arguments_cut_by_length_run_no_tool(stream: bool) -> None:
    cut = ModelResponse(assistant(ToolCall("x", "add", '{"a": 1, "b": ')), "length")
    run, _ = asked(stream, FakeProvider(cut, "I was cut."), tools=[add])
    assert run.text == "I was cut."
    assert run.messages[2].tool_results[0].error == "invalid_arguments"

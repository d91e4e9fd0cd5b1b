"""Tools with typed results have an output schema and structured content, in both eras."""

from typing import Any

import pytest
from msgspec import Struct

from tests.serve.mcp.clients import LegacyClient, ModernClient, serving_mcp
from ziggurat import Agent, ToolError, tool
from ziggurat.flows import ask, flow
from ziggurat.messages import Image, tool_call
from ziggurat.testing import ScriptedModel
from ziggurat.tools.schema import schema_of
from ziggurat.tools.validator import SchemaValidator


class City(Struct):
    """A city."""

    name: str
    people: int | None = None


@tool
def find(name: str) -> City:
    """Find a city."""
    if not name:
        raise ToolError("no name")
    return City(name, 7)


@tool
async def choose() -> dict[str, int]:
    """Ask."""
    return {"chosen": await ask("Which?", int, key="which")}


@tool
def count() -> int:
    """Count."""
    return 3


@tool
def draw() -> Image:
    """Draw."""
    return Image(b"x")


@tool
def untyped():  # type: ignore[no-untyped-def]
    """Return anything."""
    return {"a": 1}


@flow
async def grow(city: City) -> City:
    """Grow."""
    return City(city.name, (city.people or 0) + 1)


def typed() -> Agent[City]:
    return Agent(ScriptedModel(tool_call("final_answer", name="Oslo", people=7)), output=City, name="typed")


def text() -> Agent[str]:
    return Agent(ScriptedModel("Oslo"), name="text")


CALLS: list[tuple[str, dict[str, Any], Any]] = [
    ("find", {"name": "Oslo"}, {"name": "Oslo", "people": 7}),
    ("grow", {"name": "Oslo", "people": 7}, {"name": "Oslo", "people": 8}),
    ("typed", {"input": "Where?"}, {"name": "Oslo", "people": 7}),
    ("count", {}, None),
    ("draw", {}, None),
    ("untyped", {}, None),
    ("text", {"input": "Where?"}, None),
]


@pytest.mark.parametrize("modern", [True, False])
async def test_results_fit_the_schema_that_is_listed(modern: bool) -> None:
    tools = [find, choose, count, draw, untyped]
    async with serving_mcp(typed(), text(), grow, tools=tools) as server:
        client: Any = ModernClient(server) if modern else LegacyClient(server)
        if not modern:
            await client.connect()
        listed = {each["name"]: each.get("outputSchema") for each in (await client.ask("tools/list"))["tools"]}
        assert listed["find"] == schema_of(City)
        for name, arguments, value in CALLS:
            result = await client.call(name, arguments)
            assert (result.get("structuredContent"), listed[name] is None) == (value, value is None)
            if value is not None:
                assert not SchemaValidator(listed[name]).problems(result["structuredContent"])
                assert result["content"][0]["type"] == "text", "also for clients that read texts only"
        failed = await client.call("find", {"name": ""})
        assert (failed["isError"], "structuredContent" in failed) == (True, False)


async def test_a_result_that_waited_is_structured_and_read_again() -> None:
    async with serving_mcp(tools=[choose]) as server:
        client = ModernClient(server)
        asked = await client.call("choose", {})
        answer = {"action": "accept", "content": {"answer": 4}}
        done = await client.again("choose", {}, asked, which=answer)
        assert done["structuredContent"] == {"chosen": 4}
        assert await client.again("choose", {}, asked, which=answer) == done


async def test_lists_are_declared_not_to_change() -> None:
    async with serving_mcp(text(), tools=[find]) as server:
        modern = await ModernClient(server).ask("server/discover")
        legacy = await LegacyClient(server).connect()
        assert [each["capabilities"]["tools"] for each in (modern, legacy)] == [{"listChanged": False}] * 2

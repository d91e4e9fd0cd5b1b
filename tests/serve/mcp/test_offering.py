"""Tests of what a server offers: tools, resources and prompts, how they are listed and read."""

from typing import Any, Literal

import pytest

from tests.serve.mcp.clients import ModernClient, Refused, serving_mcp
from tests.serve.mcp.test_modern import pay, text_of
from tests.serve.serving import TOKEN
from ziggurat import Agent, serve, tool
from ziggurat.errors import ConfigurationError
from ziggurat.flows import flow
from ziggurat.messages import Audio, File, Image
from ziggurat.testing import ScriptedModel


@serve.resource("notes://{year}/{title}", media_type="text/markdown")
def note(year: int, title: str) -> str:
    """A note."""
    return f"{title} of {year}"


async def greeting(name: str, tone: Literal["warm", "cold"] = "warm") -> str:
    """Greet."""
    return f"Greet {name} in a {tone} way."


async def test_tools_are_listed_in_order_with_their_effects() -> None:
    @tool(effect="none")
    def look() -> str:
        """Look."""
        return ""

    @tool(effect="once")
    def launch() -> str:
        """Launch."""
        return ""

    async with serving_mcp(Agent(ScriptedModel("x"), name="desk"), tools=[pay, look, launch]) as server:
        listed = await ModernClient(server).ask("tools/list")
        assert [each["name"] for each in listed["tools"]] == ["desk", "pay", "look", "launch"]
        hints = [each["annotations"] for each in listed["tools"]]
        assert [each["readOnlyHint"] for each in hints] == [False, False, True, False]
        assert [each["idempotentHint"] for each in hints] == [True, True, True, False]
        assert listed["cacheScope"] == "private"  # the token says who may see it
        with pytest.raises(Refused):
            await ModernClient(server).ask("tools/list", {"cursor": "2"})


async def test_resources_are_read_by_address_and_template() -> None:
    async with serving_mcp(tools=[pay], resources=[note]) as server:
        client = ModernClient(server)
        (listed,) = (await client.ask("resources/templates/list"))["resourceTemplates"]
        assert (listed["uriTemplate"], listed["mimeType"]) == ("notes://{year}/{title}", "text/markdown")
        assert (await client.ask("resources/list"))["resources"] == []
        read = await client.ask("resources/read", {"uri": "notes://1815/Ada"})
        assert read["contents"] == [{"uri": "notes://1815/Ada", "mimeType": "text/markdown", "text": "Ada of 1815"}]
        for uri in ("notes://x/Ada", "notes://1815", "other://"):
            with pytest.raises(Refused):
                await client.ask("resources/read", {"uri": uri})


async def test_prompts_have_arguments_that_are_completed_by_their_types() -> None:
    async with serving_mcp(tools=[pay], prompts=[greeting]) as server:
        client = ModernClient(server)
        (listed,) = (await client.ask("prompts/list"))["prompts"]
        assert [(each["name"], each["required"]) for each in listed["arguments"]] == [("name", True), ("tone", False)]
        made = await client.ask("prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}})
        assert made["messages"] == [
            {"role": "user", "content": {"type": "text", "text": "Greet Ada in a warm way."}},
        ]
        for wrong in ({}, {"name": "Ada", "tone": "loud"}, {"name": "Ada", "more": 1}):
            with pytest.raises(Refused) as refused:
                await client.ask("prompts/get", {"name": "greeting", "arguments": wrong})
            assert refused.value.code == -32602
        for begun, values in (("", ["warm", "cold"]), ("co", ["cold"]), ("x", [])):
            asked = {"ref": {"type": "ref/prompt", "name": "greeting"}, "argument": {"name": "tone", "value": begun}}
            assert (await client.ask("completion/complete", asked))["completion"]["values"] == sorted(values)


@pytest.mark.parametrize(
    ("part", "kind", "fields"),
    [
        (Image(b"i"), "image", {"data": "aQ==", "mimeType": "image/png"}),
        (Audio(b"a", media_type="audio/mp3"), "audio", {"data": "YQ==", "mimeType": "audio/mp3"}),
        (Image(url="https://a.test/i.png"), "resource_link", {"uri": "https://a.test/i.png", "name": "i.png"}),
        (File(b"t", url="x://t", media_type="text/plain"), "resource", {"resource": {"uri": "x://t", "text": "t"}}),
        (File(b"\xff", name="b"), "resource", {"resource": {"uri": "file:///b", "blob": "/w=="}}),
    ],
)
async def test_parts_of_results_are_content(part: Any, kind: str, fields: dict[str, Any]) -> None:
    @tool
    def make() -> Any:
        """Make."""
        return [part, "and text"]

    async with serving_mcp(tools=[make]) as server:
        content, text = (await ModernClient(server).call("make"))["content"]
    assert (content["type"], text) == (kind, {"type": "text", "text": "and text"})
    for name, value in fields.items():
        assert content[name] == value or value.items() <= content[name].items()


async def test_what_cannot_be_a_tool_is_served_otherwise() -> None:
    @flow
    async def count(number: int) -> int:
        return number

    async with serving_mcp(count, tools=[pay]) as server:
        assert [each["name"] for each in (await ModernClient(server).ask("tools/list"))["tools"]] == ["pay"]
        assert [each["name"] for each in (await server.get("/agents"))["agents"]] == ["count", "pay"]


def listed_nowhere() -> str:
    """Take no title."""
    return ""


def test_mistakes_are_refused_at_the_door() -> None:
    desk = Agent(ScriptedModel("x"), name="pay")
    for offer in (
        {"tools": [pay, pay]},
        {"prompts": [greeting, greeting]},
        {"resources": [note, note]},
        {"tools": [pay], "tasks": ["pays"]},
        {"tools": ["pay"]},
        {"task_after": -1},
    ):
        with pytest.raises(ConfigurationError):
            serve.McpServer(**offer)
    for agents, offered in ((desk, [pay]), ([], [])):
        with pytest.raises(ConfigurationError):
            serve.app(agents, mcp=serve.McpServer(tools=offered), token=TOKEN)
    with pytest.raises(ConfigurationError, match="title"):
        serve.resource("notes://{title}")(listed_nowhere)


async def test_text_of_an_agent_without_an_answer_says_why() -> None:
    model = ScriptedModel(RuntimeError("no model"))
    async with serving_mcp(Agent(model, name="desk")) as server:
        result = await ModernClient(server).call("desk", {"input": "Hello"})
        assert result["isError"]
        assert "no model" in text_of(result)
        assert (await ModernClient(server).call("desk", {"input": ""}))["isError"]

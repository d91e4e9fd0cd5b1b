"""Calls of tools of servers, in both eras and over both transports."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.mcp.serving import http, stdio
from ziggurat import Context, Timeout, ToolError
from ziggurat.core.context import root
from ziggurat.mcp import Elicitation, McpClient
from ziggurat.messages.message import Image, Text, ToolResult

ERAS = ("legacy", "modern")
KINDS = [(kind, era) for kind in ("stdio", "http", "json") for era in ERAS]


@asynccontextmanager
async def connected(kind: str, era: str, *settings: str, **options: Any) -> AsyncIterator[McpClient]:
    if kind == "stdio":
        server = stdio(f"era={era}", *settings, **options)
        try:
            yield server
        finally:
            await server.close()
    else:
        more: dict[str, Any] = {f"{key}_": value for key, value in (each.split("=") for each in settings)}
        async with http(streams=kind == "http", era_=era, **more, **options) as (_, server):
            yield server


every_kind = pytest.mark.parametrize(("kind", "era"), KINDS)


@every_kind
async def test_results_are_those_of_the_server(kind: str, era: str) -> None:
    async with connected(kind, era) as server:
        assert (await server.call("echo", {"text": "Ä\n"})).text == "Ä\n"
        picture = await server.call("picture")
        assert picture.content == (Image(b"ABC"), Text("seen"))
        assert picture.origin == "mcp:test/picture"
        refused = await server.call("refuse")
        assert (refused.text, refused.error) == ("it went wrong", "permanent")
        assert "test://a" in (await server.call("link")).text
        with pytest.raises(ToolError) as error:
            await server.call("unknown")
        assert error.value.kind == "invalid_arguments"
        with pytest.raises(ToolError, match="result"):
            await server.call("broken_result")


@every_kind
async def test_a_structured_result_is_checked_and_is_the_value_of_the_result(kind: str, era: str) -> None:
    async with connected(kind, era) as server:

        async def measured(tool: str, **result: Any) -> ToolResult:
            return await server.call(tool, {"result": result})

        assert (await measured("measure", structuredContent={"degrees": 21.5})).value() == {"degrees": 21.5}
        picture = [{"type": "image", "data": "QUJD"}]
        both = await measured("measure", structuredContent={"degrees": 1}, content=picture)
        assert both.content == (Text('{"degrees": 1}'), Image(b"ABC"))
        assert both.value() == {"degrees": 1}
        wrong: list[dict[str, Any]] = [{"structuredContent": {"degrees": "warm"}}, {"structuredContent": [1]}, {}]
        for each in wrong:
            with pytest.raises(ToolError, match="output schema"):
                await measured("measure", **each)
        assert (await measured("measure", isError=True)).error == "permanent"
        assert (await measured("wrapped", structuredContent={"result": "It is warm."})).text == "It is warm."
        assert (await measured("odd_output", structuredContent={"a": 1})).value() == {"a": 1}  # its schema is broken


@every_kind
async def test_many_calls_at_once_get_their_own_answers(kind: str, era: str) -> None:
    async with connected(kind, era) as server:
        texts = [str(number) for number in range(30)]
        results = await asyncio.gather(*(server.call("echo", {"text": text}) for text in texts))
        assert [result.text for result in results] == texts


@every_kind
async def test_resources_and_prompts_can_be_read(kind: str, era: str) -> None:
    async with connected(kind, era) as server:
        assert [each.uri for each in await server.resources()] == ["test://a"]  # the broken one is left out
        assert [each.uri_template for each in await server.templates()] == ["test://{name}"]
        text, file = await server.read("test://a")
        assert text == Text("A")
        assert getattr(file, "data", None) == b"ABC"
        assert [each.name for each in await server.prompts()] == ["greet"]
        (message,) = await server.prompt("greet", {"who": "Ada"})
        assert (message.role, message.text) == ("user", "Greet Ada.")
        with pytest.raises(ToolError):
            await server.read("test://b")


@every_kind
async def test_a_list_that_a_server_does_not_have_is_empty(kind: str, era: str) -> None:
    async with connected(kind, era, "templates=no") as server:
        assert await server.templates() == []
        assert len(await server.resources()) == 1


@every_kind
async def test_all_pages_are_read_and_one_that_repeats_ends_the_list(kind: str, era: str) -> None:
    async with connected(kind, era, "tools=30", "page=7") as server:
        names = [tool.name for tool in await server.tools()]
        assert len(names) == len(set(names)) > 50
    async with connected(kind, era, "page=3", "cursor=stuck") as server:
        assert len(await server.tools()) <= 6


async def test_a_page_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ziggurat.mcp.client._MAX_PAGE", 10_000)
    async with connected("stdio", "modern", "tools=100") as server:
        with pytest.raises(ToolError, match="page"):
            await server.tools()
        assert (await server.prompts())[0].name == "greet"


@every_kind
async def test_a_server_asks_a_person_a_model_and_for_folders(kind: str, era: str) -> None:
    if (kind, era) == ("json", "legacy"):
        pytest.skip("a reply that is one message has no place for a question")
    asked: list[Elicitation] = []

    async def answer(question: Elicitation) -> dict[str, Any] | None:
        asked.append(question)
        return {"name": "Ada"} if len(asked) == 1 else {} if len(asked) == 2 else None

    async with connected(kind, era, elicit=answer, model="demo", roots=["/tmp"]) as server:
        found = [json.loads((await server.call("ask")).text) for _ in range(3)]
        assert found[0] == {"action": "accept", "content": {"name": "Ada"}}
        assert found[1] == {"action": "accept", "content": {"name": "nobody"}}  # the default of the form
        assert found[2] == {"action": "decline"}
        assert (asked[0].server, asked[0].message) == ("test", "Your name?")
        said = json.loads((await server.call("think")).text)
        assert said["role"] == "assistant"
        assert said["content"]["type"] == "text"
        assert json.loads((await server.call("roots")).text)["roots"][0]["uri"] == "file:///tmp"
    async with connected(kind, era) as server:
        assert json.loads((await server.call("ask")).text) == {"action": "cancel"}  # nobody is there to answer


@every_kind
async def test_a_server_that_asks_for_ever_is_stopped(kind: str, era: str) -> None:
    if (kind, era) == ("json", "legacy"):
        pytest.skip("a reply that is one message has no place for a question")

    async def answer(question: Elicitation) -> dict[str, Any] | None:
        return {}

    async with connected(kind, era, elicit=answer) as server:
        for at_once in (1, 51):
            with pytest.raises(ToolError, match="asked"):
                await server.call("ask_much", {"at_once": at_once})
        assert (await server.call("echo", {"text": "a"})).text == "a"


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_task_is_looked_at_until_it_ends_and_its_questions_are_answered(kind: str) -> None:
    async def answer(question: Elicitation) -> dict[str, Any] | None:
        return {"name": "Ada"}

    async with connected(kind, "modern", elicit=answer) as server:
        assert (await server.call("task")).text == "done for Ada"


@every_kind
async def test_silence_costs_one_error_and_the_next_call_works(kind: str, era: str) -> None:
    async with connected(kind, era, timeout=0.2) as server:
        await server.tools()
        with pytest.raises(Timeout):
            await server.call("silent")
        assert (await server.call("echo", {"text": "a"})).text == "a"


@pytest.mark.parametrize(("kind", "era"), [pair for pair in KINDS if pair[0] != "json"])
async def test_progress_counts_as_an_answer(kind: str, era: str) -> None:
    async with connected(kind, era, timeout=0.3) as server:
        await server.tools()
        assert (await server.call("progress", {"times": 8, "pause": 0.1})).text == "progress"


@every_kind
async def test_notifications_that_cannot_be_read_cost_nothing(kind: str, era: str) -> None:
    async with connected(kind, era) as server:
        assert (await server.call("odd_notes")).text == "odd_notes"


@every_kind
async def test_a_cancelled_call_is_cancelled_at_the_server(kind: str, era: str) -> None:
    async def call(ctx: Context) -> None:
        await server.call("slow", {"seconds": 60}, ctx)

    async with connected(kind, era) as server:
        await server.tools()
        task = asyncio.ensure_future(call(root()))
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await server.call("echo", {"text": "a"})).text == "a"

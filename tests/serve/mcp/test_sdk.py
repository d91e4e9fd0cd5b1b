"""The official SDK of MCP as a client, in both eras."""

from typing import Any

import pytest

from tests.serve.mcp.everything import for_suite
from tests.serve.real_server import RealServer

mcp: Any = pytest.importorskip("mcp", reason="no SDK of MCP: pip install mcp")


async def _fill(context: Any, params: Any) -> Any:
    """Fill a form in."""
    fields = params.requested_schema["properties"]
    values = {name: True if field["type"] == "boolean" else "Ada" for name, field in fields.items()}
    return mcp.types.ElicitResult(action="accept", content=values)


async def _reply(context: Any, params: Any) -> Any:
    text = mcp.types.TextContent(type="text", text="Paris")
    return mcp.types.CreateMessageResult(role="assistant", content=text, model="m")


async def _roots(context: Any) -> Any:
    return mcp.types.ListRootsResult(roots=[])


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("greet", {"name": "Ada"}, "Hello, Ada!"),
    ("test_elicitation", {"message": "Who?"}, "User response: Account(username='Ada', email='Ada')"),
    ("test_sampling", {"prompt": "Where?"}, "LLM response: Paris"),
    ("test_input_required_result_multiple_inputs", {}, "All inputs received."),
    ("test_input_required_result_multi_round", {}, "Ada likes Ada."),
    ("confirm_delete", {"filename": "x"}, "deleted"),
    ("test_error_handling", {}, "This tool intentionally returns an error for testing"),
]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdk_uses_all_that_is_offered(mode: str) -> None:
    server = RealServer(for_suite)
    asked = {"elicitation_callback": _fill, "sampling_callback": _reply, "list_roots_callback": _roots}
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    try:
        async with mcp.Client(f"{server.url}/mcp", mode=mode, **asked) as client:
            assert "greet" in {each.name for each in (await client.list_tools()).tools}
            for name, arguments, text in CALLS:
                result = await client.call_tool(name, arguments)
                assert (result.content[0].text, result.is_error) == (text, name == "test_error_handling")
            await client.call_tool("test_tool_with_progress", {}, progress_callback=hear)
            assert heard == sorted(set(heard))
            assert len(heard) >= 3
            assert '"id":"7"' in (await client.read_resource("test://template/7/data")).contents[0].text
            prompt = await client.get_prompt("test_input_required_result_prompt")
            assert prompt.messages[0].content.text == "Use the following context: Ada"
            with pytest.raises(mcp.MCPError):
                await client.call_tool("absent", {})
    finally:
        server.stop()

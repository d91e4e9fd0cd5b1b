"""Tests of clients that send what they should not: each message gets one typed error, and the server goes on."""

import json
from typing import Any

import pytest

from tests.samples import sample
from tests.serve.mcp.clients import LEGACY, MODERN, LegacyClient, ModernClient, Refused, serving_mcp
from tests.serve.serving import Serving
from ziggurat import serve, tool


@tool
def echo(text: str = "") -> str:
    """Echo."""
    return text


@serve.resource("files://{name}")
def file(name: str) -> str:
    """A file."""
    return name


META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
DEEP = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":' + '{"a":' * 5_000
BODIES: dict[str, bytes | str] = {
    "nothing": "",
    "no JSON": "{",
    "not UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "a batch": '[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    "an empty batch": "[]",
    "a number": "7",
    "null": "null",
    "another version": '{"jsonrpc":"1.0","id":1,"method":"ping"}',
    "id null": '{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "id of a fraction": '{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    "id of a list": '{"jsonrpc":"2.0","id":[1],"method":"ping"}',
    "id true": '{"jsonrpc":"2.0","id":true,"method":"ping"}',
    "method of a number": '{"jsonrpc":"2.0","id":1,"method":7}',
    "params of a list": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}',
    "params of a text": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"x"}',
    "arguments of a list": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}}',
    "name of a number": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
    "request and response": '{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}',
    "neither": '{"jsonrpc":"2.0","id":1}',
    "half a character": '{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x.\\ud800"}}',
    "too deep": DEEP,
    "deep and whole": DEEP + "{}" + "}" * 5_002,
    "a response to nothing": '{"jsonrpc":"2.0","id":"x","result":{}}',
    "a response to another's request": '{"jsonrpc":"2.0","id":"run~item.0123","result":{}}',
    "an error of nothing": '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}',
}


@pytest.mark.parametrize("era", [MODERN, LEGACY, "1999-01-01", ""])
async def test_every_broken_body_is_refused(era: str) -> None:
    async with serving_mcp(tools=[echo]) as server:
        for name, body in BODIES.items():
            headers = {"Content-Type": "application/json", **({"MCP-Protocol-Version": era} if era else {})}
            reply = await server.client.post("/mcp", content=body, headers=headers)
            assert reply.status_code == 400, (name, reply.text)
            assert reply.json()["error"]["code"] in (-32700, -32600, -32602, -32020), name
            assert len(reply.content) < 2_000, name
        await still_serves(server)


async def still_serves(server: Serving) -> None:
    result = await ModernClient(server).call("echo", {"text": "here"})
    assert result["content"] == [{"type": "text", "text": "here"}]


async def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    async with serving_mcp(tools=[echo]) as server:
        body, headers = ModernClient(server).prepared(
            "tools/call", {"name": "echo", "arguments": {"text": "x" * 5_000_000}}
        )
        assert (await server.client.post("/mcp", json=body, headers=headers)).status_code == 413

        async def pieces() -> Any:
            for _ in range(80):
                yield b" " * 65_536

        headers |= {"Content-Type": "application/json"}
        assert (await server.client.post("/mcp", content=pieces(), headers=headers)).status_code == 422
        await still_serves(server)


@pytest.mark.parametrize(
    "names", ["a/b", "..", ".", "%2e%2e", "..%2f..%2fetc%2fpasswd", "a%00", "a\\b", "%5c%5chost", ""]
)
async def test_an_address_of_a_resource_leads_nowhere_else(names: str) -> None:
    async with serving_mcp(tools=[echo], resources=[file]) as server:
        with pytest.raises(Refused) as refused:
            await ModernClient(server).ask("resources/read", {"uri": f"files://{names}"})
        assert (refused.value.status, refused.value.code) == (400, -32602)


METHODS = [
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "completion/complete",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "tasks/list",
    "subscriptions/listen",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "initialize",
    "__class__",
    "",
    "x" * 3_000,
]
VALUES: list[Any] = [
    None,
    7,
    "",
    "x",
    [],
    ["x"],
    {},
    {"a": {}},
    True,
    -1e308,
    "../..",
    {"type": "ref/prompt"},
    "\x00",
    "é" * 500,
]
FIELDS = [
    "name",
    "uri",
    "arguments",
    "cursor",
    "inputResponses",
    "requestState",
    "taskId",
    "notifications",
    "ref",
    "argument",
    "level",
]


async def test_no_value_of_any_field_of_any_method_is_an_internal_error() -> None:
    every = [(method, field, value) for method in METHODS for field in FIELDS for value in VALUES]
    async with serving_mcp(tools=[echo], resources=[file], prompts=[echo.function]) as server:
        modern, legacy = (
            ModernClient(server, {"extensions": {"io.modelcontextprotocol/tasks": {}}}),
            LegacyClient(server),
        )
        await legacy.connect()
        for method, field, value in sample(every, 50):
            params: dict[str, Any] = {"name": "echo", field: value}
            body, headers = modern.prepared(method, params)
            headers = {name: each for name, each in headers.items() if str(each).isascii() and str(each).isprintable()}
            if method == "subscriptions/listen" and field != "notifications":
                continue
            headers = {name: str(each) for name, each in headers.items()}
            assert await status_of(server, body, headers) < 500, (method, field, value)
            answered = await legacy.tell({"id": 1, "method": method, "params": params})
            assert '"code":-32603' not in answered.text, (method, field, value)
        await still_serves(server)


async def status_of(server: Serving, body: Any, headers: dict[str, str]) -> int:
    """Return the status of a reply, of which only the beginning is read."""
    headers = headers | {"Content-Type": "application/json"}
    async with server.client.stream("POST", "/mcp", content=json.dumps(body), headers=headers) as reply:
        return reply.status_code

"""Clients of MCP for the tests: one of each era, on a server in this process."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx

from tests.serve.serving import TOKEN, Serving, serving
from ziggurat import serve
from ziggurat.serve.application import ServedApp

__all__ = ["LEGACY", "MODERN", "TASKS", "LegacyClient", "ModernClient", "Refused", "application", "serving_mcp"]

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
_PREFIX = "io.modelcontextprotocol/"
TASKS: dict[str, Any] = {"extensions": {_PREFIX + "tasks": {}}}
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Refused(Exception):
    """An error that a client got, with the status of the reply."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.status = status
        self.code: int = error["code"]
        self.data: Any = error.get("data")


def messages_in(reply: httpx.Response) -> list[dict[str, Any]]:
    """Return the messages of a reply: JSON, or a stream."""
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        return [reply.json()] if reply.content else []
    data = (line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: "))
    return [json.loads(each) for each in data if each]


class ModernClient:
    """A client that speaks 2026-07-28.

    Attributes:
        heard: The notifications that came before the latest answer.
    """

    def __init__(self, server: Serving, capabilities: dict[str, Any] | None = None) -> None:
        self._http = server.client
        self.capabilities = {"elicitation": {}} if capabilities is None else capabilities
        self.heard: list[dict[str, Any]] = []
        self._ids = count(1)

    def prepared(
        self, method: str, params: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the body and the headers of a request."""
        meta = {_PREFIX + "protocolVersion": MODERN, _PREFIX + "clientCapabilities": self.capabilities}
        content = {**(params or {}), "_meta": {**meta, **(params or {}).get("_meta", {})}}
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": content}
        name = content.get(_NAMED.get(method, "taskId"))
        own = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
        return body, {**own, **(headers or {})}

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        body, own = self.prepared(method, params, headers)
        reply = await self._http.post("/mcp", json=body, headers=own)
        *self.heard, answer = messages_in(reply)
        assert answer["id"] == body["id"]
        if "error" in answer:
            raise Refused(reply.status_code, answer["error"])
        assert reply.status_code == 200
        return dict(answer["result"])

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}, **more})

    async def again(
        self, name: str, arguments: dict[str, Any], asked: dict[str, Any], **responses: Any
    ) -> dict[str, Any]:
        """Repeat a call with responses to what it has asked."""
        return await self.call(name, arguments, requestState=asked["requestState"], inputResponses=responses)


class LegacyClient:
    """A client of the era of sessions, which answers requests with the given responses.

    Attributes:
        session: The id of its session.
        heard: All messages that came besides answers.
        asked: Set when one has come.
    """

    def __init__(
        self, server: Serving, capabilities: dict[str, Any] | None = None, responses: Sequence[Any] = ()
    ) -> None:
        self._http = server.client
        self._capabilities = {"elicitation": {}} if capabilities is None else capabilities
        self.responses = list(responses)
        self.session = ""
        self.asked: asyncio.Event = asyncio.Event()
        self.heard: list[dict[str, Any]] = []
        self._ids = count(1)

    async def connect(self) -> dict[str, Any]:
        params = {
            "protocolVersion": LEGACY,
            "capabilities": self._capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        reply = await self._http.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        )
        self.session = reply.headers["mcp-session-id"]
        assert (await self.tell({"method": "notifications/initialized"})).status_code == 202
        return dict(reply.json()["result"])

    @property
    def headers(self) -> dict[str, str]:
        return {"MCP-Protocol-Version": LEGACY, **({"Mcp-Session-Id": self.session} if self.session else {})}

    async def tell(self, message: dict[str, Any]) -> httpx.Response:
        return await self._http.post("/mcp", json={"jsonrpc": "2.0", **message}, headers=self.headers)

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}}
        async with self._http.stream("POST", "/mcp", json=body, headers=self.headers) as reply:
            if reply.headers["content-type"].startswith("application/json"):
                await reply.aread()
                return self._result(reply, reply.json())
            async for line in reply.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                message = json.loads(line.removeprefix("data: "))
                if "method" not in message:
                    return self._result(reply, message)
                self.heard.append(message)
                self.asked.set()
                if "id" in message and self.responses:
                    await self.tell({"id": message["id"], "result": self.responses.pop(0)})
        raise AssertionError("the stream has ended without an answer")

    def _result(self, reply: httpx.Response, message: dict[str, Any]) -> dict[str, Any]:
        if "error" in message:
            raise Refused(reply.status_code, message["error"])
        return dict(message["result"])

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}, **more})


def application(*agents: Any, store: Any = None, token: str = TOKEN, **offer: Any) -> ServedApp:
    return serve.app(list(agents), store=store, token=token, mcp=serve.McpServer(**offer))


@asynccontextmanager
async def serving_mcp(*agents: Any, store: Any = None, token: str = TOKEN, **offer: Any) -> AsyncIterator[Serving]:
    async with serving(application(*agents, store=store, token=token, **offer)) as server:
        yield server

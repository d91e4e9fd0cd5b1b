"""The client of one remote agent that speaks A2A: its card, its methods, and its streams."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError, ServiceError
from ziggurat.http.client import Client
from ziggurat.http.connection import Incoming
from ziggurat.http.limits import Limits
from ziggurat.http.route import Route
from ziggurat.http.sse import EventParser
from ziggurat.wires import a2a, jsonrpc

T = TypeVar("T")


class _Said(Struct):
    message: str


class _Refusal(Struct):
    error: _Said


_LIMITS = Limits(reply=8 << 20, stream=64 << 20)
_BUSY = (408, 425, 429)
_LONGEST = 500
"""Characters of what a server says of a request that it refuses."""


class A2aClient:
    def __init__(self, url: str, token: str | None) -> None:
        self._client = Client(url, limits=_LIMITS)
        self._path = urlsplit(url).path.rstrip("/")
        self._headers = (("authorization", f"Bearer {token}"),) if token else ()
        self._endpoint: str | None = None
        self.streams: bool = False

    async def call(self, method: str, params: object, kind: type[T], ctx: Context, key: str = "") -> T:
        """Call a method; the same key again is the same message, for servers that know it."""
        reply = await self._ask(method, params, ctx, key, stream=False)
        return _result(await self._read(reply), kind)

    async def follow(self, task_id: str, ctx: Context) -> AsyncGenerator[a2a.StreamResponse, None]:
        reply = await self._ask("SubscribeToTask", {"id": task_id}, ctx, "", stream=True)
        if not reply.headers.get("content-type", "").startswith("text/event-stream"):
            _result(await self._read(reply), a2a.StreamResponse)
            return
        parser = EventParser()
        try:
            while data := await reply.more():
                for event in parser.feed(data):
                    yield _result(event.data.encode(), a2a.StreamResponse)
        except ModelError as error:
            raise _failed(error) from error
        finally:
            reply.close()

    async def _ask(self, method: str, params: object, ctx: Context, key: str, *, stream: bool) -> Incoming:
        if self._endpoint is None:
            self._endpoint = await self._find(ctx)
        body = jsonrpc.write(jsonrpc.Request(1, method, params))
        headers = {"content-type": "application/json", a2a.VERSION_HEADER.lower(): a2a.VERSION}
        return await self._send(
            "POST", self._endpoint, headers | ({"idempotency-key": key} if key else {}), body, ctx, stream
        )

    async def _find(self, ctx: Context) -> str:
        reply = await self._send("GET", self._path + a2a.CARD_PATH, {}, b"", ctx, stream=False)
        card = _parsed(await self._read(reply), a2a.Card)
        self.streams = card.capabilities.streaming
        for each in card.supported_interfaces:
            if each.protocol_binding == "JSONRPC" and each.protocol_version.startswith("1"):
                if not self._is_here(each.url):
                    text = f"the card of {self._client.name} leads to another server: {each.url!r:.200}"
                    raise ServiceError(text, transient=False)
                return urlsplit(each.url).path or "/"
        raise ServiceError(f"{self._client.name} speaks no A2A {a2a.VERSION} by JSON-RPC", transient=False)

    def _is_here(self, url: str) -> bool:
        own = self._client.route
        try:
            route = Route(url, proxy="")
        except ConfigurationError:
            return False
        same = route.host == own.host or (route.loopback and own.loopback)
        return same and (route.tls, route.port) == (own.tls, own.port)

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, ctx: Context, stream: bool
    ) -> Incoming:
        try:
            return await self._client.send(method, path, (*self._headers, *headers.items()), body, ctx, stream=stream)
        except ModelError as error:
            raise _failed(error) from error

    async def _read(self, reply: Incoming) -> bytes:
        try:
            body = await reply.read()
            await reply.end(whole=True)
        except ModelError as error:
            raise _failed(error) from error
        if reply.status >= 400:
            transient = reply.status in _BUSY or reply.status >= 500
            text = f"{self._client.name} answers with status {reply.status}{_said(body)}{self._hint(reply.status)}"
            raise ServiceError(text, transient=transient)
        return body

    def _hint(self, status: int) -> str:
        if status == 401:
            return f"; {'check' if self._headers else 'pass'} the token of this server, as a2a(token=...)"
        if status == 404 and self._endpoint is None:
            return f"; the address of an agent is the one below which its card is, at {a2a.CARD_PATH}"
        return ""


def _said(body: bytes) -> str:
    try:
        return f": {jsonrpc.parse(body, _Refusal).error.message[:_LONGEST]}"
    except jsonrpc.JsonRpcError:
        return ""


def _failed(error: ModelError) -> ServiceError:
    return ServiceError(str(error), transient=error.transient, retry_after=error.retry_after)


def _parsed(raw: Any, kind: type[T]) -> T:
    try:
        return jsonrpc.parse(raw, kind)
    except jsonrpc.JsonRpcError as error:
        raise ServiceError(f"the remote agent sent no {kind.__name__}: {error}", transient=False) from error


def _result(body: bytes, kind: type[T]) -> T:
    try:
        answer = jsonrpc.read(body)
    except jsonrpc.JsonRpcError as error:
        raise ServiceError(f"the remote agent sent no JSON-RPC: {error}", transient=False) from error
    if isinstance(answer, jsonrpc.Failure):
        raise ServiceError(
            f"the remote agent refuses: {answer.error.message:.1000}",
            transient=answer.error.code == jsonrpc.INTERNAL_ERROR,
        )
    if not isinstance(answer, jsonrpc.Success):
        raise ServiceError("the remote agent sent no answer", transient=False)
    return _parsed(answer.result, kind)

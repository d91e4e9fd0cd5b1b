"""A server that sends exactly the bytes of a test, and a minimal wire format."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest

from ziggurat import Context, Message, ModelRequest, ModelResponse, Text
from ziggurat.core import root
from ziggurat.errors import ModelError, StreamInterrupted
from ziggurat.events import Fold, TextDelta
from ziggurat.http.client import Client
from ziggurat.http.connection import Incoming
from ziggurat.http.sse import ServerEvent
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.message import PartDelta
from ziggurat.models.http.dialect import DIALECTS, Dialect
from ziggurat.models.http.endpoint import Key
from ziggurat.models.http.providers import HttpModel, Provider, Wire
from ziggurat.providers import Limits

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Asked:
    """A received request, and the way to answer it."""

    def __init__(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self.head = head.decode("latin-1")
        self.body = body
        self.reader = reader
        self.writer = writer
        self.number = number
        """The number of this request over all connections, from 1."""

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hang(self) -> None:
        """Send nothing until the client closes the connection."""
        await self.reader.read(1)
        raise ConnectionAbortedError

    async def reply(self, body: bytes, status: str = "200 OK", **headers: str) -> None:
        told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.say(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{told}\r\n".encode() + body)

    async def stream(self, *pieces: bytes, end: bool = True, status: str = "200 OK") -> None:
        await self.say(
            f"HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        for piece in pieces:
            await self.say(b"%x\r\n%b\r\n" % (len(piece), piece))
        if end:
            await self.say(b"0\r\n\r\n")


Answer = Callable[[Asked], Awaitable[None]]


class Server:
    """The requests and connections of a server."""

    def __init__(self) -> None:
        self.url = ""
        self.port = 0
        self.opened = 0
        self.now_open = 0
        self.most_open = 0
        self.asked: list[Asked] = []
        self.closed = asyncio.Event()
        """Set when a connection ends."""


@asynccontextmanager
async def serving(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve on loopback; an answer that raises ConnectionAbortedError cuts the connection."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.opened += 1
        server.now_open += 1
        server.most_open = max(server.most_open, server.now_open)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                asked = Asked(head, body, reader, writer, len(server.asked) + 1)
                server.asked.append(asked)
                await answer(asked)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            server.now_open -= 1
            server.closed.set()
            writer.transport.abort()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls, backlog=1000)
    server.port = listening.sockets[0].getsockname()[1]
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{server.port}"
    try:
        yield server
    finally:
        listening.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listening.wait_closed()


class _Reader:
    def __init__(self, dialect: Dialect) -> None:
        self._fold = Fold()
        self._done = False

    def push(self, event: ServerEvent) -> list[PartDelta]:
        if event.data == "[DONE]":
            self._done = True
            return []
        delta = TextDelta(event.data)
        self._fold.push(delta)
        return [delta]

    def finish(self) -> ModelResponse:
        message = self._fold.message()
        if not self._done:
            raise StreamInterrupted("the reply was cut", partial=message)
        return ModelResponse(message)


class _Wire:
    """A minimal wire: ``{"say": text}`` plain, one text per event streamed."""

    Reader = _Reader

    @staticmethod
    def to_wire(request: ModelRequest, *, model: str, stream: bool, dialect: Dialect) -> bytes:
        return msgspec.json.encode({"model": model, "stream": stream, "messages": len(request.messages)})

    @staticmethod
    def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
        return ModelResponse(Message("assistant", (Text(str(msgspec.json.decode(body)["say"])),)))


WIRE = cast("Wire", _Wire())


def model_at(url: str, *, limits: Limits | None = None, key: Key = "", **settings: object) -> HttpModel:
    """Make a model that uses the minimal wire at an address."""
    made = Provider(DIALECTS["openai"])("m", base_url=f"{url}/v1", key=key, limits=limits, **settings)  # type: ignore[arg-type]
    return HttpModel("m", wire=WIRE, endpoint=made._endpoint)


def request() -> ModelRequest:
    return ModelRequest(Conversation([Message("user", (Text("hello"),))]).view())


async def post(client: Client, body: bytes = b"{}", *, stream: bool = False, ctx: Context | None = None) -> Incoming:
    """Send a request; return the reply while it arrives."""
    headers = (("content-type", "application/json"),)
    return await client.send("POST", "/v1/x", headers, body, ctx or root(), stream=stream)


async def fetch(client: Client, body: bytes = b"{}", *, ctx: Context | None = None) -> bytes:
    """Send a request; return the whole reply."""
    return await (await post(client, body, ctx=ctx)).read()


async def echo(asked: Asked) -> None:
    """Answer with the request's text."""
    await asked.reply(asked.body)


def error_of(error: pytest.ExceptionInfo[ModelError]) -> tuple[str, bool]:
    """Return the kind of an error, and whether it is transient."""
    return error.value.kind, error.value.transient

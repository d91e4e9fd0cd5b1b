"""The test server over HTTP, in this process; and both kinds as servers of the client."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.mcp.server import Json, Server
from ziggurat.mcp import McpClient, mcp

PROGRAM = str(Path(__file__).parent / "server.py")


def stdio(*settings: str, **options: Any) -> McpClient:
    """Return the test server as a process."""
    return mcp([sys.executable, PROGRAM, *settings], **{"name": "test", "timeout": 10, **options})


class HttpServer:
    """The test server behind a URL; of the older era it has sessions, which `forget` forgets."""

    def __init__(self, **settings: str) -> None:
        self.server = Server(settings)
        self.sessions: set[str] = set()
        self.requests: list[tuple[str, dict[str, str], Json]] = []
        self.cut: str = ""
        """How the next reply is broken: ``head``, ``body``, ``stream``, ``html``, ``500`` or ``redirect``."""
        self.streams: bool = True
        self._count = 0
        self._closed = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    def forget(self) -> None:
        self.sessions.clear()

    def other(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, str] | None:
        """Return the status, body and headers of a reply that is not one of MCP; None to go on."""
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, path = head[0].split()[:2]
        if (other := self.other(method, path, headers, body)) is not None:
            return self._plain(writer, other[0], other[1], other[2])
        message: Json = json.loads(body) if body else {}
        self.requests.append((method, headers, message))
        modern = headers.get("mcp-protocol-version") == "2026-07-28"
        session = headers.get("mcp-session-id")
        if method == "GET" and self.streams:
            return await self._listen(reader, writer)
        if method == "GET" or (message.get("method") == "subscriptions/listen" and not self.streams):
            return self._plain(writer, 405, b"")
        if method == "DELETE":
            self.sessions.discard(session or "")
            return self._plain(writer, 200, b"")
        if not modern and message.get("method") != "initialize" and session not in self.sessions:
            return self._plain(writer, 404 if session else 400, b"")
        if message.get("id") is None or "method" not in message:
            await self.server.take(message, _nowhere)
            return self._plain(writer, 202, b"")
        return await self._answer(reader, writer, message)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Tell a client of the older era of changes until it closes the stream."""
        writer.write(_STREAM)
        send = partial(_send, writer)
        await send({"raw": "retry: 0\n\n"})
        self.server.followers[None] = (send, {"toolsListChanged": True})
        await reader.read(1)
        return False

    def _plain(self, writer: asyncio.StreamWriter, status: int, body: bytes, more: str = "") -> bool:
        kind = "content-type: application/json\r\n" if body else ""
        writer.write(f"HTTP/1.1 {status} X\r\n{kind}{more}content-length: {len(body)}\r\n\r\n".encode() + body)
        return True

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: Json) -> bool:
        cut, self.cut = (self.cut, "") if message["method"] == "tools/call" else ("", self.cut)
        more = ""
        if message["method"] == "initialize":
            self._count += 1
            self.sessions.add(f"session-{self._count}")
            more = f"mcp-session-id: session-{self._count}\r\n"
        if cut == "head":
            return False
        if cut in ("html", "500", "redirect"):
            status = {"html": 200, "500": 500, "redirect": 307}[cut]
            return self._plain(writer, status, b"<html>", "location: http://127.0.0.1:1/\r\n")
        if message["method"] == "initialize" or not self.streams:
            sent: list[Json] = []

            async def keep(message: Json) -> None:
                sent.append(message)

            await self.server.take(message, keep)
            if not sent:  # the call was cancelled
                return False
            status = 404 if not self.sessions and sent[-1].get("error", {}).get("code") == -32601 else 200
            return self._plain(writer, status, json.dumps(sent[-1]).encode(), more)
        writer.write(_STREAM)
        send = partial(_send, writer)
        if cut == "body":
            await send({"raw": "data: {"})
            return False
        gone = asyncio.ensure_future(reader.read(1))
        work = asyncio.ensure_future(self.server.take(message, send) if cut != "stream" else asyncio.sleep(0))
        await asyncio.wait([gone, work], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():  # the client has closed the reply, which cancels the request
            self.server.cancelled.append(message["id"])
            work.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)
            return False
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        writer.write(b"0\r\n\r\n")
        return work.exception() is None


_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def _send(writer: asyncio.StreamWriter, message: Json) -> None:
    """Send a message as an event, or what is raw as it is, perhaps without end."""
    data = message["raw"] if "raw" in message else f"data: {json.dumps(message)}\n\n"
    while True:
        if writer.is_closing():
            raise ConnectionResetError
        writer.write(f"{len(data):x}\r\n".encode() + data.encode("latin-1") + b"\r\n")
        await writer.drain()
        if not message.get("repeat"):
            return


async def _nowhere(message: Json) -> None:
    """Drop a message."""


@asynccontextmanager
async def http(
    *, streams: bool = True, kind: type[HttpServer] = HttpServer, **options: Any
) -> AsyncIterator[tuple[HttpServer, McpClient]]:
    """Start the test server behind a URL; settings of the server are those that end with an underscore."""
    settings = {key.rstrip("_"): str(options.pop(key)) for key in [*options] if key.endswith("_")}
    behind = kind(**settings)
    behind.streams = streams
    await behind.start()
    client = mcp(behind.url, **{"name": "test", "timeout": 10, **options})
    try:
        yield behind, client
    finally:
        await client.close()
        await behind.stop()

"""A proxy between a store and its server that cuts connections at chosen points."""

__all__ = ["Proxy"]

import asyncio
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes in both directions until told to cut the connection.

    Args:
        url: The URL of the server.

    Attributes:
        cuts: The statements at which connections were cut.
        refused: The number of refused connections.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._parts = parts
        self._port = parts.port
        self._mark = b""
        self._answered = False
        self._shut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.cuts: list[str] = []
        self.refused = 0
        self.url = ""

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = self._parts._replace(netloc=f"{self._parts.netloc.rpartition(':')[0]}:{port}").geturl()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut()
        self._server.close()
        await self._server.wait_closed()

    def cut(self, mark: bytes, *, answered: bool) -> None:
        """Cut the next connection that sends this text, before passing it on, or after the server has answered."""
        self._mark, self._answered = mark, answered

    def shut(self) -> None:
        """Cut all connections, and refuse new ones."""
        self._shut = True
        for writer in self._writers:
            writer.transport.abort()

    def open(self) -> None:
        """Accept connections again."""
        self._shut = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):  # Python 3.11 logs a traceback for a task that was cancelled
            await self._carry(reader, writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._shut:
            self.refused += 1
            writer.transport.abort()
            return
        near, far = writer, (await asyncio.open_connection("127.0.0.1", self._port))
        self._writers |= {near, far[1]}
        doomed = asyncio.Event()
        back = asyncio.ensure_future(self._pass(far[0], near, doomed))
        try:
            while data := await reader.read(1 << 20):
                if self._mark and self._mark in data:
                    self.cuts.append(self._mark.decode())
                    self._mark = b""
                    if self._answered:
                        doomed.set()
                        far[1].write(data)
                        await back
                    break
                far[1].write(data)
        except ConnectionError:
            pass
        finally:
            for each in (near, far[1]):
                each.transport.abort()
            self._writers -= {near, far[1]}
            await back

    @staticmethod
    async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        """Pass answers back, except the answer to the statement to cut: it is executed, but the client never learns."""
        try:
            while data := await reader.read(1 << 20):
                if doomed.is_set():
                    return
                writer.write(data)
        except ConnectionError:
            return

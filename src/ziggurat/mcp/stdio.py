"""StdioTransport: a server as a process, in a group of its own, that is read and fed by one protocol object."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError
from ziggurat.core.jsonrpc import Id, Message, Request, write
from ziggurat.core.log import logger
from ziggurat.core.visible import visible_line
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.wire import MAX_MESSAGE, Headers, ServerGone

if TYPE_CHECKING:
    from ziggurat.mcp.connection import Connection

_KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "SYSTEMROOT", "APPDATA", "TEMP")
"""The variables of this process that a server gets; keys of providers are not among them."""

_GRACES = ((None, 2.0), (signal.SIGTERM, 1.0), (signal.SIGKILL, 2.0))
"""How a process is ended: its input is closed, then it gets the signals, each after a number of seconds."""

_TAIL = 2_000
_LAST_WORDS = 1.0
"""Seconds after the end of a server's output in which its exit code and its last words are waited for."""


class StdioTransport(asyncio.SubprocessProtocol):
    """A server that reads its standard input and writes to its standard output, one message a line."""

    def __init__(self, settings: Settings, peer: "Connection") -> None:
        self.revision: str = ""
        self.gone: bool = True
        self._settings, self._peer = settings, peer
        self._name = settings.name
        self._rest: list[bytes] = []  # pieces of a line that has not ended
        self._held = 0
        self._tail = b""  # of its standard error
        self._last_words: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drained: asyncio.Future[None] | None = None

    # -- for the connection --------------------------------------------------------------------------------------

    async def open(self) -> None:
        settings = self._settings
        env = {key: os.environ[key] for key in _KEPT if key in os.environ} | dict(settings.env)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *settings.command, env=env, cwd=settings.folder, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"the MCP server {self._name} cannot be started: {error}") from error

    async def begun(self) -> None:
        """Note that what it wrote so far belongs to its start."""
        self._tail = b""

    async def begin(self, request: Request, headers: Headers, ctx: Context) -> None:
        """Send a request; wait while the server reads nothing."""
        while self._drained is not None and not self.gone:
            await asyncio.shield(self._drained)
        if self.gone:
            if self._last_words is not None:
                await asyncio.wait([self._lost], timeout=_LAST_WORDS)
            raise self._error()
        self.post(request)

    async def end(self, call: Id) -> bool:
        """Do nothing: the server must be told that an answer is not wanted."""
        return False

    async def tell(self, message: Message) -> None:
        self.post(message)

    def post(self, message: Message) -> None:
        if self._stdin is not None and not self.gone:
            self._stdin.write(write(message) + b"\n")

    def kill(self) -> None:
        if self._transport is not None:
            self._kill(signal.SIGKILL)

    async def close(self) -> None:
        """End the process and all others of its group."""
        self._stop()
        process = self._transport
        if process is None:
            return
        try:
            for number, seconds in _GRACES:
                if number is not None:
                    self._kill(number)
                elif self._stdin is not None:
                    self._stdin.close()
                await asyncio.wait([self._exited], timeout=seconds)
                if self._exited.done():
                    break
        finally:
            self._kill(signal.SIGKILL)
            if self._last_words is not None:
                await asyncio.wait([self._lost], timeout=_LAST_WORDS)
            process.close()
            self._say_end()
        await asyncio.sleep(0)  # the pipes close in the loop's next turn

    def _kill(self, number: signal.Signals) -> None:
        """Send a signal to the group; a process that ignored the end of its leader is in it, too."""
        assert self._transport is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)

    # -- from the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not when `open` goes on: a process that ends at once may have ended by then, and this is told only once.
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        self.gone = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._tail = (self._tail + data)[-_TAIL:]
            return
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._rest and lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
            self._held = 0
        try:
            for line in lines:
                if line.strip() and not self.gone:
                    self._peer.received(line)
        except ServerGone as error:
            self._abort(error)
        if rest and not self.gone:
            self._rest.append(rest)
            self._held += len(rest)
            if self._held > MAX_MESSAGE:
                text = f"the MCP server {self._name} sent a message of more than {MAX_MESSAGE >> 20} MiB"
                self._abort(ServerGone(text, kind="interrupted"))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """End, if no more can be read; what is in progress fails once it is known how."""
        if fd == 1 and not self.gone:
            self._last_words = asyncio.get_running_loop().call_later(_LAST_WORDS, self._say_end)
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is in progress: the process has ended, and all that it wrote is read."""
        if not self._lost.done():
            self._lost.set_result(None)
        self._say_end()

    def _say_end(self) -> None:
        """Fail what is in progress, if the server has ended by itself."""
        if self._last_words is None:
            return
        self._last_words.cancel()
        self._last_words = None
        self._fail(self._error())

    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)
        if self._transport is not None:
            self._kill(signal.SIGKILL)

    def pause_writing(self) -> None:
        """Have further requests wait: the server does not read."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def _abort(self, error: ServerGone) -> None:
        self._stop()
        self._rest.clear()
        self._fail(error)
        if self._transport is not None and (output := self._transport.get_pipe_transport(1)) is not None:
            output.close()

    def _stop(self) -> None:
        """Send and take nothing any more."""
        if not self.gone:
            self.gone = True
            self._peer.ended()
        self.resume_writing()

    def _fail(self, error: ServerGone) -> None:
        """Fail what is in progress; say it if nothing is."""
        if not self._peer.failed(error):
            logger.warning("%s", error)

    def _error(self) -> ServerGone:
        """Return how the server has ended, with the last line it wrote since its start."""
        code = None if self._transport is None else self._transport.get_returncode()
        how = "" if code is None else f" (exit code {code})"
        last = self._tail.decode("utf-8", "replace").strip().rpartition("\n")[2]
        wrote = f"; it wrote last: {visible_line(last):.300}" if last else ""
        return ServerGone(f"the MCP server {self._name} has ended{how}{wrote}", kind="interrupted")

"""StdioTransport: a server as a process, in a group of its own, that is read and fed by one protocol object."""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError
from ziggurat.core.jsonrpc import (
    Failure,
    Id,
    JsonRpcError,
    Message,
    Notification,
    Request,
    Success,
    read,
    write,
)
from ziggurat.core.log import logger
from ziggurat.core.visible import visible_line
from ziggurat.mcp.wire import (
    CANCELLED,
    MAX_MESSAGE,
    MAX_NOISE,
    MAX_WAITING,
    PROGRESS,
    Headers,
    Receive,
    ServerGone,
    progress_token,
)

_KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "SYSTEMROOT", "APPDATA", "TEMP")
"""The variables of this process that a server gets; keys of providers are not among them."""

_GRACES = ((None, 2.0), (signal.SIGTERM, 1.0), (signal.SIGKILL, 2.0))
"""How a process is ended: its input is closed, then it gets the signals, each after a number of seconds."""

_TAIL = 2_000
_LAST_WORDS = 1.0
"""Seconds after the end of a server's output in which its exit code and its last words are waited for."""


class _Inbox:
    """What is received for one request."""

    __slots__ = ("_home", "_id", "_messages", "_waiter", "failure", "heard")

    def __init__(self, home: "StdioTransport", request_id: Id, heard: int) -> None:
        self._home = home
        self._id = request_id
        self.heard = heard
        self._messages: deque[Message] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.failure: ToolError | None = None

    def put(self, message: Message) -> None:
        if len(self._messages) < MAX_WAITING or isinstance(message, (Success, Failure)):
            self._messages.append(message)
        self._wake()

    def fail(self, error: ToolError) -> None:
        self.failure = self.failure or error  # what comes later is a consequence
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> Message:
        while not self._messages:
            if self.failure is not None:
                raise self.failure
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._messages.popleft()

    async def end(self, *, answered: bool) -> None:
        self._home.forget(self._id, answered=answered)


class StdioTransport(asyncio.SubprocessProtocol):
    """A server that reads its standard input and writes to its standard output, one message a line."""

    def __init__(
        self,
        name: str,
        command: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str | None,
        receive: Receive,
        ended: Callable[[], None],
    ) -> None:
        self.revision: str = ""
        self.gone: bool = True
        self._name, self._command, self._cwd = name, command, cwd
        self._env = {key: os.environ[key] for key in _KEPT if key in os.environ} | dict(env)
        self._receive, self._ended = receive, ended
        self._inboxes: dict[Id, _Inbox] = {}
        self._rest: list[bytes] = []  # pieces of a line that has not ended
        self._held = self._noise = 0
        self._tail = b""
        self._heard = 0  # bytes of its standard error
        self._begun = False
        self._last_words: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drained: asyncio.Future[None] | None = None

    # -- for the session -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the process.

        Raises:
            ToolError: there is no such program.
        """
        try:
            self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *self._command, env=self._env, cwd=self._cwd, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"the MCP server {self._name} cannot be started: {error}") from error
        self._stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        self.gone = False

    async def begun(self) -> None:
        """Note that what it wrote so far belongs to its start, and to no call."""
        self._begun = True

    async def begin(self, request: Request, headers: Headers, ctx: Context) -> _Inbox:
        """Send a request; wait while the server reads nothing."""
        while self._drained is not None and not self.gone:
            await asyncio.shield(self._drained)
        heard = self._heard if self._begun else 0
        if self.gone:
            raise self._error(heard)
        inbox = self._inboxes[request.id] = _Inbox(self, request.id, heard)
        self.post(request)
        return inbox

    async def tell(self, message: Message) -> None:
        """Send a message without an answer."""
        self.post(message)

    def forget(self, request_id: Id, *, answered: bool) -> None:
        """End a request; tell the server if its answer is not wanted any more."""
        self._inboxes.pop(request_id, None)
        if not answered and not self.gone:
            self.post(Notification(CANCELLED, {"requestId": request_id}))

    def post(self, message: Message) -> None:
        """Write a message."""
        if self._stdin is not None and not self.gone:
            self._stdin.write(write(message) + b"\n")

    def kill(self) -> None:
        """Kill the process and all others of its group."""
        if self._transport is not None:
            self._kill(signal.SIGKILL)

    async def close(self) -> None:
        """End the process and all others of its group."""
        if not self.gone:
            self._end(ServerGone(f"the MCP server {self._name} was closed", kind="interrupted"))
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

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Read the lines that the server wrote."""
        if fd != 1:
            self._tail = (self._tail + data)[-_TAIL:]
            self._heard += len(data)
            return
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._rest and lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
            self._held = 0
        for line in lines:
            self._line(line)
        if rest:
            self._rest.append(rest)
            self._held += len(rest)
            if self._held > MAX_MESSAGE:
                self._abort(f"sent a message of more than {MAX_MESSAGE >> 20} MiB")

    def _line(self, line: bytes) -> None:
        if self.gone or not line.strip():
            return
        try:
            wanted = self._take(read(line))
        except JsonRpcError as error:
            inbox = None if error.request_id is None else self._inboxes.get(error.request_id)
            if inbox is not None:
                inbox.fail(ToolError(f"the MCP server {self._name} sent an answer that is none: {error}"))
            wanted = False
            logger.debug("the MCP server %s wrote what is no message: %.200r", self._name, line)
        self._noise = 0 if wanted else self._noise + 1
        if self._noise > MAX_NOISE:
            self._abort(f"sent {MAX_NOISE:,} messages that nobody waits for")

    def _take(self, message: Message) -> bool:
        """Pass a message on to whom it belongs; return whether it is wanted."""
        if isinstance(message, (Success, Failure)):
            inbox = None if message.id is None else self._inboxes.get(message.id)
        elif isinstance(message, Notification):
            if message.method != PROGRESS:
                return self._receive(message)
            token = progress_token(message)
            inbox = None if token is None else self._inboxes.get(token)
        elif message.method == "ping" or not self._inboxes:
            return self._receive(message)
        else:  # it does not say to which call it belongs: the last one
            inbox = self._inboxes[next(reversed(self._inboxes))]
        if inbox is not None:
            inbox.put(message)
        return inbox is not None

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
        if not self._inboxes:
            logger.warning("%s", self._error(0))
        for inbox in self._inboxes.values():
            inbox.fail(self._error(inbox.heard))

    def process_exited(self) -> None:
        """End the other processes of the group."""
        if not self._exited.done():
            self._exited.set_result(None)
        if self._transport is not None:
            self._kill(signal.SIGKILL)

    def pause_writing(self) -> None:
        """Have further requests wait: the server does not read."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Have them go on."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def _abort(self, why: str) -> None:
        logger.warning("the MCP server %s %s and is ended", self._name, why)
        self._end(ServerGone(f"the MCP server {self._name} {why} and was ended", kind="interrupted"))
        if self._transport is not None and (output := self._transport.get_pipe_transport(1)) is not None:
            output.close()

    def _stop(self) -> None:
        """Send and take nothing any more."""
        if not self.gone:
            self.gone = True
            self._rest.clear()
            self._ended()
        self.resume_writing()

    def _end(self, error: ToolError) -> None:
        """Fail what is in progress."""
        self._stop()
        for inbox in self._inboxes.values():
            inbox.fail(error)

    def _error(self, heard: int) -> ServerGone:
        """Return how the server has ended, with the last line it wrote since so much was heard of it."""
        code = None if self._transport is None else self._transport.get_returncode()
        how = "" if code is None else f" (exit code {code})"
        new = min(self._heard - heard, len(self._tail))
        last = self._tail[len(self._tail) - new :].decode("utf-8", "replace").strip().rpartition("\n")[2]
        wrote = f"; it wrote last: {visible_line(last):.300}" if last else ""
        return ServerGone(f"the MCP server {self._name} has ended{how}{wrote}", kind="interrupted")

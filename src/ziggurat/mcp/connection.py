"""Connection: one connection to a server, which one task opens, watches and closes."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Raw

from ziggurat.core.context import Context, root
from ziggurat.core.errors import Timeout, ToolError
from ziggurat.core.jsonrpc import (
    METHOD_NOT_FOUND,
    Failure,
    JsonRpcError,
    Message,
    Notification,
    Request,
    Success,
    parse,
)
from ziggurat.mcp.greeting import greet
from ziggurat.mcp.wire import (
    MODERN,
    Exchange,
    Headers,
    Progress,
    Receive,
    ServerGone,
    ServerInfo,
    Transport,
    progress_token,
    roots_result,
)

_SIGN_OF_LIFE = 1.0
"""Seconds in which a server that did not answer a call answers a question that is none."""

_LONGEST = 20
"""How many times its time-out a call may take in all, if the server reports progress."""

MAX_QUESTIONS = 50
"""How often a server may ask something in one call."""

Answer = Callable[[str, Raw, Context], Awaitable[object]]
"""Answers a request of the server, its method and parameters, or raises JsonRpcError."""

OnProgress = Callable[[Progress, Context], Awaitable[None]]


class Connection:
    """A connection, or the attempt to make one."""

    def __init__(
        self,
        name: str,
        transport: Callable[[Receive, Callable[[], None]], Transport],
        capabilities: dict[str, Any],
        roots: Sequence[str],
        revision: str,
        changed: Callable[[str], None],
    ) -> None:
        self.name = name
        self.ended: bool = False
        self.info: ServerInfo = ServerInfo()
        self.silent: bool = False
        """Whether a call has timed out, and nothing was received since."""
        self.probe_ended_it: bool = False
        """Whether the server ended when it was asked in the way of the newer era."""
        self._capabilities = capabilities
        self._roots = tuple(roots)
        self._wanted = revision
        self._changed = changed
        self._ids = 0
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._over = asyncio.Event()
        self.transport: Transport = transport(self._receive, self._over.set)
        self.meta: dict[str, Any] = {}
        """What each request says of this side; empty in the older era."""
        self._owner = loop.create_task(self._own(), name=f"MCP server {name}", context=contextvars.Context())

    @property
    def modern(self) -> bool:
        """Whether the requests stand alone."""
        return self.transport.revision == MODERN

    @property
    def usable(self) -> bool:
        """Whether it is open, or may still open."""
        return not self.ended and not self._over.is_set()

    async def ready(self) -> None:
        """Wait until it is open.

        Raises:
            ToolError: it could not be opened.
        """
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Close it, and wait for the end of the server's process."""
        self._over.set()
        await asyncio.wait([self._owner])

    # -- the owner -----------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        opened = False
        try:
            await self.transport.open()
            self.info = await greet(self, self._capabilities, self._wanted)
            await self.transport.begun()
            opened = True
            self._ready.set_result(None)
            await self._over.wait()
        except (ToolError, JsonRpcError, Timeout) as error:
            if not opened:
                self._fail(error)
        finally:
            self.ended = True
            self._over.set()
            if not self._ready.done():
                self._fail(ServerGone(f"the connection to the MCP server {self.name} was closed", kind="transient"))
            await self.transport.close()

    def _fail(self, error: ToolError | JsonRpcError | Timeout) -> None:
        if not isinstance(error, ToolError):
            error = ToolError(f"the MCP server {self.name} could not be asked: {error}", kind="transient")
        self._ready.set_exception(error)
        self._ready.exception()  # retrieved: perhaps nobody waits any more

    # -- requests ------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        ctx: Context,
        *,
        seconds: float,
        headers: Headers = (),
        answer: Answer | None = None,
        progress: OnProgress | None = None,
    ) -> Raw:
        """Send a request and return its result, raw.

        Args:
            method: The method.
            params: Its parameters, without `_meta`.
            ctx: The context; its clock counts the time.
            seconds: How long the server may be silent; progress counts as an answer, up to twenty times as long.
            headers: Further headers, over HTTP.
            answer: Answers what the server asks meanwhile.
            progress: Called with each report of progress.

        Raises:
            JsonRpcError: the server refused it.
            Timeout: the time is over.
            ToolError: the connection ended.
        """
        self._ids += 1
        request_id = self._ids
        meta = self.meta if progress is None else {**self.meta, "progressToken": request_id}
        request = Request(request_id, method, {**params, "_meta": meta} if meta else params)
        until = ctx.clock.monotonic() + _LONGEST * seconds
        exchange: Exchange | None = None
        answered, questions = False, 0
        try:
            while True:
                left = min(seconds, until - ctx.clock.monotonic())
                try:
                    async with ctx.limit(max(left, 0.001)) as limited:
                        if exchange is None:
                            exchange = await self.transport.begin(request, headers, limited)
                        message = await exchange.next()
                except Timeout as error:
                    self.silent = True
                    raise Timeout(
                        f"the MCP server {self.name} did not answer {method} within {seconds:g} s", seconds=seconds
                    ) from error
                self.silent = False
                if isinstance(message, Success):
                    answered = True
                    return message.result  # type: ignore[no-any-return]
                if isinstance(message, Failure):
                    answered = True
                    raise message.exception()
                if isinstance(message, Request):
                    questions += 1
                    if questions > MAX_QUESTIONS:
                        raise ToolError(f"the MCP server {self.name} asked more than {MAX_QUESTIONS} times in {method}")
                    await self.transport.tell(await self._answered(message, answer, ctx))
                elif progress is not None and progress_token(message) is not None:
                    await progress(parse(message.params, Progress), ctx)
        finally:
            if exchange is not None:
                await exchange.end(answered=answered)

    async def _answered(self, request: Request, answer: Answer | None, ctx: Context) -> Message:
        """Return the response to a request of the server, which came during a call."""
        if request.method in ("ping", "roots/list") or answer is None or self.modern:
            return self._at_once(request)
        try:
            return Success(request.id, await answer(request.method, request.params, ctx))
        except JsonRpcError as error:
            return error.answer(request.id)

    def _at_once(self, request: Request) -> Message:
        """Return the response to a request that needs no call."""
        if request.method == "ping":
            return Success(request.id, {})
        if request.method == "roots/list" and self._roots:
            return Success(request.id, roots_result(self._roots))
        return JsonRpcError(f"{request.method} is not answered here", METHOD_NOT_FOUND).answer(request.id)

    def _receive(self, message: Message) -> bool:
        """Take what belongs to no request; return whether it is wanted."""
        self.silent = False
        if isinstance(message, Notification):
            self._changed(message.method)
            return message.method.endswith("/list_changed")
        if isinstance(message, Request):
            self.transport.post(self._at_once(message))
        return False

    def post(self, method: str, params: dict[str, Any]) -> None:
        """Send a request whose answer is of no interest."""
        self._ids += 1
        self.transport.post(Request(self._ids, method, {**params, "_meta": self.meta}))

    async def check(self) -> bool:
        """Return whether a server that did not answer a call answers at all."""
        if not self.silent:
            return True
        try:
            await self.request("server/discover" if self.modern else "ping", {}, root("mcp"), seconds=_SIGN_OF_LIFE)
        except (Timeout, ToolError):
            return False
        except JsonRpcError:
            pass  # it is an answer
        return True

"""Calls: the requests of a connection that wait for their responses, and what a server sends meanwhile."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import Timeout, ToolError
from ziggurat.core.jsonrpc import (
    METHOD_NOT_FOUND,
    Failure,
    Id,
    JsonRpcError,
    Message,
    Notification,
    Request,
    Success,
    parse,
    read,
)
from ziggurat.core.log import logger
from ziggurat.mcp.http import HttpTransport
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.stdio import StdioTransport
from ziggurat.mcp.wire import MAX_MESSAGE, MODERN, Headers, Progress, ServerGone, roots_result

_LONGEST = 20
"""How many times its time-out a call may take in all, if the server reports progress."""

_MAX_NOISE = 10_000
"""Messages that nobody waits for, since the last one that was; more of them end the connection."""

_MAX_WAITING = 100
"""Messages of one call that wait to be handled; what comes beyond is dropped, except for the response."""

MAX_QUESTIONS = 50
"""How often a server may ask something in one call."""

_MAX_REPORT = 1_000
"""Characters of a report of progress."""

Answer = Callable[[str, Raw, Context], Awaitable[object]]
"""Answers a request of the server, its method and parameters, or raises JsonRpcError."""

OnProgress = Callable[[Progress, Context], Awaitable[None]]


class Inbox:
    """What is received for one call, or for one reader of changes."""

    __slots__ = ("_held", "_items", "_waiter", "failure", "over")

    def __init__(self) -> None:
        self.over: bool = False
        """Whether nothing more is needed: the response has come, or it has failed."""
        self.failure: Exception | None = None
        self._items: deque[tuple[Any, int]] = deque()
        self._held = 0
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: object, size: int = 0) -> None:
        """Add what was received, with its size; what comes too fast is dropped, but not the response."""
        full = len(self._items) >= _MAX_WAITING or self._held + size > MAX_MESSAGE
        if self.over or (full and isinstance(item, (Request, Progress))):
            return
        self.over = isinstance(item, (Success, Failure))
        self._held += size
        self._items.append((item, size))
        self._wake()

    def holds(self, item: object) -> bool:
        return (item, 0) in self._items

    def fail(self, error: Exception) -> None:
        """Raise an error when the rest is taken."""
        self.failure = self.failure or error  # what comes later is a consequence
        self.over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> Any:
        while not self._items:
            if self.failure is not None:
                raise self.failure
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item, size = self._items.popleft()
        self._held -= size
        return item


class Calls:
    """The calls of one connection; a transport passes on to them what the server sends."""

    transport: HttpTransport | StdioTransport

    def __init__(self, settings: Settings) -> None:
        self.name: str = settings.name
        self.silent: bool = False
        """Whether a call has timed out, and nothing was received since."""
        self.meta: dict[str, Any] = {}
        """What each request says of this side; empty in the older era."""
        self._roots = settings.roots
        self._ids = self._noise = 0
        self._calls: dict[Id | None, Inbox] = {}

    @property
    def modern(self) -> bool:
        """Whether the requests stand alone."""
        return self.transport.revision == MODERN

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
        """Send a request and return its result, raw; the server may be silent for so many seconds."""
        self._ids += 1
        number = self._ids
        meta = self.meta if progress is None else {**self.meta, "progressToken": number}
        request = Request(number, method, {**params, "_meta": meta} if meta else params)
        until = ctx.clock.monotonic() + _LONGEST * seconds
        inbox = self._calls[number] = Inbox()
        begun, questions = False, 0
        try:
            while True:
                left = min(seconds, until - ctx.clock.monotonic())
                try:
                    async with ctx.limit(max(left, 0.001)):
                        if not begun:
                            await self.transport.begin(request, headers, ctx)
                            begun = True
                        got = await inbox.next()
                except Timeout as error:
                    self.silent = True
                    raise Timeout(
                        f"the MCP server {self.name} did not answer {method} within {seconds:g} s", seconds=seconds
                    ) from error
                if isinstance(got, Success):
                    return got.result  # type: ignore[no-any-return]
                if isinstance(got, Failure):
                    raise got.exception()
                if isinstance(got, Progress):
                    if progress is not None:
                        await progress(got, ctx)
                    continue
                questions += 1
                if questions > MAX_QUESTIONS:
                    raise ToolError(f"the MCP server {self.name} asked more than {MAX_QUESTIONS} times in {method}")
                await self.transport.tell(await self._answered(got, answer, ctx))
        finally:
            del self._calls[number]
            if not inbox.over and begun and not await self.transport.end(number) and method != "initialize":
                self.transport.post(Notification("notifications/cancelled", {"requestId": number}))

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

    def post(self, method: str, params: dict[str, Any]) -> None:
        """Send a request whose answer is of no interest."""
        self._ids += 1
        self.transport.post(Request(self._ids, method, {**params, "_meta": self.meta}))

    # -- for the transport ---------------------------------------------------------------------------------------

    def received(self, data: bytes | str, call: Id | None = None) -> bool:
        """Take a message, of the stream of one call or of all; return whether that call needs no more."""
        self.silent = wanted = False
        message: Message | None = None
        try:
            message = read(data)
            wanted = self._take(message, call, len(data))
        except JsonRpcError as error:
            inbox = self._calls.get(error.request_id if call is None else call)
            if message is None and inbox is not None:
                inbox.fail(ToolError(f"the MCP server {self.name} sent what is no message: {error}"))
            logger.debug("the MCP server %s sent what is no message: %.200r", self.name, data)
        self._noise = 0 if wanted else self._noise + 1
        if self._noise > _MAX_NOISE:
            raise ServerGone(
                f"the MCP server {self.name} sent {_MAX_NOISE:,} messages that nobody waits for", kind="interrupted"
            )
        return call is not None and (call not in self._calls or self._calls[call].over)

    def _take(self, message: Message, call: Id | None, size: int) -> bool:
        """Pass a message on to whom it belongs; return whether it is wanted."""
        item: object = message
        if isinstance(message, (Success, Failure)):
            of_call = call if isinstance(message, Failure) else None
            inbox = self._calls.get(message.id) or self._calls.get(of_call)
        elif isinstance(message, Notification):
            if message.method != "notifications/progress":
                return self.heard(message)
            got = parse(message.params, Progress)
            item, size = replace(got, message=got.message and got.message[:_MAX_REPORT]), 0
            inbox = self._calls.get(got.progress_token)
        elif message.method == "ping" or not self._calls:
            self.transport.post(self._at_once(message))
            return False
        else:  # if it does not say to which call it belongs, to the last one
            inbox = self._calls.get(next(reversed(self._calls)) if call is None else call)
        if inbox is not None:
            inbox.put(item, size)
        return inbox is not None

    def heard(self, message: Notification) -> bool:
        """Take note of what the server tells of; return whether that is of interest."""
        return False

    def ended(self) -> None:
        """Take note that nothing can be sent any more."""

    def failed(self, error: Exception, call: Id | None = None) -> bool:
        """Fail one call, or all; return whether there was any."""
        found = [inbox for number, inbox in self._calls.items() if call in (None, number)]
        for inbox in found:
            inbox.fail(error)
        return bool(found)

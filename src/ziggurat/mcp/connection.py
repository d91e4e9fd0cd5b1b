"""Connection: one connection to a server, which one task opens, watches and closes, and the calls on it."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from ziggurat.core.context import Context, root
from ziggurat.core.errors import Timeout, ToolError
from ziggurat.core.log import logger
from ziggurat.core.tasks import end_all
from ziggurat.mcp import wire
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.transports import HttpTransport, StdioTransport
from ziggurat.wires import jsonrpc

_ABOUT = {"name": "ziggurat", "version": "0"}
_PROBE = 10.0  # seconds in which a server of the newer era answers the first request; others may say nothing
_HANDSHAKE = 30.0
_SIGN_OF_LIFE = 1.0  # seconds in which a server that did not answer a call answers a question that is none
_FOREVER = 1e9
_FOLLOWED = 10  # how often a connection asks again to be told of changes
_PAUSE = 1.0  # seconds before it does
_LONGEST = 20  # how many times its time-out a call may take in all, if the server reports progress
_MAX_NOISE = 10_000  # messages that nobody waits for, since the last one that was; more of them end the connection
_MAX_WAITING = 100
"""Messages of one call that wait to be handled; what comes beyond is dropped, except for the response."""

MAX_QUESTIONS = 50  # how often a server may ask something in one call
_MAX_REPORT = 1_000  # characters of a report of progress
Answer = Callable[[str, Raw, Context], Awaitable[object]]
"""Answers a request of the server, its method and parameters, or raises JsonRpcError."""

OnProgress = Callable[[wire.Progress, Context], Awaitable[None]]


class Inbox:
    """What is received for one call."""

    __slots__ = ("_held", "_items", "over")

    def __init__(self) -> None:
        self.over: bool = False  # whether nothing more is needed: the response has come, or it has failed
        self._items: asyncio.Queue[tuple[Any, int]] = asyncio.Queue()
        self._held = 0

    def put(self, item: object, size: int = 0) -> None:
        """Add what was received, with its size; what comes too fast is dropped, but not the response."""
        full = self._items.qsize() >= _MAX_WAITING or self._held + size > wire.MAX_MESSAGE
        if self.over or (full and isinstance(item, (jsonrpc.Request, wire.Progress))):
            return
        self.over = isinstance(item, (jsonrpc.Success, jsonrpc.Failure, Exception))
        self._held += size
        self._items.put_nowait((item, size))

    async def next(self) -> Any:
        item, size = await self._items.get()
        self._held -= size
        if isinstance(item, Exception):
            raise item
        return item


class Connection:
    """A connection, or the attempt to make one, in the revision that is wanted or in the newest that the server has."""

    def __init__(self, settings: Settings, wanted: str, changed: Callable[[str], None]) -> None:
        self.name: str = settings.name
        self.closed: bool = False
        self.silent: bool = False  # whether a call has timed out, and nothing was received since
        self.meta: dict[str, Any] = {}  # what each request says of this side; empty in the older era
        self.info: wire.ServerInfo = wire.ServerInfo()
        self.probe_ended_it: bool = False  # whether the server ended when it was asked in the way of the newer era
        self._settings = settings
        self._wanted = wanted
        self._changed = changed
        self._ids = self._noise = 0
        self._calls: dict[jsonrpc.Id | None, Inbox] = {}
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._over = asyncio.Event()
        self.transport: HttpTransport | StdioTransport = (
            HttpTransport(settings, self) if settings.url else StdioTransport(settings, self)
        )
        self._owner = loop.create_task(self._own(), name=f"MCP server {self.name}", context=contextvars.Context())

    @property
    def usable(self) -> bool:
        return not self.closed and not self._over.is_set()

    async def ready(self) -> None:
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        self.failed(self._was_closed())
        self._over.set()
        if not self._ready.done():
            self._owner.cancel()
        await asyncio.wait([self._owner])

    def failed(self, error: Exception, call: jsonrpc.Id | None = None) -> bool:
        found = [inbox for number, inbox in self._calls.items() if call in (None, number)]
        for inbox in found:
            inbox.put(error)
        return bool(found) or not self._ready.done()

    def ended(self) -> None:
        self._over.set()

    def _was_closed(self) -> wire.ServerGone:
        return wire.ServerGone(f"the connection to the MCP server {self.name} was closed", kind="interrupted")

    # -- the owner -----------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        opened, following = False, None
        try:
            await self.transport.open()
            self.info = await self._greet()
            await self.transport.begun()
            opened = True
            self._ready.set_result(None)
            told = {f"{kind}ListChanged": True for kind in wire.LISTS if self.tells_of(kind)}
            if self.modern and told:
                following = asyncio.get_running_loop().create_task(self._follow(told))
            await self._over.wait()
        except (ToolError, jsonrpc.JsonRpcError, Timeout) as error:
            if not opened:
                self._fail(error)
        finally:
            self.closed = True
            self._over.set()
            if not self._ready.done():
                self._fail(self._was_closed())
            await self.transport.close()
            self.failed(self._was_closed())
            if following is not None:
                await end_all([following])

    def _fail(self, error: ToolError | jsonrpc.JsonRpcError | Timeout) -> None:
        if not isinstance(error, ToolError):
            error = ToolError(f"the MCP server {self.name} could not be asked: {error}", kind="transient")
        self._ready.set_exception(error)
        self._ready.exception()  # retrieved: perhaps nobody waits any more

    # -- the beginning -------------------------------------------------------------------------------------------

    async def _greet(self) -> wire.ServerInfo:
        settings, transport = self._settings, self.transport
        capabilities: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
        if settings.model is not None:
            capabilities["sampling"] = {}
        if settings.roots:
            capabilities["roots"] = {}
        if self._wanted in ("", wire.MODERN):
            try:
                info = await self._discover(capabilities)
                if wire.MODERN in info.supported_versions:
                    return info
            except (jsonrpc.JsonRpcError, Timeout, ToolError) as error:
                self.probe_ended_it = transport.gone
                if self._wanted == wire.MODERN or transport.gone or _is_final(error):
                    raise
                logger.debug("the MCP server %s is of the older era: %s", self.name, error)
        transport.revision, self.meta = "", {}
        return await self._initialize(capabilities, self._wanted or wire.LEGACY[0])

    async def _discover(self, capabilities: dict[str, Any]) -> wire.ServerInfo:
        self.transport.revision = wire.MODERN
        self.meta = {
            f"{wire.PREFIX}protocolVersion": wire.MODERN,
            f"{wire.PREFIX}clientInfo": _ABOUT,
            f"{wire.PREFIX}clientCapabilities": {**capabilities, "extensions": {wire.TASKS: {}}},
        }
        try:
            result = await self.request("server/discover", {}, root("mcp"), seconds=_PROBE)
        except jsonrpc.JsonRpcError as error:
            if error.code != wire.UNSUPPORTED_VERSION or wire.MODERN not in _offered(error):
                raise
            result = await self.request("server/discover", {}, root("mcp"), seconds=_PROBE)
        return jsonrpc.parse(result, wire.ServerInfo)

    async def _initialize(self, capabilities: dict[str, Any], revision: str) -> wire.ServerInfo:
        params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": _ABOUT}
        info = jsonrpc.parse(await self.request("initialize", params, root("mcp"), seconds=_HANDSHAKE), wire.ServerInfo)
        if info.protocol_version not in wire.LEGACY:
            raise ToolError(f"the MCP server {self.name} speaks {info.protocol_version!r:.40}, which is unknown here")
        self.transport.revision = info.protocol_version
        await self.transport.tell(jsonrpc.Notification("notifications/initialized"))
        return info

    async def check(self) -> bool:
        if not self.silent:
            return True
        try:
            await self.request("server/discover" if self.modern else "ping", {}, root("mcp"), seconds=_SIGN_OF_LIFE)
        except (Timeout, ToolError):
            return False
        except jsonrpc.JsonRpcError:
            pass  # it is an answer
        return True

    # -- calls ---------------------------------------------------------------------------------------------------

    @property
    def modern(self) -> bool:
        return self.transport.revision == wire.MODERN

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        ctx: Context,
        *,
        seconds: float,
        headers: wire.Headers = (),
        answer: Answer | None = None,
        progress: OnProgress | None = None,
    ) -> Raw:
        """Send a request and return its result, raw; the server may be silent for so many seconds."""
        self._ids += 1
        number = self._ids
        meta = self.meta if progress is None else {**self.meta, "progressToken": number}
        request = jsonrpc.Request(number, method, {**params, "_meta": meta} if meta else params)
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
                if isinstance(got, jsonrpc.Success):
                    return got.result  # type: ignore[no-any-return]
                if isinstance(got, jsonrpc.Failure):
                    raise got.exception()
                if isinstance(got, wire.Progress):
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
                self.transport.post(jsonrpc.Notification("notifications/cancelled", {"requestId": number}))

    async def _answered(self, request: jsonrpc.Request, answer: Answer | None, ctx: Context) -> jsonrpc.Message:
        if request.method in ("ping", "roots/list") or answer is None or self.modern:
            return self._at_once(request)
        try:
            return jsonrpc.Success(request.id, await answer(request.method, request.params, ctx))
        except jsonrpc.JsonRpcError as error:
            return error.answer(request.id)

    def _at_once(self, request: jsonrpc.Request) -> jsonrpc.Message:
        if request.method == "ping":
            return jsonrpc.Success(request.id, {})
        if request.method == "roots/list" and self._settings.roots:
            return jsonrpc.Success(request.id, wire.roots_result(self._settings.roots))
        return jsonrpc.JsonRpcError(f"{request.method} is not answered here", jsonrpc.METHOD_NOT_FOUND).answer(
            request.id
        )

    def post(self, method: str, params: dict[str, Any]) -> None:
        self._ids += 1
        self.transport.post(jsonrpc.Request(self._ids, method, {**params, "_meta": self.meta}))

    # -- for the transport ---------------------------------------------------------------------------------------

    def received(self, data: bytes | str, call: jsonrpc.Id | None = None) -> bool:
        """Take a message, of the stream of one call or of all; return whether that call needs no more."""
        self.silent = wanted = False
        message: jsonrpc.Message | None = None
        try:
            message = jsonrpc.read(data)
            wanted = self._take(message, call, len(data))
        except jsonrpc.JsonRpcError as error:
            inbox = self._calls.get(error.request_id if call is None else call)
            if message is None and inbox is not None:
                inbox.put(ToolError(f"the MCP server {self.name} sent what is no message: {error}"))
            logger.debug("the MCP server %s sent what is no message: %.200r", self.name, data)
        self._noise = 0 if wanted else self._noise + 1
        if self._noise > _MAX_NOISE:
            raise wire.ServerGone(
                f"the MCP server {self.name} sent {_MAX_NOISE:,} messages that nobody waits for", kind="interrupted"
            )
        return call is not None and (call not in self._calls or self._calls[call].over)

    def _take(self, message: jsonrpc.Message, call: jsonrpc.Id | None, size: int) -> bool:
        item: object = message
        if isinstance(message, (jsonrpc.Success, jsonrpc.Failure)):
            of_call = call if isinstance(message, jsonrpc.Failure) else None
            inbox = self._calls.get(message.id) or self._calls.get(of_call)
        elif isinstance(message, jsonrpc.Notification):
            if message.method != "notifications/progress":
                return self.heard(message)
            got = jsonrpc.parse(message.params, wire.Progress)
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

    # -- changes -------------------------------------------------------------------------------------------------

    def tells_of(self, kind: str) -> bool:
        able = self.info.capabilities.get(kind)
        return isinstance(able, dict) and able.get("listChanged") is True

    def heard(self, message: jsonrpc.Notification) -> bool:
        kind = message.method.removeprefix("notifications/").removesuffix("/list_changed")
        if kind in wire.LISTS:
            self._changed(kind)
        return kind in wire.LISTS

    async def _follow(self, lists: dict[str, bool]) -> None:
        """Have a server of the newer era tell of lists that change, and ask again if that is cut."""
        ctx = root("mcp")
        for _ in range(_FOLLOWED):
            try:
                await self.request("subscriptions/listen", {"notifications": lists}, ctx, seconds=_FOREVER)
            except jsonrpc.JsonRpcError:
                return
            except ToolError as error:
                if error.kind not in wire.CUT:
                    return
            except Timeout:
                pass
            if not self.usable:
                return
            await ctx.clock.sleep(_PAUSE)
            self._changed("")  # what has changed meanwhile was not told


def _offered(error: jsonrpc.JsonRpcError) -> list[object]:
    found = error.data.get("supported") if isinstance(error.data, dict) else None
    return found if isinstance(found, list) else []


def _is_final(error: jsonrpc.JsonRpcError | Timeout | ToolError) -> bool:
    """Return whether a server that answered the first request with an error is not to be asked in the older way."""
    if isinstance(error, jsonrpc.JsonRpcError):
        return error.code in wire.MODERN_ERRORS and not any(each in wire.LEGACY for each in _offered(error))
    return isinstance(error, ToolError) and error.kind in ("transient", "denied")

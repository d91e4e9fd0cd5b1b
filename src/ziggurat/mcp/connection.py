"""Connection: one connection to a server, which one task opens, watches and closes."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Collection
from typing import Any

from msgspec import Raw, Struct

from ziggurat.core import jsonrpc
from ziggurat.core.context import Context, root
from ziggurat.core.errors import Timeout, ToolError
from ziggurat.core.log import logger
from ziggurat.mcp import wire
from ziggurat.mcp.answers import Answers
from ziggurat.mcp.calls import MAX_QUESTIONS, Calls, Inbox
from ziggurat.mcp.http import HttpTransport
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.stdio import StdioTransport
from ziggurat.mcp.wire import refused
from ziggurat.messages.events import ToolDelta

_ABOUT = {"name": "ziggurat", "version": "0"}
_PROBE = 10.0
"""Seconds in which a server of the newer era answers the first request; others may say nothing."""

_HANDSHAKE = 30.0
_SIGN_OF_LIFE = 1.0
"""Seconds in which a server that did not answer a call answers a question that is none."""

_FOREVER = 1e9
_FOLLOWED = 10
"""How often a connection asks again to be told of changes."""

_PAUSE = 1.0
"""Seconds before it does."""


class _Update(Struct, frozen=True):
    uri: str = ""


class Connection(Calls):
    """A connection, or the attempt to make one, in the revision that is wanted or in the newest that the server has."""

    def __init__(self, settings: Settings, wanted: str, changed: Callable[[str], None]) -> None:
        super().__init__(settings)
        self.closed: bool = False
        self.info: wire.ServerInfo = wire.ServerInfo()
        self.probe_ended_it: bool = False
        """Whether the server ended when it was asked in the way of the newer era."""
        self._settings = settings
        self._wanted = wanted
        self._changed = changed
        self._readers: dict[Inbox, Collection[str]] = {}
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._over = asyncio.Event()
        self.transport = HttpTransport(settings, self) if settings.url else StdioTransport(settings, self)
        self._owner = loop.create_task(self._own(), name=f"MCP server {self.name}", context=contextvars.Context())

    @property
    def usable(self) -> bool:
        """Whether it is open, or may still open."""
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
        """Fail one call, or all and those who read of changes; return whether there was any."""
        for reader in self._readers if call is None else ():
            reader.fail(error)
        return super().failed(error, call)

    def ended(self) -> None:
        """Take note that nothing can be sent any more."""
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
                following.cancel()
                await asyncio.wait([following])

    def _fail(self, error: ToolError | jsonrpc.JsonRpcError | Timeout) -> None:
        if not isinstance(error, ToolError):
            error = ToolError(f"the MCP server {self.name} could not be asked: {error}", kind="transient")
        self._ready.set_exception(error)
        self._ready.exception()  # retrieved: perhaps nobody waits any more

    # -- the beginning -------------------------------------------------------------------------------------------

    async def _greet(self) -> wire.ServerInfo:
        """Agree on a revision, and return what the server says of itself."""
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
            raise ToolError(
                f"the MCP server {self.name} speaks the revision {info.protocol_version!r:.40}, which is unknown here"
            )
        self.transport.revision = info.protocol_version
        await self.transport.tell(jsonrpc.Notification("notifications/initialized"))
        return info

    async def check(self) -> bool:
        """Return whether a server that did not answer a call answers at all."""
        if not self.silent:
            return True
        try:
            await self.request("server/discover" if self.modern else "ping", {}, root("mcp"), seconds=_SIGN_OF_LIFE)
        except (Timeout, ToolError):
            return False
        except jsonrpc.JsonRpcError:
            pass  # it is an answer
        return True

    # -- changes -------------------------------------------------------------------------------------------------

    def tells_of(self, kind: str) -> bool:
        able = self.info.capabilities.get(kind)
        return isinstance(able, dict) and able.get("listChanged") is True

    def heard(self, message: jsonrpc.Notification) -> bool:
        """Take note of what the server says has changed; return whether it is about that."""
        if message.method == "notifications/resources/updated":
            self._tell(jsonrpc.parse(message.params, _Update).uri)
            return True
        kind = message.method.removeprefix("notifications/").removesuffix("/list_changed")
        if kind in wire.LISTS:
            self._tell(kind)
        return kind in wire.LISTS

    def _tell(self, change: str) -> None:
        """Tell of a list or a resource that has changed, or may have."""
        if change in wire.LISTS:
            self._changed(change)
        for reader, uris in self._readers.items():
            if (change in uris or change in wire.LISTS) and not reader.holds(change):
                reader.put(change)

    async def changes(self, uris: Collection[str]) -> AsyncGenerator[str, None]:
        """Yield the kind of each list that has changed, and the address of each of these resources that has."""
        reader, following = Inbox(), None
        self._readers[reader] = uris
        try:
            if uris and self.modern:
                work = self._follow({"resourceSubscriptions": [*uris]}, reader)
                following = asyncio.get_running_loop().create_task(work)
            for uri in () if self.modern else uris:
                await self.request("resources/subscribe", {"uri": uri}, root("mcp"), seconds=self._settings.timeout)
            while True:
                yield await reader.next()
        except jsonrpc.JsonRpcError as error:
            raise refused(error, self.name) from error
        finally:
            del self._readers[reader]
            if following is not None:
                following.cancel()
            for uri in () if self.modern or not self.usable else uris:
                self.post("resources/unsubscribe", {"uri": uri})

    async def _follow(self, what: dict[str, Any], reader: Inbox | None = None) -> None:
        """Have a server of the newer era tell of changes; when it does so no more, the reader gets the error."""
        ctx = root("mcp")
        error: Exception = self._was_closed()
        for _ in range(_FOLLOWED):
            try:
                await self.request("subscriptions/listen", {"notifications": what}, ctx, seconds=_FOREVER)
            except (ToolError, Timeout) as cut:
                error = cut
            except jsonrpc.JsonRpcError as no:
                error = refused(no, self.name)
            if not self.usable or (isinstance(error, ToolError) and error.kind not in wire.CUT):
                break
            await ctx.clock.sleep(_PAUSE)
            for change in what.get("resourceSubscriptions", wire.LISTS):
                self._tell(change)  # what has changed meanwhile was not told
        if reader is not None:
            reader.fail(error)


def _offered(error: jsonrpc.JsonRpcError) -> list[object]:
    """Return the revisions that a server names when it refuses one."""
    found = error.data.get("supported") if isinstance(error.data, dict) else None
    return found if isinstance(found, list) else []


def _is_final(error: jsonrpc.JsonRpcError | Timeout | ToolError) -> bool:
    """Return whether a server that answered the first request with an error is not to be asked in the older way."""
    if isinstance(error, jsonrpc.JsonRpcError):
        return error.code in wire.MODERN_ERRORS and not any(each in wire.LEGACY for each in _offered(error))
    return isinstance(error, ToolError) and error.kind in ("transient", "denied")


_POLL = (0.05, 1.0, 60.0)
"""The shortest, the usual and the longest time in seconds between two looks at a task."""


class Link:
    """One connection per event loop, each made by the first request that needs it."""

    def __init__(self, settings: Settings, changed: Callable[[str], None]) -> None:
        self.settings: Settings = settings
        self._changed = changed
        self._answers = Answers(settings.name, settings.model, settings.elicit, settings.roots)
        self._connections: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._known = ""  # the revision that was agreed on the last time

    # -- requests ------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: dict[str, Any], ctx: Context, **more: Any) -> Raw:
        """Make a request; once more if the server has refused it because it does not know the session."""
        for tries in (1, 2):
            connection = await self.connection()
            try:
                return await connection.request(method, params, ctx, seconds=self.settings.timeout, **more)
            except wire.SessionLost:
                if tries == 2:
                    raise
            except jsonrpc.JsonRpcError as error:
                raise refused(error, self.settings.name) from error
        raise AssertionError("the loop returns or raises")

    async def act(self, method: str, params: dict[str, Any], ctx: Context, headers: wire.Headers = ()) -> wire.Outcome:
        sent = params
        for _ in range(MAX_QUESTIONS):
            outcome = await self._outcome(method, sent, ctx, headers)
            if outcome.result_type == "task":
                return await self._result_of_task(outcome, ctx)
            if outcome.result_type != "input_required":
                return outcome
            sent = dict(params)
            if outcome.input_requests:
                sent["inputResponses"] = await self._responses(outcome.input_requests, ctx)
            if outcome.request_state is not None:
                sent["requestState"] = outcome.request_state
        raise ToolError(f"the MCP server {self.settings.name} asked more than {MAX_QUESTIONS} times in one call")

    async def _responses(self, asked: dict[str, wire.InputRequest], ctx: Context) -> dict[str, object]:
        if len(asked) > MAX_QUESTIONS:
            raise ToolError(f"the MCP server {self.settings.name} asked more than {MAX_QUESTIONS} times at once")
        try:
            return {key: await self._answers(each.method, each.params, ctx) for key, each in asked.items()}
        except jsonrpc.JsonRpcError as error:
            raise ToolError(f"the MCP server {self.settings.name} asks what nobody can answer: {error}") from error

    async def _result_of_task(self, task: wire.Outcome, ctx: Context) -> wire.Outcome:
        """Look at a task until it has ended; answer what it asks."""
        named, answered = {"taskId": task.task_id}, set[str]()
        shortest, usual, longest = _POLL
        try:
            while task.status in ("working", "input_required"):
                pause = usual if task.poll_interval_ms is None else task.poll_interval_ms / 1_000
                await ctx.clock.sleep(min(max(pause, shortest), longest))
                task = await self._outcome("tasks/get", named, ctx)
                new = {key: each for key, each in (task.input_requests or {}).items() if key not in answered}
                if task.status == "input_required" and new:
                    answered |= new.keys()
                    if len(answered) > MAX_QUESTIONS:
                        raise ToolError(f"a task of the MCP server {self.settings.name} asked too often")
                    responses = await self._responses(new, ctx)
                    await self._outcome("tasks/update", {**named, "inputResponses": responses}, ctx)
        except BaseException:
            connection = self._connections.get(asyncio.get_running_loop())
            if connection is not None and connection.usable:
                connection.post("tasks/cancel", named)
            raise
        if task.status == "completed" and wire.is_given(task.result):
            return jsonrpc.parse(task.result, wire.Outcome, jsonrpc.INTERNAL_ERROR)
        if wire.is_given(task.error):
            raise refused(
                jsonrpc.Failure(None, jsonrpc.parse(task.error, jsonrpc.ErrorObject)).exception(), self.settings.name
            )
        raise ToolError(
            f"the task of the MCP server {self.settings.name} was {task.status:.20}: {task.status_message or ''}"
        )

    async def _outcome(
        self, method: str, params: dict[str, Any], ctx: Context, headers: wire.Headers = ()
    ) -> wire.Outcome:
        progress = _report if method == "tools/call" else None
        result = await self.request(method, params, ctx, headers=headers, answer=self._answers, progress=progress)
        try:
            return jsonrpc.parse(result, wire.Outcome, jsonrpc.INTERNAL_ERROR)
        except jsonrpc.JsonRpcError as error:
            raise ToolError(f"the MCP server {self.settings.name} sent a result that is none: {error}") from error

    # -- connections ---------------------------------------------------------------------------------------------

    async def connection(self) -> Connection:
        """Return the connection of this loop; a new one if it was lost, or if the server is as good as dead."""
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is not None and connection.silent and connection.usable and not await connection.check():
            logger.warning("the MCP server %s does not react and is started again", self.settings.name)
            connection.transport.kill()
            await connection.close()
        connection = self._connections.get(loop)
        if connection is None or not connection.usable:
            connection = self._connect(loop)
        try:
            await connection.ready()
        except ToolError:
            known, self._known = self._known, ""
            if not connection.probe_ended_it or known or self.settings.revision:
                raise
            self._known = wire.LEGACY[0]  # it ended because it was asked in the newer way
            connection = self._connect(loop)
            await connection.ready()
        self._known = wire.MODERN if connection.modern else wire.LEGACY[0]
        return connection

    async def close(self) -> None:
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.close()

    def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        for old in [each for each in self._connections if each.is_closed()]:
            del self._connections[old]
        connection = Connection(self.settings, self.settings.revision or self._known, self._changed)
        self._connections[loop] = connection
        self._changed("")
        return connection


async def _report(progress: wire.Progress, ctx: Context) -> None:
    if progress.message and ctx.listens(ToolDelta):
        name = ctx.path.rpartition("/")[2]
        await ctx.emit(ToolDelta(ctx.path, name, progress.message))

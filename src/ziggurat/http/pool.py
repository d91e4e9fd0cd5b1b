"""Pool: the connections to one service on one event loop."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable

from ziggurat.core.context import Context
from ziggurat.core.errors import ModelError
from ziggurat.http.connection import Connection
from ziggurat.http.limits import Limits


class Pool:
    """Keeps connections open and lends each to one call at a time; waiting calls are served in order."""

    def __init__(self, connect: "Callable[[Pool, Context], Awaitable[Connection]]", limits: Limits) -> None:
        self._connect = connect
        self._limits = limits
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._opening = 0
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False
        self._watch: AsyncGenerator[None, None] | None = None

    @property
    def open(self) -> int:
        """The number of open connections, idle ones included."""
        return len(self._all)

    async def borrow(self, ctx: Context) -> Connection:
        """Return an idle connection, a new one if allowed, or else the next that is released."""
        if self._watch is None:
            self._watch = self._until_the_loop_ends()
            await anext(self._watch)
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() - connection.idle_since < self._limits.keep_alive and connection.usable():
                return connection
            connection.abandon()
        if len(self._all) + self._opening < self._limits.connections:
            return await self._opened(ctx)
        return await self._turn(ctx)

    async def _opened(self, ctx: Context) -> Connection:
        self._opening += 1
        try:
            connection = await self._connect(self, ctx)
        except BaseException:
            self._opening -= 1
            self._freed()
            raise
        self._opening -= 1
        if self._closed:
            connection.abandon()
            raise ModelError("the client was closed while it connected", kind="connection", transient=False)
        self._all.add(connection)
        return connection

    async def _turn(self, ctx: Context) -> Connection:
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            connection = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pass_on(waiter.result())
            raise
        if connection is None:
            self._opening -= 1  # the place reserved by `_freed`
            return await self._opened(ctx)
        if connection.usable():
            return connection
        connection.abandon()
        return await self._turn_again(ctx)

    async def _turn_again(self, ctx: Context) -> Connection:
        if len(self._all) + self._opening < self._limits.connections:
            return await self._opened(ctx)
        return await self._turn(ctx)

    def _pass_on(self, connection: Connection | None) -> None:
        if connection is None:
            self._opening -= 1
            self._freed()
        else:
            self.release(connection)

    def release(self, connection: Connection) -> None:
        """Take back a connection that can be used again."""
        if self._closed or connection not in self._all:
            connection.abandon()
            return
        waiter = self._next()
        if waiter is not None:
            waiter.set_result(connection)
        elif len(self._idle) < self._limits.idle_connections:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.abandon()

    def forget(self, connection: Connection) -> None:
        """Remove a connection; a waiting call may open another in its place."""
        if connection in self._all:
            self._all.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._freed()

    def _freed(self) -> None:
        waiter = self._next()
        if waiter is not None:
            self._opening += 1  # reserves the place until the waiter runs
            waiter.set_result(None)

    def _next(self) -> "asyncio.Future[Connection | None] | None":
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def close(self) -> None:
        """Close all connections; calls in progress fail."""
        self._closed = True
        for connection in tuple(self._all):
            connection.abandon()
        self._idle.clear()
        while (waiter := self._next()) is not None:
            waiter.set_exception(ModelError("the client was closed", kind="connection", transient=False))

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Close the pool when the event loop shuts down, which closes unfinished asynchronous generators."""
        try:
            yield
        finally:
            self.close()
            await asyncio.sleep(0)  # the transports close in the loop's next turn

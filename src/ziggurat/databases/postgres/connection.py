"""A connection to a PostgreSQL server, used by one thread; opened when needed and reopened when lost."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from ziggurat.core.errors import JournalCorrupt, MissingExtra, StoreError, StoreUnavailable, ZigguratError
from ziggurat.databases.postgres.address import PostgresAddress
from ziggurat.databases.postgres.locks import NOT_AVAILABLE, describe_holder, timeouts

T = TypeVar("T")

logger: logging.Logger = logging.getLogger("ziggurat")

Prepare = Callable[["Connection", PostgresAddress], Awaitable[None]]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_DAMAGED = ("XX001", "XX002")
_PASSING = ("08", "25006", "25P03", "40", "53300", NOT_AVAILABLE, "57")
"""Prefixes of SQLSTATE codes of transient errors: lost connections, a read-only server, a session that was stopped in
a transaction, deadlocks, too many clients, a lock that was not granted, a server starting or stopping."""
_CUT_OFF = ("InterfaceError", "InternalClientError")
"""Exceptions of the driver for a connection that ends in the middle of an operation."""
_IDLE = 120.0
"""Seconds without use after which a connection is reopened: a firewall may have dropped it."""


class Connection(Protocol):
    """The methods of the driver's connection that are used here."""

    async def fetch(self, statement: str, *values: object) -> Sequence[Any]:
        """Run a statement and return its rows."""
        ...

    async def fetchrow(self, statement: str, *values: object) -> Any:
        """Run a statement and return its first row, or None."""
        ...

    async def fetchval(self, statement: str, *values: object) -> Any:
        """Run a statement and return the first value of its first row, or None."""
        ...

    async def execute(self, statement: str, *values: object, timeout: float | None = None) -> str:
        """Run a statement and return its status text."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """Return a context manager for a transaction."""
        ...

    async def add_listener(self, channel: str, callback: Callable[..., object]) -> None:
        """Register a function to be called with notifications on a channel."""
        ...

    async def remove_listener(self, channel: str, callback: Callable[..., object]) -> None:
        """Take back `add_listener`."""
        ...

    def add_termination_listener(self, callback: Callable[..., object]) -> None:
        """Register a function to be called when the connection is lost."""
        ...

    def is_closed(self) -> bool:
        """Return whether the connection can no longer be used."""
        ...

    def terminate(self) -> None:
        """Close the connection at once."""
        ...


async def opened(address: PostgresAddress, timeout: float, prepare: Prepare) -> Connection:
    """Open a connection in this event loop."""
    try:
        import asyncpg
    except ImportError as error:
        raise MissingExtra("a PostgreSQL store", "postgres") from error
    settings = {"application_name": "ziggurat", **timeouts(timeout)}
    settings = {name: value for name, value in settings.items() if f"{name}=" not in address.secret}
    settings |= {"search_path": address.schema, "enable_seqscan": "off", "jit": "off"}
    connection: Connection = await asyncpg.connect(
        address.secret, timeout=timeout, command_timeout=timeout, server_settings=settings
    )
    try:
        await prepare(connection, address)
    except BaseException:
        connection.terminate()
        raise
    return connection


class PostgresConnection:
    """A store's connection, with its own event loop that runs in the thread that uses it."""

    def __init__(
        self, address: PostgresAddress, timeout: float, prepare: Prepare, reached: threading.Event | None = None
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._prepare = prepare
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection | None = None
        self._reached = threading.Event() if reached is None else reached
        self._used = 0.0

    def run(self, work: Callable[[Connection, bool], Awaitable[T]]) -> T:
        """Run work with the connection and return its result."""
        until, pause, again = time.monotonic() + self._timeout, _FIRST_PAUSE, False
        while True:
            try:
                return self._run(self._once(work, again))
            except ZigguratError:
                raise
            except Exception as error:
                self._give_up()
                if not passes(error):
                    raise self._to_store_error(error) from error
                if getattr(error, "sqlstate", None) is not None:
                    self._reached.set()
                if not self._reached.is_set() or time.monotonic() + pause > until:
                    raise StoreUnavailable(f"{self.address.shown}{self._why(error)}") from error
            again = True
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def fetch(self, statement: str, *values: object) -> Sequence[Any]:
        """Run one idempotent statement and return its rows; see `run`."""
        return self.run(lambda connection, again: connection.fetch(statement, *values))

    async def _once(self, work: Callable[[Connection, bool], Awaitable[T]], again: bool) -> T:
        if self._connection is not None and time.monotonic() - self._used > _IDLE:
            self._give_up()
        self._used = time.monotonic()
        if self._connection is None or self._connection.is_closed():
            self._connection = await opened(self.address, self._timeout, self._prepared)
        return await work(self._connection, again)

    async def _prepared(self, connection: Connection, address: PostgresAddress) -> None:
        self._reached.set()
        await self._prepare(connection, address)

    def _run(self, work: Awaitable[T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(work)

    def _why(self, error: Exception) -> str:
        """Return what kept an operation from being done: a lock of another session, or the server."""
        if getattr(error, "sqlstate", None) == NOT_AVAILABLE:
            try:
                schema = self.address.schema
                return f": {self._run(self._once(lambda connection, _: describe_holder(connection, schema), False))}"
            except Exception as unknown:  # noqa: BLE001 - the lock is what is reported, whatever went wrong since
                logger.debug("who has a lock could not be found out: %s", unknown)
        return f" cannot be reached: {self._describe(error)}"

    def _to_store_error(self, error: Exception) -> ZigguratError:
        if getattr(error, "sqlstate", None) in _DAMAGED:
            return JournalCorrupt(f"{self.address.shown}: {self._describe(error)}")
        return StoreError(f"{self.address.shown}: {self._describe(error)}")

    def _describe(self, error: Exception) -> str:
        return f"{str(error) or 'no answer in time'} ({getattr(error, 'sqlstate', None) or type(error).__name__})"

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def close(self) -> None:
        """Close the connection and the event loop."""
        loop, self._loop = self._loop, None
        if loop is not None:
            self._give_up()
            loop.run_until_complete(asyncio.sleep(0))  # the transport closes a turn later
            loop.close()


def passes(error: Exception) -> bool:
    """Return whether an error of the driver or the network is transient."""
    code = getattr(error, "sqlstate", None)
    if code is not None:
        return str(code).startswith(_PASSING)
    return isinstance(error, (OSError, TimeoutError)) or type(error).__name__ in _CUT_OFF

"""A PostgreSQL server: its address, a connection to it, and the tables of stores.

A connection is used by one thread, opened when needed, and opened again when lost.
"""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct

from ziggurat.core.errors import (
    ConfigurationError,
    JournalCorrupt,
    MissingExtra,
    StoreError,
    StoreUnavailable,
    ZigguratError,
)
from ziggurat.core.log import logger
from ziggurat.databases.address import check_format, without_secrets

Connection = Any  # a connection of the driver asyncpg, which has no types

_OURS = ("schema", "timeout", "lease")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class PostgresAddress(Struct, frozen=True):
    secret: str
    shown: str
    schema: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"PostgresAddress({self.shown!r})"

    @classmethod
    def of(cls, url: str) -> "PostgresAddress":
        if find_spec("asyncpg") is None:
            raise MissingExtra("a PostgreSQL store", "postgres")
        try:
            parts = urlsplit(url)
            if "," not in parts.netloc:  # with several servers, only the driver can parse the ports
                _ = parts.port
        except ValueError:
            raise ConfigurationError(
                f"{without_secrets(url)!r} is not an address of a server: write "
                "postgresql://user:password@host:5432/database, with %40, %2F, %3A, %5B for @, /, :, [ in a password"
            ) from None
        options = parse_qsl(parts.query, keep_blank_values=True)
        ours = {name: value for name, value in options if name in _OURS}
        theirs = urlencode([(name, value) for name, value in options if name not in _OURS])
        user, _, host = parts.netloc.rpartition("@")
        public = f"postgresql://{user.partition(':')[0]}{'@' if user else ''}{host}{parts.path}"
        schema = ours.pop("schema", "ziggurat")
        if _SCHEMA.fullmatch(schema) is None:
            raise ConfigurationError(f"{public!r}: a schema is lowercase letters, digits and _, got {schema!r}")
        secret = parts._replace(scheme="postgresql", query=theirs, fragment="").geturl()
        return cls(secret, public, schema, ours)


_NOT_AVAILABLE = "55P03"  # the SQLSTATE code of a lock that was not granted in time

_HOLDER = """
SELECT pid, application_name, host(client_addr), to_char(xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL AND pid IN (
    SELECT pid FROM pg_locks WHERE granted AND relation IN (
        SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace($1)) AND mode <> 'AccessShareLock')
ORDER BY xact_start LIMIT 1"""


async def _describe_holder(connection: Connection, schema: str) -> str:
    holder = await connection.fetchrow(_HOLDER, schema)
    if holder is None:
        return "a lock was not released in time; try again"
    pid, name, host, since = holder
    return (
        f"its rows are locked by the server's process {pid} ({name or 'no name'} from {host or 'this machine'}), whose "
        f"transaction began at {since}; end that client, or run SELECT pg_terminate_backend({pid})"
    )


T = TypeVar("T")

Prepare = Callable[[Connection, PostgresAddress], Awaitable[None]]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_DAMAGED = ("XX001", "XX002")
_PASSING = ("08", "25006", "25P03", "40", "53300", _NOT_AVAILABLE, "57")
"""Prefixes of SQLSTATE codes of transient errors: lost connections, a read-only server, a session that was stopped in
a transaction, deadlocks, too many clients, a lock that was not granted, a server starting or stopping."""
_CUT_OFF = ("InterfaceError", "InternalClientError")  # of the driver, in the middle of an operation
_IDLE = 120.0  # seconds without use after which a connection is reopened: a firewall may have dropped it


async def opened(address: PostgresAddress, timeout: float, prepare: Prepare) -> Connection:
    import asyncpg

    settings = {
        "application_name": "ziggurat",
        # Others wait for a session for a part of their own timeout at most. A client that is stopped inside a
        # transaction would keep its locks for ever; the server ends its session, and the transaction has never been.
        "idle_in_transaction_session_timeout": f"{max(1000, int(timeout * 250))}",
        "lock_timeout": f"{max(1, int(timeout * 450))}",
    }
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
        until, pause, again = time.monotonic() + self._timeout, _FIRST_PAUSE, False
        while True:
            try:
                return self._run(self._once(work, again))
            except ZigguratError:
                raise
            except Exception as error:
                self._give_up()
                if not passes(error):
                    kind = JournalCorrupt if getattr(error, "sqlstate", None) in _DAMAGED else StoreError
                    raise kind(f"{self.address.shown}: {self._describe(error)}") from error
                if getattr(error, "sqlstate", None) is not None:
                    self._reached.set()
                if not self._reached.is_set() or time.monotonic() + pause > until:
                    raise StoreUnavailable(f"{self.address.shown}{self._why(error)}") from error
            again = True
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def fetch(self, statement: str, *values: object) -> Sequence[Any]:
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
        if getattr(error, "sqlstate", None) == _NOT_AVAILABLE:
            try:
                schema = self.address.schema
                return f": {self._run(self._once(lambda connection, _: _describe_holder(connection, schema), False))}"
            except Exception as unknown:  # noqa: BLE001 - the lock is what is reported, whatever went wrong since
                logger.debug("who has a lock could not be found out: %s", unknown)
        return f" cannot be reached: {self._describe(error)}"

    def _describe(self, error: Exception) -> str:
        return f"{str(error) or 'no answer in time'} ({getattr(error, 'sqlstate', None) or type(error).__name__})"

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            self._give_up()
            loop.run_until_complete(asyncio.sleep(0))  # the transport closes a turn later
            loop.close()


def passes(error: Exception) -> bool:
    code = getattr(error, "sqlstate", None)
    if code is not None:
        return str(code).startswith(_PASSING)
    return isinstance(error, (OSError, TimeoutError)) or type(error).__name__ in _CUT_OFF


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (),  # formats 1 and 2 are refused
    (),
    (
        """CREATE TABLE logs (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, log text NOT NULL UNIQUE, agent text NOT NULL,
            request text NOT NULL, created float8 NOT NULL, status text NOT NULL, updated float8 NOT NULL,
            count bigint NOT NULL, owner text NOT NULL, until float8 NOT NULL, epoch bigint NOT NULL,
            problem text NOT NULL, watched float8 NOT NULL, labels text NOT NULL DEFAULT '{}', due float8,
            priority integer NOT NULL DEFAULT 0, posted bigint NOT NULL DEFAULT 0,
            asks boolean NOT NULL DEFAULT false, taken bigint NOT NULL DEFAULT 0) WITH (fillfactor = 60)""",
        "CREATE INDEX logs_waiting ON logs (agent, priority DESC, due, created) WHERE owner = '' AND due IS NOT NULL",
        "CREATE INDEX logs_leased ON logs (owner, agent) WHERE owner <> ''",
        "CREATE INDEX logs_asking ON logs (created, log) WHERE asks",
        """CREATE TABLE rows (
            id bigint NOT NULL, number bigint NOT NULL, digest text NOT NULL, data bytea NOT NULL,
            status text NOT NULL, PRIMARY KEY (id, number))""",
        "CREATE TABLE blobs (id bigint NOT NULL, digest text NOT NULL, data bytea NOT NULL, PRIMARY KEY (id, digest))",
        "CREATE TABLE names (log text PRIMARY KEY, id bigint NOT NULL)",
        "CREATE INDEX names_id ON names (id)",
        """CREATE TABLE inbox (
            id bigint NOT NULL, number bigint NOT NULL, key text NOT NULL, data bytea NOT NULL,
            PRIMARY KEY (id, number), UNIQUE (id, key))""",
    ),
)
"""The statements that upgrade each format version to the next; the table `format` holds a schema's version."""

_ADVISORY = 0x5A494747
"""The first half of the key of the advisory lock for schema changes; the second is the hash of the schema's name."""


async def prepare(
    connection: Connection, address: PostgresAddress, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    encoding, flushes, table = await connection.fetchrow(
        "SELECT current_setting('server_encoding'), current_setting('fsync'), to_regclass($1)::text",
        f"{address.schema}.format",
    )
    if encoding != "UTF8":
        raise StoreError(f"{address.shown}: the database is encoded in {encoding}; make one with ENCODING 'UTF8'")
    if flushes != "on":
        logger.warning("%s has fsync=%s: a crash of the machine may damage records", address.shown, flushes)
    await connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"
    )
    if table is None or await _version(connection, address, len(migrations)) < len(migrations):
        async with connection.transaction():
            await _migrate(connection, address, migrations)


async def _version(connection: Connection, address: PostgresAddress, newest: int) -> int:
    version: int = await connection.fetchval("SELECT version FROM format")
    check_format(f"{address.shown}: the schema {address.schema}", version, newest)
    return version


async def _migrate(connection: Connection, address: PostgresAddress, migrations: Sequence[Sequence[str]]) -> None:
    """Bring the schema to the newest format; concurrent processes wait, and find it done."""
    schema = address.schema
    await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", _ADVISORY, schema)
    if await connection.fetchval("SELECT to_regnamespace($1)::text", schema) is None:
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    version = 0
    if await connection.fetchval("SELECT to_regclass($1)::text", f"{schema}.format") is not None:
        version = await _version(connection, address, len(migrations))
    elif await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = $1", schema):
        raise StoreError(f"{address.shown}: the schema {schema} is another program's; choose one with ?schema=name")
    else:
        await connection.execute("CREATE TABLE format (version integer NOT NULL)")
        await connection.execute("INSERT INTO format VALUES (0)")
    for statements in migrations[version:]:
        for statement in statements:
            await connection.execute(statement)
    await connection.execute("UPDATE format SET version = $1", len(migrations))

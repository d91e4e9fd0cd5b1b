"""The tables of a PostgreSQL store and their migrations."""

import logging
from collections.abc import Sequence

from ziggurat.core.errors import StoreError
from ziggurat.databases.postgres.address import PostgresAddress
from ziggurat.databases.postgres.connection import Connection

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE logs (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, log text NOT NULL UNIQUE, agent text NOT NULL,
            request text NOT NULL, created float8 NOT NULL, status text NOT NULL, updated float8 NOT NULL,
            count bigint NOT NULL, owner text NOT NULL, until float8 NOT NULL, epoch bigint NOT NULL,
            problem text NOT NULL, watched float8 NOT NULL, labels text NOT NULL DEFAULT '{}', due float8,
            priority integer NOT NULL DEFAULT 0, posted bigint NOT NULL DEFAULT 0) WITH (fillfactor = 60)""",
        "CREATE INDEX logs_waiting ON logs (agent, priority DESC, due, created) WHERE owner = '' AND due IS NOT NULL",
        "CREATE INDEX logs_leased ON logs (owner, agent) WHERE owner <> ''",
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

logger: logging.Logger = logging.getLogger("ziggurat")


async def prepare(
    connection: Connection, address: PostgresAddress, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Prepare a new connection: make commits durable, and bring the tables to the newest format."""
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
    if version > newest:
        raise StoreError(
            f"{address.shown}: the schema {address.schema} was written by a newer version (format {version}); "
            "upgrade ziggurat to open it"
        )
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

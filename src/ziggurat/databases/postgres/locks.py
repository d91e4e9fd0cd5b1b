"""Locks of other sessions: for how long ours may keep others waiting, and who keeps us waiting."""

from typing import Any, Protocol

NOT_AVAILABLE = "55P03"
"""The SQLSTATE code of a lock that was not granted in time."""

_HOLDER = """
SELECT pid, application_name, host(client_addr), to_char(xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL AND pid IN (
    SELECT pid FROM pg_locks WHERE granted AND relation IN (
        SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace($1)) AND mode <> 'AccessShareLock')
ORDER BY xact_start LIMIT 1"""


class _Fetches(Protocol):
    async def fetchrow(self, statement: str, *values: object) -> Any: ...


def timeouts(seconds: float) -> dict[str, str]:
    """Return the server's settings for a session that others wait for at most a part of their own timeout."""
    # A client that is stopped inside a transaction would otherwise keep its locks for ever; the server ends its
    # session, and the transaction has never been.
    return {
        "idle_in_transaction_session_timeout": f"{max(1000, int(seconds * 250))}",
        "lock_timeout": f"{max(1, int(seconds * 450))}",
    }


async def describe_holder(connection: _Fetches, schema: str) -> str:
    """Return who has locked something in a schema for longest, since when, and what can be done."""
    holder = await connection.fetchrow(_HOLDER, schema)
    if holder is None:
        return "a lock was not released in time; try again"
    pid, name, host, since = holder
    return (
        f"its rows are locked by the server's process {pid} ({name or 'no name'} from {host or 'this machine'}), whose "
        f"transaction began at {since}; end that client, or run SELECT pg_terminate_backend({pid})"
    )

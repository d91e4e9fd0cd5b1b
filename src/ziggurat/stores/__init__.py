"""Stores for runs and sessions; `connect` (in `addresses`) opens one by its URL.

- Logs of rows: `local` (in this process), `file`, `sqlite`, `postgres`.
- `pending` lists which calls of their runs wait for a decision.
- `session` has conversations over many runs, in any of these.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.core.store import LogInfo, LogMark, Row, Store, SupportsChangeSignal, SupportsLogMarks
    from ziggurat.stores.addresses import connect
    from ziggurat.stores.file.store import FileStore
    from ziggurat.stores.local import LocalLogs
    from ziggurat.stores.postgres.store import PostgresStore
    from ziggurat.stores.session import Conflict, Session
    from ziggurat.stores.sqlite.store import SqliteStore
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "core.store": ("LogInfo", "LogMark", "Row", "Store", "SupportsChangeSignal", "SupportsLogMarks"),
            "stores.addresses": ("connect",),
            "stores.file.store": ("FileStore",),
            "stores.local": ("LocalLogs",),
            "stores.postgres.store": ("PostgresStore",),
            "stores.session": ("Conflict", "Session"),
            "stores.sqlite.store": ("SqliteStore",),
        },
    )

__all__ = [
    "Conflict",
    "FileStore",
    "LocalLogs",
    "LogInfo",
    "LogMark",
    "PostgresStore",
    "Row",
    "Session",
    "SqliteStore",
    "Store",
    "SupportsChangeSignal",
    "SupportsLogMarks",
    "connect",
]

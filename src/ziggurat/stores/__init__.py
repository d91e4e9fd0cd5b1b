"""Stores for runs and sessions; `connect` (in `addresses`) opens one by its URL.

- Logs of rows: `local` (in this process), `file`, `sqlite`, `postgres`.
- `lost_leases` says when to look for runs whose process is gone.
- `pending` lists which calls of their runs wait for a decision.
- `session` has conversations over many runs, in any of these.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "core.live": ("LiveBuffer", "LiveMessages", "LiveReader", "Send", "SupportsLiveMessages"),
        "core.queue": ("Claim", "InboxItem", "Queue"),
        "core.store": (
            "LogInfo",
            "LogMark",
            "Row",
            "Store",
            "SupportsChangeSignal",
            "SupportsImmediateWrites",
            "SupportsLogMarks",
        ),
        "stores.addresses": ("connect",),
        "stores.file.store": ("FileStore",),
        "stores.local": ("LocalLogs",),
        "stores.postgres.store": ("PostgresStore",),
        "stores.session": ("Conflict", "Session"),
        "stores.sqlite.store": ("SqliteStore",),
    },
)

"""Stores for runs and sessions; `connect` (in `addresses`) opens one by its URL."""

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

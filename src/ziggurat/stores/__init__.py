"""Stores for runs and sessions; `connect` (in `addresses`) opens one by its URL."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.core.live import (
        LiveBuffer as LiveBuffer,
        LiveMessages as LiveMessages,
        LiveReader as LiveReader,
        Send as Send,
        SupportsLiveMessages as SupportsLiveMessages,
    )
    from ziggurat.core.queue import Claim as Claim, InboxItem as InboxItem, Queue as Queue
    from ziggurat.core.store import (
        LogInfo as LogInfo,
        LogMark as LogMark,
        Row as Row,
        Store as Store,
        SupportsChangeSignal as SupportsChangeSignal,
        SupportsImmediateWrites as SupportsImmediateWrites,
        SupportsLogMarks as SupportsLogMarks,
    )
    from ziggurat.stores.addresses import connect as connect
    from ziggurat.stores.file.store import FileStore as FileStore
    from ziggurat.stores.local import LocalLogs as LocalLogs
    from ziggurat.stores.postgres.store import PostgresStore as PostgresStore
    from ziggurat.stores.session import Conflict as Conflict, Session as Session
    from ziggurat.stores.sqlite.store import SqliteStore as SqliteStore

__getattr__, __dir__, __all__ = lazy(__name__)

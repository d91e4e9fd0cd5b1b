# Written by tests/test_names.py from __init__.py.
from ziggurat.core.live import LiveBuffer as LiveBuffer
from ziggurat.core.live import LiveMessages as LiveMessages
from ziggurat.core.live import LiveReader as LiveReader
from ziggurat.core.live import Send as Send
from ziggurat.core.live import SupportsLiveMessages as SupportsLiveMessages
from ziggurat.core.queue import Claim as Claim
from ziggurat.core.queue import InboxItem as InboxItem
from ziggurat.core.queue import Queue as Queue
from ziggurat.core.store import LogInfo as LogInfo
from ziggurat.core.store import LogMark as LogMark
from ziggurat.core.store import Row as Row
from ziggurat.core.store import Store as Store
from ziggurat.core.store import SupportsChangeSignal as SupportsChangeSignal
from ziggurat.core.store import SupportsImmediateWrites as SupportsImmediateWrites
from ziggurat.core.store import SupportsLogMarks as SupportsLogMarks
from ziggurat.stores.addresses import connect as connect
from ziggurat.stores.file.store import FileStore as FileStore
from ziggurat.stores.local import LocalLogs as LocalLogs
from ziggurat.stores.postgres.store import PostgresStore as PostgresStore
from ziggurat.stores.session import Conflict as Conflict
from ziggurat.stores.session import Session as Session
from ziggurat.stores.sqlite.store import SqliteStore as SqliteStore

__all__: list[str]

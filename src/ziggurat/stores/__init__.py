"""Stores for runs and sessions; `connect` (in `addresses`) opens one by its URL."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.runs.pending import pending as pending
    from ziggurat.stores.addresses import connect as connect
    from ziggurat.stores.file import FileStore as FileStore
    from ziggurat.stores.local import InMemoryStore as InMemoryStore
    from ziggurat.stores.postgres import PostgresStore as PostgresStore
    from ziggurat.stores.session import Session as Session
    from ziggurat.stores.sqlite import SqliteStore as SqliteStore
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)

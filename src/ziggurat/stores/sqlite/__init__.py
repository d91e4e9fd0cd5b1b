"""The store of runs and sessions in a SQLite database."""

__all__ = ["SqliteStore"]

from ziggurat.stores.sqlite.store import SqliteStore

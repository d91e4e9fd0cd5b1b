"""The store of runs and sessions in PostgreSQL."""

__all__ = ["PostgresStore"]

from ziggurat.stores.postgres.store import PostgresStore

"""The store of runs and sessions in a folder of JSON-lines files."""

__all__ = ["FileStore"]

from ziggurat.stores.file.store import FileStore

"""Vector indexes of a database's memories, held in this process and updated before each search."""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ziggurat.core.errors import StoreError
from ziggurat.databases.files import make_private_folder
from ziggurat.databases.sqlite.connection import SqliteConnection
from ziggurat.memory.vectors import EXACT, VectorIndex

logger: logging.Logger = logging.getLogger("ziggurat")

Key = tuple[str | None, int]
"""An owner (None for all owners together) and the size of a vector in bytes."""

_BATCH = 20_000
_GROWN = 10


class VectorIndexes:
    """Vector indexes of a SQLite database, one per owner and vector size."""

    def __init__(self, folder: Path, database: SqliteConnection, *, exact: int = EXACT) -> None:
        self._folder = folder
        self._database = database
        self._exact = exact
        self._last: dict[str | None, int] = {}
        self._indexes: dict[Key, VectorIndex] = {}
        self._saved: dict[Key, int] = {}

    def nearest(self, owner: str | None, vector: bytes, count: int) -> list[int]:
        """Return numbers by their vectors, nearest first; some may belong to memories since removed."""
        if owner not in self._last:
            self._load(owner)
        self._read(owner)
        index = self._indexes.get((owner, len(vector)))
        return [] if index is None else index.nearest(vector, count)

    def _newer(self, owner: str | None) -> Iterator[tuple[int, bytes]]:
        mine, values = ("", ()) if owner is None else ("owner = ? AND", (owner,))
        rows = self._database.execute(
            f"SELECT number, embedding FROM memories WHERE {mine} number > ? AND archived = 0 "  # noqa: S608
            "AND length(embedding) >= 4 ORDER BY number",
            (*values, self._last[owner]),
        )
        return iter(rows)

    def _read(self, owner: str | None) -> None:
        entries, any_of_them = self._newer(owner), False
        while batch := list(islice(entries, _BATCH)):
            any_of_them = True
            by_size: dict[int, list[tuple[int, bytes]]] = {}
            for number, embedding in batch:
                by_size.setdefault(len(embedding), []).append((number, embedding))
            for size, sized in by_size.items():
                index = self._indexes.get((owner, size))
                if index is None:
                    index = self._indexes[owner, size] = VectorIndex(size, exact=self._exact)
                index.add([number for number, _ in sized], [embedding for _, embedding in sized])
            self._last[owner] = batch[-1][0]
        if any_of_them:
            self.save()

    def save(self, *, everything: bool = False) -> None:
        """Save the indexes that have grown by a tenth since the last save; with `everything`, by anything."""
        for key, index in self._indexes.items():
            fresh = len(index) - self._saved.get(key, 0)
            if index.coded and fresh > (0 if everything else max(EXACT, len(index) // _GROWN)):
                self._saved[key] = len(index)
                try:
                    self._write(key, index)
                except (OSError, StoreError) as error:  # not fatal: an index can be rebuilt from the database
                    logger.warning("an index in %s was not kept: %s", self._folder, error)

    def _write(self, key: Key, index: VectorIndex) -> None:
        owner, size = key
        with suppress(FileExistsError):
            make_private_folder(self._folder)
        name = os.urandom(8).hex()
        index.save(self._folder / name)
        (self._folder / name).chmod(0o600)
        entry = (_name(owner), size, self._last[owner], name)
        statement = "INSERT OR REPLACE INTO memory_indexes (owner, size, last, file) VALUES (?, ?, ?, ?)"
        self._database.transaction(lambda: self._database.execute(statement, entry))
        known = {each for (each,) in self._database.execute("SELECT file FROM memory_indexes")}
        for path in self._folder.iterdir():
            if path.name not in known:
                path.unlink(missing_ok=True)

    def _load(self, owner: str | None) -> None:
        """Load the saved index of an owner; one that cannot be read is rebuilt."""
        self._last[owner] = 0
        statement = "SELECT size, last, file FROM memory_indexes WHERE owner = ?"
        rows = self._database.execute(statement, (_name(owner),)).fetchall()
        if len(rows) != 1:  # with several sizes, the last number of one does not tell how far the others had read
            return
        ((size, last, name),) = rows
        path = self._folder / name
        try:
            index = VectorIndex.load(path, size, last)
        except (OSError, ValueError) as error:
            logger.warning("the index %s cannot be read and is made again: %s", path, error)
            return
        self._indexes[owner, size] = index
        self._saved[owner, size] = len(index)
        self._last[owner] = last


def _name(owner: str | None) -> str:
    return "" if owner is None else f"o{owner.encode().hex()}"

"""Cutting the end off a log in a store that is closed, as damage to its files would."""

__all__ = ["cut"]

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.stores.server import asked
from ziggurat.stores.file.log import file_name


def cut(url: str, log: str, count: int) -> None:
    """Remove all rows of a log but the first few; a database that keeps none also loses its header."""
    kind, _, place = url.partition("://")
    if kind == "file":
        path = Path(place) / "logs" / file_name(log) / "log.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:count]) + (lines[count][:40] if count else b""))
        return
    statement = f"DELETE FROM rows WHERE number > {count} AND id = (SELECT id FROM logs WHERE log = '{log}')"
    if kind == "postgresql":
        asked(url, statement)
        return
    with closing(sqlite3.connect(place[1:], isolation_level=None)) as connection:
        connection.execute(statement)
        if not count:
            connection.execute("DELETE FROM logs WHERE log = ?", (log,))

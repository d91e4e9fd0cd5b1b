"""Cutting the end off a log in a store that is closed, as damage to its files would."""

__all__ = ["cut", "line_of"]

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.stores.server import asked
from ziggurat.stores.file_log import file_name


def line_of(lines: list[bytes], number: int) -> int:
    """Return the place of a row among the lines of a log in a file."""
    return next(at for at, line in enumerate(lines) if line.startswith(b'{"number":%d,' % number))


def cut(url: str, log: str, count: int) -> None:
    """Remove all rows of a log but the first few; a database that keeps none also loses its header."""
    kind, _, place = url.partition("://")
    if kind == "file":
        path = Path(place) / "logs" / file_name(log) / "log.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        at = line_of(lines, count + 1)
        path.write_bytes(b"".join(lines[:at]) + lines[at][:40])
        return
    statement = f"DELETE FROM rows WHERE number > {count} AND id = (SELECT id FROM logs WHERE log = '{log}')"
    if kind == "postgresql":
        asked(url, statement)
        return
    with closing(sqlite3.connect(place[1:], isolation_level=None)) as connection:
        connection.execute(statement)
        if not count:
            connection.execute("DELETE FROM logs WHERE log = ?", (log,))

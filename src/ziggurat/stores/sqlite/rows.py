"""Read the rows and headers of logs from the tables of a database, damaged ones too."""

from collections.abc import Sequence
from typing import Any

from msgspec import ValidationError, convert

from ziggurat.core.errors import JournalCorrupt
from ziggurat.databases.owner import without_lost_lease
from ziggurat.databases.sqlite import SqliteConnection
from ziggurat.journal.store import LogInfo, Row, labels_in

HEADERS = (
    "SELECT log, agent, request, created, status, updated, "
    "(SELECT coalesce(max(number), 0) FROM rows WHERE rows.id = logs.id), "
    "CASE WHEN until > ? THEN owner ELSE '' END, problem, due, priority, asks, labels "
    "FROM logs "
)
"""Selects the columns that `info_of` reads at a time; a condition follows."""


def info_of(row: Sequence[Any]) -> LogInfo:
    """Return the description of a log; one that is damaged is described as such, so that it hides no other."""
    try:
        fields = dict(zip(LogInfo.__struct_fields__, row, strict=True))
        return without_lost_lease(
            convert({**fields, "asks": bool(fields["asks"]), "labels": labels_in(fields["labels"])}, LogInfo)
        )
    except (ValidationError, JournalCorrupt, TypeError) as error:
        return LogInfo(str(row[0]), status="Quarantined", problem=f"its description is damaged: {error}")


def read_rows(database: SqliteConnection, log: str, after: int, limit: int | None) -> list[Row]:
    """Return the rows of a log after a number, at most `limit` of them."""
    cells = database.execute(
        "SELECT number, digest, data, rows.status FROM rows JOIN logs ON logs.id = rows.id "
        "WHERE log = ? AND number > ? ORDER BY number LIMIT ?",
        (log, after, -1 if limit is None else limit),
    )
    rows: list[Row] = []
    for number, digest, data, status in cells:
        if not isinstance(data, bytes):  # SQLite accepts any type in a column, if the file was edited by hand
            digest, data = "", str(data).encode("utf-8", "replace")
        rows.append(Row(number, digest, data, status))
    return rows

"""The SQL of the SQLite store, and the descriptions of logs that it reads."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert

from ziggurat.core.errors import JournalCorrupt, LeaseHeld, LeaseLost, MailboxFull, RunExists, RunNotFound
from ziggurat.databases.owner import without_lost_lease
from ziggurat.journal.store import AGING, LogInfo, labels_in

HEADERS = (
    "SELECT log, agent, request, created, status, updated, "
    "(SELECT coalesce(max(number), 0) FROM rows WHERE rows.id = logs.id), "
    "CASE WHEN until > ? THEN owner ELSE '' END, problem, due, priority, asks, labels "
    "FROM logs "
)
"""Selects the columns that `info_of` reads at a time; a condition follows."""

OF_ONE = (JournalCorrupt, LeaseHeld, LeaseLost, MailboxFull, RunExists, RunNotFound)
"""Errors of a single job that has written nothing."""

_COLUMNS = " ".join(
    ("SELECT due -", str(AGING), "* priority, due, created, id, log, epoch, owner, until FROM logs INDEXED BY")
)
LEVEL = (
    "SELECT priority FROM logs INDEXED BY logs_waiting WHERE owner = '' AND due IS NOT NULL AND agent = ? "
    "AND priority < ? ORDER BY priority DESC LIMIT 1"
)
WAITING = (
    f"{_COLUMNS} logs_waiting WHERE owner = '' AND agent = ? AND priority = ? AND due <= ? "
    "ORDER BY due, created LIMIT ?"
)
LEASED = f"{_COLUMNS} logs_leased WHERE owner <> '' AND agent = ? AND due <= ?"
ARRIVED = "SELECT log, posted FROM logs INDEXED BY logs_leased WHERE owner <> '' AND owner = ? AND posted > 0"
DUE_NOW = (
    "UPDATE logs SET posted = posted + 1, "
    "due = CASE WHEN status = 'Suspended' THEN min(coalesce(due, 9e999), ?) ELSE due END WHERE id = ?"
)


class Due(Struct, frozen=True, order=True):
    """A log that is due; those that are to be claimed first are the smallest."""

    rank: float
    due: float
    created: float
    id: int
    log: str
    epoch: int
    owner: str
    until: float


OURS = (
    "SELECT 1 FROM logs WHERE id = ? AND log = ? AND epoch = ? AND owner = ? "
    "AND ? = (SELECT coalesce(max(number), 0) FROM rows WHERE rows.id = logs.id)"
)

STATE = (
    "UPDATE logs SET status = ?, asks = ?, taken = ?, updated = ?, until = ?, "
    "owner = CASE WHEN ? THEN '' ELSE owner END, "
    "due = CASE WHEN status = ? AND NOT ? THEN due WHEN posted > ? THEN ? ELSE ? END WHERE id = ?"
)


def info_of(row: Sequence[Any]) -> LogInfo:
    """Return the description of a log; one that is damaged is described as such, so that it hides no other."""
    try:
        fields = dict(zip(LogInfo.__struct_fields__, row, strict=True))
        return without_lost_lease(
            convert({**fields, "asks": bool(fields["asks"]), "labels": labels_in(fields["labels"])}, LogInfo)
        )
    except (ValidationError, JournalCorrupt, TypeError) as error:
        return LogInfo(str(row[0]), status="Quarantined", problem=f"its description is damaged: {error}")

"""Appending rows of many runs to PostgreSQL in one statement: one transaction, one round trip."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ziggurat.core.errors import StoreError
from ziggurat.core.store import Row
from ziggurat.databases.postgres.connection import Connection
from ziggurat.stores.postgres.statements import APPEND, APPEND_WITH_BLOBS, WRITTEN


class Append(Struct, frozen=True):
    """Rows for one log; see `Store.append`."""

    id: int
    epoch: int
    rows: Sequence[Row]
    blobs: Mapping[str, bytes]
    release: bool
    due: float | None
    read: int | None

    def __call__(self) -> None:
        """Raise an error: appends are written together, by `write`."""
        raise StoreError("an append is written with others")


async def write(
    connection: Connection, appends: Sequence[Append], now: float | None, lease: float, channel: str, again: bool
) -> set[int]:
    """Write rows of several logs where the leases allow it; return the numbers of the logs that were written."""
    rows = [(append.id, row) for append in appends for row in append.rows]
    blobs = [(append.id, digest, data) for append in appends for digest, data in append.blobs.items()]
    values: list[object] = [
        [append.id for append in appends],
        [append.epoch for append in appends],
        [append.rows[0].number - 1 for append in appends],
        [len(append.rows) for append in appends],
        [append.rows[-1].status for append in appends],
        [append.release for append in appends],
        [append.due for append in appends],
        [append.read for append in appends],
        [at for at, _ in rows],
        [row.number for _, row in rows],
        [row.digest for _, row in rows],
        [row.data for _, row in rows],
        [row.status for _, row in rows],
    ]
    if blobs:
        values += ([at for at, _, _ in blobs], [digest for _, digest, _ in blobs], [data for _, _, data in blobs])
    statement = APPEND_WITH_BLOBS if blobs else APPEND
    done = {row[0] for row in await connection.fetch(statement, now, lease, channel, *values)}
    for append in appends if again else ():
        last = append.rows[-1]
        if append.id not in done and await connection.fetchval(
            WRITTEN, append.id, append.epoch, last.number, last.digest
        ):
            done.add(append.id)
    return done

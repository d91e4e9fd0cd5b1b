"""The SQL of the PostgreSQL store; ``$1`` is the time if a clock was given, ``$2`` a lease in seconds."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ziggurat.core.codec import decode
from ziggurat.core.errors import StoreError
from ziggurat.databases.owner import without_lost_lease
from ziggurat.databases.postgres import Connection
from ziggurat.journal.store import AGING, LogInfo, Row, label_lines


def _with_time(*parts: str) -> str:
    """Return a statement that can use the table `moment`, whose column `now` is the time."""
    moment = "WITH moment AS (SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now)"
    return "".join((moment, *parts))


_APPEND = """,
given AS (
    SELECT * FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::boolean[],
        $10::float8[], $11::bigint[], $12::boolean[], $13::bigint[])
    AS given (id, epoch, before, more, status, release, due, read, asks, taken)),
done AS (
    UPDATE logs SET count = logs.count + given.more, status = given.status, asks = given.asks, taken = given.taken,
        updated = now, until = now + $2, owner = CASE WHEN given.release THEN '' ELSE logs.owner END,
        due = CASE WHEN given.status = logs.status AND NOT given.release THEN logs.due
            WHEN given.due = 0 OR given.read < logs.posted THEN now ELSE given.due END
    FROM given, moment
    WHERE logs.id = given.id AND logs.epoch = given.epoch AND logs.count = given.before AND logs.owner <> ''
    RETURNING logs.id, logs.count, logs.watched),
written AS (
    INSERT INTO rows (id, number, digest, data, status)
    SELECT id, row.number, row.digest, row.data, row.status
    FROM unnest($14::bigint[], $15::bigint[], $16::text[], $17::bytea[], $18::text[])
    AS row (id, number, digest, data, status) JOIN done USING (id))"""

_KEEP = """, kept AS (
    INSERT INTO blobs (id, digest, data) SELECT id, blob.digest, blob.data
    FROM unnest($19::bigint[], $20::text[], $21::bytea[]) AS blob (id, digest, data) JOIN done USING (id)
    ON CONFLICT DO NOTHING)"""

_TOLD = """
SELECT id, CASE WHEN watched > now THEN pg_notify($3, id || ':' || count) END FROM done, moment"""

APPEND = _with_time(_APPEND, _TOLD)

APPEND_WITH_BLOBS = _with_time(_APPEND, _KEEP, _TOLD)

LOST = """SELECT coalesce((SELECT max(number) FROM rows WHERE rows.id = names.id), 1) FROM names
WHERE log = $1 AND NOT EXISTS (SELECT 1 FROM logs WHERE logs.log = names.log)"""
"""The number of rows of a log whose header is lost; the table `names` has the log from its creation to its removal."""

ACKNOWLEDGED = " ".join(("SELECT count FROM logs WHERE log = $1 AND count > 0 UNION ALL", LOST))
"""The number of rows of a log as its header has it, which is written with them; without the header, of those left."""

ACCEPT_LOSS = "UPDATE logs SET count = $4 WHERE log = $1 AND epoch = $2 AND owner = $3 AND count > $4 RETURNING id"

WRITTEN = "SELECT 1 FROM logs JOIN rows USING (id) WHERE id = $1 AND epoch = $2 AND number = $3 AND digest = $4"
"""Whether a row exists that was sent before the connection was lost."""

CREATE = _with_time(""",
made AS (
    INSERT INTO logs (log, agent, request, created, status, updated, count, owner, until, epoch, problem, watched,
        labels, due, priority)
    SELECT $3, $4, $5, coalesce($6, now), $7, now, $8, $9, now + $2, 1, '', 0, $10,
        CASE WHEN $11::float8 = 0 THEN now ELSE $11 END, $12 FROM moment
    WHERE NOT EXISTS (SELECT 1 FROM names WHERE log = $3)
    ON CONFLICT (log) DO NOTHING RETURNING id),
named AS (INSERT INTO names (log, id) SELECT $3, id FROM made),
written AS (
    INSERT INTO rows (id, number, digest, data, status) SELECT made.id, row.* FROM made,
    unnest($13::bigint[], $14::text[], $15::bytea[], $16::text[]) AS row),
kept AS (
    INSERT INTO blobs (id, digest, data) SELECT made.id, blob.* FROM made,
    unnest($17::text[], $18::bytea[]) AS blob)
SELECT id FROM made""")

BEGUN = "SELECT id FROM logs WHERE log = $1 AND owner = $2 AND epoch = 1"

HOLDER = _with_time("""
SELECT id, owner, epoch, until - now FROM logs, moment WHERE log = $2""")

TAKE = _with_time("""
UPDATE logs SET owner = $3, until = now + $2, epoch = epoch + 1 FROM moment WHERE id = $4 AND epoch = $5 AND owner = $6
RETURNING epoch""")

RENEW = _with_time(""", held AS (SELECT * FROM unnest($3::bigint[], $4::bigint[]) AS held (id, epoch))
UPDATE logs SET until = now + $2 FROM held, moment WHERE logs.id = held.id AND logs.epoch = held.epoch""")

FREE = """UPDATE logs SET owner = '' WHERE log = $1 AND epoch = $2 AND owner = $3
RETURNING CASE WHEN due IS NOT NULL THEN pg_notify($4, '') END"""

FREE_ALL = """UPDATE logs SET owner = '' FROM unnest($1::bigint[], $2::bigint[]) AS held (id, epoch)
WHERE logs.id = held.id AND logs.epoch = held.epoch"""

_HEADER = """
SELECT log, agent, request, created, status, updated, count, CASE WHEN until > now THEN owner ELSE '' END, problem, due,
    priority, asks, labels
FROM logs, moment WHERE """

INFO = _with_time(_HEADER, "log = $2")

READ = """SELECT number, digest, data, rows.status FROM rows JOIN logs USING (id)
WHERE log = $1 AND number > $2 ORDER BY number LIMIT $3"""

BLOB = "SELECT data FROM blobs JOIN logs USING (id) WHERE log = $1 AND digest = $2"

_FILTERS = """($2::text IS NULL OR agent = $2) AND ($3::text IS NULL OR status = $3)
    AND ($4::float8 IS NULL OR updated < $4)
    AND NOT EXISTS (SELECT 1 FROM unnest($5::text[]) AS line WHERE strpos(labels, line) = 0)"""

LIST = _with_time(_HEADER, _FILTERS, " AND starts_with(log, $7) ORDER BY updated DESC, id DESC LIMIT $6")

ASKING = _with_time(
    _HEADER,
    _FILTERS,
    " AND asks AND status IN ('running', 'Suspended') AND (created, log) > ($7, $8) ORDER BY created, log LIMIT $6",
)

QUARANTINE = """UPDATE logs SET status = 'Quarantined', problem = $1, owner = '', epoch = epoch + 1, due = NULL
WHERE log = $2 AND status <> 'Quarantined'"""

OWNERS = "SELECT DISTINCT owner FROM logs WHERE updated < $1 AND starts_with(log, $2) AND owner <> ''"

OLD = _with_time("""
SELECT id FROM logs, moment WHERE updated < $2 AND starts_with(log, $3) AND NOT status = ANY ($4::text[])
    AND (owner = '' OR until < now OR owner = ANY ($5::text[])) LIMIT 200 FOR UPDATE OF logs""")
"""A batch of logs that may be removed, small enough that writers do not wait long."""

NAMED = "SELECT id FROM names WHERE log = $1 UNION SELECT id FROM logs WHERE log = $1"

DELETE = (
    "DELETE FROM names WHERE id = ANY ($1::bigint[])",
    "DELETE FROM rows WHERE id = ANY ($1::bigint[])",
    "DELETE FROM blobs WHERE id = ANY ($1::bigint[])",
    "DELETE FROM inbox WHERE id = ANY ($1::bigint[])",
    "DELETE FROM logs WHERE id = ANY ($1::bigint[])",
)

WATCH = _with_time("""
UPDATE logs SET watched = now + $2 FROM moment WHERE log = $3 RETURNING id, count""")

POSTED = "SELECT id, posted, taken FROM logs WHERE log = $1 FOR UPDATE"

ADD = "INSERT INTO inbox (id, number, key, data) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING number"

WAKE = _with_time("""
UPDATE logs SET posted = $2, due = CASE WHEN status = 'Suspended' THEN least(due, now) ELSE due END
FROM moment WHERE id = $3 RETURNING pg_notify($4, '')""")

INBOX = """SELECT number, key, inbox.data FROM inbox JOIN logs USING (id)
WHERE log = $1 AND number > $2 ORDER BY number"""

ARRIVED = "SELECT log, posted FROM logs WHERE owner <> '' AND owner = $1 AND posted > 0"

HOLDERS = "SELECT DISTINCT owner FROM logs WHERE owner <> '' AND agent = $1"

_RANK = f"due - {AGING} * priority"

_LEVELS = """
WITH RECURSIVE moment AS (SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now),
levels AS (
    (SELECT priority FROM logs WHERE owner = '' AND due IS NOT NULL AND agent = $4 ORDER BY priority DESC LIMIT 1)
    UNION ALL
    SELECT below.priority FROM levels, LATERAL (
        SELECT priority FROM logs
        WHERE owner = '' AND due IS NOT NULL AND agent = $4 AND logs.priority < levels.priority
        ORDER BY priority DESC LIMIT 1) AS below),
first AS (
    SELECT each.* FROM moment, levels, LATERAL (
        SELECT id, {rank} AS rank FROM logs
        WHERE owner = '' AND agent = $4 AND logs.priority = levels.priority AND due <= now
        ORDER BY due, created LIMIT 4 * $5 + 16) AS each),
waiting AS (
    SELECT id, {rank} AS rank, due, created, owner FROM logs
    WHERE id = ANY (ARRAY(SELECT id FROM first ORDER BY rank LIMIT 4 * $5 + 16))
        AND owner = '' AND due <= (SELECT now FROM moment)
    ORDER BY rank, due, created LIMIT $5 FOR UPDATE SKIP LOCKED)"""
"""The logs that wait: the priorities there are, by one look at the index for each, for each the logs that have been due
for longest, and of all of them the first. Only these are locked; there are more, for others claim at the same time.
"""

_LOST = """,
lost AS (
    SELECT id, {rank} AS rank, due, created, owner FROM logs, moment
    WHERE owner <> '' AND agent = $4 AND due <= now
        AND (owner = ANY ($6::text[]) OR (until <= now AND NOT id = ANY ($7::bigint[])))
    FOR UPDATE OF logs SKIP LOCKED),
any_due AS (
    SELECT * FROM (SELECT * FROM waiting UNION ALL SELECT * FROM lost) AS due
    ORDER BY rank, due, created LIMIT $5)"""

_LEASE = """
UPDATE logs SET owner = $3, until = now + $2, epoch = epoch + 1 FROM {chosen} AS chosen, moment
WHERE logs.id = chosen.id
RETURNING chosen.rank, chosen.due, chosen.created, logs.id, log, epoch, chosen.owner <> '', moment.now"""

CLAIM = "".join((_LEVELS, _LEASE)).format(rank=_RANK, chosen="waiting")
"""Leases the logs of an agent that wait and are due, in the order of `Queue.claim`."""

CLAIM_ANY = "".join((_LEVELS, _LOST, _LEASE)).format(rank=_RANK, chosen="any_due")

WATCH_LIVE = "SELECT pg_advisory_lock_shared($1)"  # marks that a session listens to the live messages of a log

UNWATCH_LIVE = "SELECT pg_advisory_unlock_shared($1)"

WATCHED = """SELECT DISTINCT (classid::bigint << 32) | objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ShareLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32) | objid::bigint = ANY ($1::bigint[])"""

NOTIFY = "SELECT pg_notify($1, part) FROM unnest($2::text[]) AS part"


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
    """Write rows where the leases allow it; return the numbers of the logs that were written."""
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
        [append.rows[-1].asks for append in appends],
        [append.rows[-1].taken for append in appends],
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


def lines_of(labels: Mapping[str, object] | None) -> list[str]:
    return [f"\n{line}\n" for line in label_lines(labels or {})]


def info_of(row: Sequence[Any]) -> LogInfo:
    return without_lost_lease(LogInfo(*[*row[:-1], decode(row[-1], dict)]))

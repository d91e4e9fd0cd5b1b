"""The queue of each store: a claim looks at what is due, not at all that waits."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.stores.server import asked, schema
from ziggurat.journal import LogInfo
from ziggurat.stores import PostgresStore, SqliteStore
from ziggurat.stores.postgres import statements as sql
from ziggurat.testing import HandClock
from ziggurat.testing.stores import rows


async def test_a_claim_does_not_look_at_what_is_not_due(tmp_path: Path) -> None:
    steps = 0

    def connect(*arguments: Any, **more: Any) -> sqlite3.Connection:
        def step() -> None:
            nonlocal steps
            steps += 1

        connection: sqlite3.Connection = sqlite3.connect(*arguments, **more)
        connection.set_progress_handler(step, 1)
        return connection

    store = SqliteStore(tmp_path / "runs.db", synchronous="NORMAL", connect=connect)
    await store.create(LogInfo("run:busy", "desk", due=0.0), rows(1))
    await store.release("run:busy", 1)
    counts = []
    for many in (10, 3_000):
        await store.close()
        with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
            connection.executemany(
                "INSERT INTO logs (log, agent, request, created, status, updated, owner, until, epoch, problem, due, "
                "priority) VALUES (?, 'desk', '', 1, ?, 1, '', 0, 1, '', ?, ?)",
                [
                    (f"run:{many}-{at}", ("running", "Completed")[at % 2], (1e12, None)[at % 2], at % 3)
                    for at in range(many)
                ],
            )
            connection.commit()
        store = SqliteStore(tmp_path / "runs.db", synchronous="NORMAL", connect=connect)
        assert await store.inbox("run:none") == []  # opens the database
        steps = 0
        (claim,) = await store.claim("desk", 5)
        counts.append(steps)
        await store.release(claim.log, claim.epoch)
    await store.close()
    few, many = counts
    assert many < 1.2 * few


def test_the_server_finds_what_is_due_by_index() -> None:
    url = schema()
    asked(
        url,
        "INSERT INTO logs (log, agent, request, created, status, updated, count, owner, until, epoch, problem, "
        "watched, due, priority) SELECT 'run:' || at, 'desk', '', 1, 'running', 1, 0, CASE WHEN at % 50 = 0 THEN 'x' "
        "ELSE '' END, 0, 1, '', 0, at * 1000.0, at % 3 FROM generate_series(1, 3000) AS at",
        "ANALYZE logs",
    )
    values = ("NULL", "30", "'me'", "'desk'", "2", "'{}'", "'{}'")
    for statement, leased in ((sql.CLAIM, False), (sql.CLAIM_ANY, True)):
        for number, value in reversed([*enumerate(values, 1)]):
            statement = statement.replace(f"${number}", value)
        plan = "\n".join(_column(url, f"EXPLAIN {statement}"))
        assert "logs_waiting" in plan
        assert ("logs_leased" in plan) == leased
        assert "Seq Scan on logs" not in plan
        assert "Sort Key: logs_" not in plan, "the index gives the order"


def _column(url: str, statement: str) -> list[str]:
    """Return the first column of an answer."""

    async def go() -> list[str]:
        store = PostgresStore(url)
        try:
            return [row[0] for row in await store._read(statement)]
        finally:
            await store.close()

    return asyncio.run(go())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_lost_runs_are_found_within_a_second_while_others_wait(kind: str, tmp_path: Path) -> None:
    clock, url = HandClock(), "" if kind == "sqlite" else schema()

    def opened() -> SqliteStore | PostgresStore:
        return SqliteStore(tmp_path / "runs.db", clock=clock) if kind == "sqlite" else PostgresStore(url, clock=clock)

    store, elsewhere = opened(), opened()
    for number in range(9):
        log = f"run:{number}"
        owner = elsewhere if number < 2 else store
        epoch = await owner.create(LogInfo(log, "desk", due=0.0, priority=number < 2), rows(1))
        if number >= 2:
            await store.release(log, epoch)
    claimed = [claim.log for claim in await store.claim("desk")]
    clock.skip(31.0)  # the leases elsewhere lapse
    claimed += [claim.log for _ in range(2) for claim in await store.claim("desk")]
    assert claimed == ["run:2", "run:0", "run:3"], "it has looked for them in this second"
    clock.skip(1.0)
    assert [claim.log for claim in await store.claim("desk")] == ["run:1"]
    assert len(await store.claim("desk", 9)) == 5
    await elsewhere.close()
    await store.close()

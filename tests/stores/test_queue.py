"""The queue of each store: a claim looks at what is due, not at all that waits."""

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.samples import amount
from tests.stores.places import QUEUES
from tests.stores.server import asked, schema
from tests.stores.test_conformance import STORES
from ziggurat.journal import LogInfo
from ziggurat.stores import PostgresStore, SqliteStore, postgres_statements as sql
from ziggurat.testing import HandClock
from ziggurat.testing.stores import rows

LOOK = 1.0
"""The longest time between two looks for what is lost, in seconds, while others are due."""


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


@pytest.mark.parametrize("seed", range(amount(1, 40)))
@pytest.mark.parametrize("kind", QUEUES)
async def test_a_lost_run_is_claimed_a_second_after_its_lease_at_the_latest(
    kind: str, seed: int, tmp_path: Path
) -> None:
    clock, chance = HandClock(), random.Random(seed)
    make: Any = STORES[kind](tmp_path)
    store, lost = make(clock), dict[str, float]()
    elsewhere, number = [make(clock) for _ in range(3)], 0
    for at, each in enumerate(elsewhere):  # which renew no more leases before seven seconds, then
        await each.create(LogInfo(f"run:held-{at}"), rows(1))
        await each.claim("desk")
    for _ in range(60):
        for _ in range(chance.choice([0, 1, 1, 3])):  # as a rule there is more to do than there is room for
            log, number = f"run:{number}", number + 1
            await store.release(log, await store.create(LogInfo(log, "desk", due=0.0), rows(1)))
        if chance.random() < 0.3:
            for claim in await chance.choice(elsewhere).claim("desk", chance.randint(1, 4)):
                lost[claim.log] = clock.now()
        pause = chance.choice([0.05, 0.25, 0.25, 1.0, 8.0])
        clock.skip(pause)
        room, now = chance.randint(1, 2), clock.now()
        claims = await store.claim("desk", room)
        late = {log for log, since in lost.items() if since + 30.0 + LOOK + pause < now}
        here = {claim.log for claim in claims if claim.lost}
        assert len(claims) < room or not late or here, "what is lost was due before"
        assert here <= lost.keys()
        assert len(here) >= min(room, len(late))
        for claim in claims:
            lost.pop(claim.log, None)
            await store.append(claim.log, claim.epoch, rows(1, 1, status="Completed"), release=True)
    for each in (store, *elsewhere):
        await each.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_lost_runs_are_looked_for_once_a_second_unless_there_are_more(kind: str, tmp_path: Path) -> None:
    clock = HandClock()
    make: Any = STORES[kind](tmp_path)
    store, elsewhere = make(clock), make(clock)

    async def create(number: int, owner: Any, *, lost: bool) -> None:
        log = f"run:{number}"
        epoch = await owner.create(LogInfo(log, "desk", due=0.0, priority=lost), rows(1))
        if not lost:
            await owner.release(log, epoch)

    for number in range(8):
        await create(number, elsewhere if number < 2 else store, lost=number < 2)
    claimed = [claim.log for claim in await store.claim("desk")]
    clock.skip(16.0)
    await create(8, elsewhere, lost=True)
    clock.skip(15.0)  # the other leases elsewhere lapse
    claimed += [claim.log for _ in range(4) for claim in await store.claim("desk")]
    clock.skip(15.5)
    claimed += [claim.log for claim in await store.claim("desk")]
    assert claimed == ["run:2", "run:0", "run:1", "run:3", "run:4", "run:8"]
    await elsewhere.close()
    await store.close()

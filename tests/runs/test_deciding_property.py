"""Decisions one by one, by processes that keep what they have read, on records that others go on with or damage."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.samples import SEED, amount
from ziggurat.agents import Answer
from ziggurat.errors import AlreadyDecided, ConfigurationError, JournalCorrupt, StoreError
from ziggurat.flows import Flow, ask, flow, gather
from ziggurat.journal import Store
from ziggurat.stores import FileStore, SqliteStore

KEYS = {"none": None, "one": "0123456789abcdef" * 2}
QUESTIONS, RUNS = 4, 3
REPORTS = (JournalCorrupt, StoreError, ConfigurationError)
"""The errors that name damage; where the first entry does not fit the key, it may be the wrong key."""


def asking(store: Store) -> Flow[None, list[str]]:
    @flow(name="asking", store=store)
    async def asking() -> list[str]:
        return list(await gather(*(ask(f"Pay {number}?") for number in range(QUESTIONS))))

    return asking


def opened(kind: str, folder: Path, key: str | None) -> Store:
    if kind == "file":
        return FileStore(folder / "runs", key=key or ())
    return SqliteStore(folder / "runs.db", key=key or (), synchronous="NORMAL")


def damage(kind: str, folder: Path, run_id: str, how: str, drawn: random.Random) -> None:
    """Change a byte of the record of a run, or cut its end off."""
    if kind == "file":
        [path] = [each for each in (folder / "runs").rglob("log.jsonl") if run_id in str(each.parent)]
        data = path.read_bytes()
        if how == "cut":
            path.write_bytes(data[: -drawn.randint(1, 40)])
        else:
            at = drawn.randrange(len(data))
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        return
    with closing(sqlite3.connect(folder / "runs.db")) as database, database:
        rows = database.execute(
            "SELECT rows.id, number, rows.data FROM rows JOIN logs USING (id) WHERE log = ? ORDER BY number",
            (f"run:{run_id}",),
        ).fetchall()
        log, number, data = rows[-1] if how == "cut" else drawn.choice(rows)
        if how == "cut":
            database.execute("DELETE FROM rows WHERE id = ? AND number = ?", (log, number))
        else:
            at = drawn.randrange(len(data))
            changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            database.execute("UPDATE rows SET data = ? WHERE id = ? AND number = ?", (changed, log, number))


async def decided_one_by_one(
    flows: list[Flow[None, list[str]]], kind: str, how: str, folder: Path, drawn: random.Random
) -> None:
    """Decide on runs at random, damage one halfway, and go on with all."""
    waits: dict[str, list[str]] = {}
    for number in range(RUNS):
        run = await flows[0].run(run_id=f"r{number}")
        waits[run.id] = [item.id for item in sorted(run.pending, key=lambda each: each.reason)]
    accepted: dict[str, dict[int, str]] = {run_id: {} for run_id in waits}
    damaged: set[str] = set()
    for turn in range(14):
        run_id, number, who = drawn.choice([*waits]), drawn.randrange(QUESTIONS), drawn.randrange(2)
        if how != "whole" and turn == 7:
            damage(kind, folder, run_id, how, drawn)
            damaged.add(run_id)
            continue
        try:
            await flows[who].decide(run_id, {waits[run_id][number]: Answer(f"{turn}")})
            assert number not in accepted[run_id], "decided twice"
            accepted[run_id][number] = f"{turn}"
        except AlreadyDecided:
            assert number in accepted[run_id] or run_id in damaged
        except REPORTS:
            assert run_id in damaged
    for run_id, answers in accepted.items():
        rest = {waits[run_id][number]: Answer("rest") for number in range(QUESTIONS) if number not in answers}
        try:
            run = await flows[drawn.randrange(2)].resume(run_id, rest)
        except (*REPORTS, AlreadyDecided):
            assert run_id in damaged
            continue
        assert run.output == [answers.get(number, "rest") for number in range(QUESTIONS)]


@pytest.mark.parametrize("how", ["whole", "cut", "changed"])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", ["file", "sqlite"])
async def test_what_was_accepted_stands_or_the_damage_is_reported(
    kind: str, key: str, how: str, tmp_path: Path
) -> None:
    for seed in range(SEED, SEED + amount(5, 50)):
        drawn, folder = random.Random(seed), tmp_path / str(seed)
        folder.mkdir()
        stores = [opened(kind, folder, KEYS[key]) for _ in range(2)]
        try:
            await decided_one_by_one([asking(store) for store in stores], kind, how, folder, drawn)
        finally:
            for store in stores:
                await store.close()

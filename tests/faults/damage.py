"""Damage to what a store has written: a flipped bit or a cut-off end, anywhere in it.

A run is recorded once for each of several ends of its process; each case damages a copy of what was left, and the run
is continued. It must be refused with an error, or lose nothing that was acknowledged and do nothing twice.
"""

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.storm import forked, said_in
from tests.faults.world import QUICK, DieAt, Ledger, Reached, Verdict, World, finish, judge, nowhere
from tests.stores.server import asked, schema
from ziggurat import ZigguratError
from ziggurat.agents import Environment
from ziggurat.errors import JournalCorrupt
from ziggurat.journal import Store, accept_loss
from ziggurat.journal.store import run_log
from ziggurat.messages import stops, user
from ziggurat.runs.stored import StoredRuns
from ziggurat.stores import Session, connect

STEPS = 8
RUN, SESSION = "r", "alice"
ENDS: tuple[Reached, ...] = (nowhere, DieAt("after event", 13), DieAt("after effect", 5), DieAt("before end", 1))
"""Where the process of a recorded run ends; the first closes its store."""


@dataclass
class Outcome:
    """What was found after damage."""

    cases: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    named: int = 0
    """Sessions that named rows that were damaged or lost."""
    verdict: Verdict = field(default_factory=Verdict)


@dataclass(frozen=True)
class Place:
    """A kind of store, and what of it is damaged.

    Attributes:
        opens: Opens the store in a folder.
        files: Returns the files that are damaged.
        first: The first of `ENDS` that leaves such files.
        settle: Called with a folder when its run is recorded.
    """

    opens: Callable[[Path], Store]
    files: Callable[[Path], list[Path]]
    first: int = 0
    settle: Callable[[Path], None] = lambda folder: None


def _connected(url: str) -> Store:
    store = connect(url)
    assert isinstance(store, Store)
    return store


def _sqlite(folder: Path) -> Store:
    return _connected(f"sqlite:///{folder}/runs.db")


def _checkpoint(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _files(folder: Path) -> Store:
    return _connected(f"file://{folder}/runs")


PLACES: dict[str, Place] = {
    "main": Place(_sqlite, lambda folder: [folder / "runs.db"], settle=_checkpoint),
    "wal": Place(_sqlite, lambda folder: [folder / "runs.db-wal"], 1),
    "marks": Place(_sqlite, lambda folder: [folder / "runs.db-ziggurat"]),
    "file": Place(_files, lambda folder: list((folder / "runs/logs").glob("run*/log.jsonl"))),
    "session": Place(_files, lambda folder: list((folder / "runs/logs").glob("session*/log.jsonl"))),
}


def flip_or_cut(data: bytes, draw: random.Random, *, cuts: bool) -> tuple[bytes, str]:
    """Return data with one bit flipped or, if `cuts`, its end cut off, and what was done."""
    at = draw.randrange(len(data) - 1)  # without the end of the last line, without which it is torn
    if cuts and draw.random() < 0.5:
        return data[:at], f"cut to {at} of {len(data)} bytes"
    bit = draw.randrange(8)
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], f"bit {bit} of byte {at} flipped"


def live(opens: Callable[[], Store], ledger: Path, end: Reached) -> None:
    """Run the agent in a session until its process ends."""

    async def main() -> None:
        store = opens()
        chat = Session(SESSION, store)
        await chat.add_items([user("Hello."), user("Are you there?")])
        world = World(Ledger(ledger), end)
        run = await finish(world, world.agent(store, STEPS), RUN, Environment(probe=end))
        assert run.stop == stops.Completed()
        await chat.add_items([user("Thank you.")])
        await store.close()

    asyncio.run(main())


def _recorded(place: Place, folder: Path) -> list[Path]:
    """Record the run for each end; return the folders of what was left."""
    left: list[Path] = []
    for number, end in enumerate(ENDS[place.first :]):
        (at := folder / f"end-{number}").mkdir()
        pid = forked(lambda at=at, end=end: live(lambda: place.opens(at), at / "ledger", end))  # type: ignore[misc]

        os.waitpid(pid, 0)
        place.settle(at)
        left.append(at)
    return left


def damage_files(name: str, cases: int, seed: int, spoil: Callable[[Path], None] = lambda folder: None) -> Outcome:
    """Damage files of a store, and continue the run."""
    place, draw, outcome = PLACES[name], random.Random(seed), Outcome()
    with tempfile.TemporaryDirectory(dir=QUICK) as work:
        recorded = _recorded(place, Path(work))
        for case in range(cases):
            folder = Path(work) / f"case-{case}"
            shutil.copytree(recorded[case % len(recorded)], folder)
            spoil(folder)
            path = draw.choice(sorted(place.files(folder)))
            data, told = flip_or_cut(path.read_bytes(), draw, cuts=place.opens is not _files)
            path.write_bytes(data)
            where = f"case {case} of seed {seed}, {path.relative_to(folder)}: {told}"
            asyncio.run(_look(lambda: place.opens(folder), folder / "ledger", where, outcome))  # noqa: B023
            shutil.rmtree(folder)
    return outcome


async def _look(opens: Callable[[], Store], ledger: Path, where: str, outcome: Outcome) -> None:
    """Read the session and continue the run; then accept what was lost, if that was said."""
    outcome.cases += 1
    store = opens()
    try:
        await _read_session(store, where, outcome)
        try:
            await _continue(store, ledger, where, outcome.verdict)
        except JournalCorrupt as error:
            outcome.refused["JournalCorrupt"] += 1
            if "accept-loss" in str(error):
                await _accept(store, ledger, where, outcome.verdict)
                outcome.accepted += 1
    except ZigguratError as error:
        outcome.refused[type(error).__name__] += 1
    except Exception as error:  # anything else is not an answer
        outcome.verdict.stuck.append(f"{where}: {type(error).__name__}: {error}")
    finally:
        await store.close()


async def _continue(store: Store, ledger: Path, where: str, verdict: Verdict) -> None:
    """Continue the run to its end, and compare what was done with what is on record."""
    world = World(Ledger(ledger))
    try:
        run = await finish(world, world.agent(store, STEPS), RUN)
        journal = await StoredRuns(store).read(RUN)
    finally:
        world.ledger.close()
    found = Verdict()
    judge(world.ledger.lines(), said_in(journal.entries), found)
    if run.stop != stops.Completed():
        found.stuck.append(f"the run ended with {run.stop}")
    for name in ("lost", "doubled", "stuck"):
        getattr(verdict, name).extend(f"{where}: {each}" for each in getattr(found, name))


async def _accept(store: Store, ledger: Path, where: str, verdict: Verdict) -> None:
    """Accept the loss and continue the run, which may do again what is lost."""
    if not await accept_loss(store, run_log(RUN)):
        verdict.stuck.append(f"{where}: a loss was named, and there was none to accept")
    world = World(Ledger(ledger.with_suffix(".after")))
    run = await finish(world, world.agent(store, STEPS), RUN)
    world.ledger.close()
    if run.stop != stops.Completed():
        verdict.stuck.append(f"{where}: after the loss was accepted, the run ended with {run.stop}")


async def _read_session(store: Store, where: str, outcome: Outcome) -> None:
    """Read the session: all of it, or it names what is not there; then write to it."""
    chat = Session(SESSION, store)
    try:
        texts = [message.text for message in await chat.history()]
        damaged = await chat.damaged()
        await chat.add_items([user("Are you still there?")])
    except ZigguratError as error:
        outcome.refused[f"session: {type(error).__name__}"] += 1
        return
    outcome.named += bool(damaged)
    known = ["Hello.", "Are you there?", "Thank you."]
    if texts != known[: len(texts)]:
        outcome.verdict.lost.append(f"{where}: the session has {texts}")
    if len(texts) < 2 and not damaged:
        outcome.verdict.lost.append(f"{where}: the session has only {texts}, and names nothing as damaged")
    if damaged and not set(damaged) <= set(await chat.damaged()):
        outcome.verdict.lost.append(f"{where}: the session no longer names {damaged}")


_TABLES = ("logs", "names", "rows", "blobs")
_HERE = "id = (SELECT id FROM logs WHERE log = '{log}')"
_ROW = "WHERE {here} AND number = {number}"
_BIT = "{draw} % (8 * length(data))"
_DAMAGE = (
    f"UPDATE rows SET data = set_bit(data, {_BIT}, 1 - get_bit(data, {_BIT})) {_ROW}",
    f"UPDATE rows SET digest = overlay(digest placing '!' from 1 + {{draw}} % length(digest)) {_ROW}",
    f"UPDATE rows SET data = substr(data, 1, {{draw}} % length(data)) {_ROW}",
    f"UPDATE rows SET number = number + 100 {_ROW}",
    f"DELETE FROM rows {_ROW}",
    "DELETE FROM rows WHERE {here} AND number >= {number}",
    "DELETE FROM logs WHERE {here}",
    "DELETE FROM names WHERE {here}",
)


def damage_rows(cases: int, seed: int) -> Outcome:
    """Damage rows in a PostgreSQL database, and continue the run; see `damage_files`."""
    draw, outcome = random.Random(seed), Outcome()
    with tempfile.TemporaryDirectory(dir=QUICK) as work:
        for number, end in enumerate(ENDS):
            url, ledger = schema(), Path(work) / f"ledger-{number}"
            pid = forked(lambda url=url, ledger=ledger, end=end: live(lambda: _connected(url), ledger, end))  # type: ignore[misc]

            os.waitpid(pid, 0)
            with _kept(url, ledger) as restore:
                for case in range(number, cases, len(ENDS)):
                    restore()
                    asyncio.run(_look(lambda: _connected(url), ledger, _damage(url, case, draw), outcome))  # noqa: B023
    return outcome


@contextmanager
def _kept(url: str, ledger: Path) -> Iterator[Callable[[], None]]:
    """Yield what restores the tables and the ledger as they are now."""
    lines = ledger.read_bytes()
    asked(url, *(f"CREATE TABLE kept_{name} AS SELECT * FROM {name}" for name in _TABLES))

    def restore() -> None:
        statements: list[str] = []
        for name in _TABLES:
            override = "OVERRIDING SYSTEM VALUE" if name == "logs" else ""
            statements += [f"DELETE FROM {name}", f"INSERT INTO {name} {override} SELECT * FROM kept_{name}"]
        asked(url, *statements)
        ledger.write_bytes(lines)

    yield restore


def _damage(url: str, case: int, draw: random.Random) -> str:
    log = draw.choice(["run:r", "run:r", "session:alice"])
    here = _HERE.format(log=log)
    count = asked(url, f"SELECT count(*) FROM rows WHERE {here}")
    number = draw.randint(1, count)
    statement = draw.choice(_DAMAGE).format(here=here, number=number, draw=draw.randrange(1 << 30))
    asked(url, statement)
    return f"case {case}: {statement}"


def words(outcome: Outcome) -> str:
    """Return figures for a line of a report."""
    refused = ", ".join(f"{name} {count}" for name, count in sorted(outcome.refused.items())) or "none"
    return f"cases {outcome.cases} refused ({refused}) accepted {outcome.accepted} sessions that name {outcome.named}"


KINDS: Sequence[str] = (*PLACES, "postgres")


def damage_store(name: str, cases: int, seed: int) -> Outcome:
    """Damage a store of one of `KINDS`."""
    return damage_rows(cases, seed) if name == "postgres" else damage_files(name, cases, seed)

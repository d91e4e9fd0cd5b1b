"""Storms against stores, from the command line::

python -m tests.faults kills --store sqlite --kills 400 --seed 7
python -m tests.faults power --steps 50
python -m tests.faults disk
python -m tests.faults damage --store wal --cases 300
"""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.faults.damage import KINDS as DAMAGED, damage_store, words
from tests.faults.disk import STORES, Outcome, every_request
from tests.faults.power import KINDS, examine as after_losses, record
from tests.faults.storm import WORLDS, Opens, Tally, storm
from tests.faults.world import QUICK, Verdict
from tests.stores.server import schema
from ziggurat.databases.address import without_secrets
from ziggurat.journal import Row, Store
from ziggurat.stores import FileStore, connect


class LyingStore(FileStore):
    """Says that rows are written a while before they are; a storm that does not notice is worth nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._late: list[Callable[[], asyncio.Future[None]]] = []

    def append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes] | None = None,
        *,
        release: bool = False,
        due: float | None = None,
        read: int | None = None,
    ) -> "asyncio.Future[None]":
        self._late.append(lambda: FileStore.append(self, log, epoch, rows, blobs, release=release, due=due, read=read))
        if release or len(self._late) > 5:
            late, self._late = self._late, []
            return [write() for write in late][-1]
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


def opens(store: str, folder: Path) -> Opens:
    """Return what opens a store by its kind or its address."""
    known = {
        "sqlite": f"sqlite:///{folder}/runs.db",
        "normal": f"sqlite:///{folder}/runs.db?synchronous=NORMAL",
        "file": f"file://{folder}/runs",
    }
    if store == "postgres":
        known[store] = schema()  # on a server of our own, made by this process before it forks

    def opened() -> Store:
        made = LyingStore(folder / "runs") if store == "lying" else connect(known.get(store, store))
        assert isinstance(made, Store)
        return made

    return opened


def kills(options: argparse.Namespace) -> int:
    """Kill processes that run agents on each store."""
    wrong = 0
    for store in options.store or ["sqlite", "file"]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            opened, work = opens(store, Path(folder)), Path(folder)
            tally = storm(
                opened, WORLDS[options.world], work, options.seed, options.kills, options.workers, options.chance
            )
        wrong += report(
            f"kills of {options.world}s on {without_secrets(store)}", tally, options.seed, time.monotonic() - began
        )
    return wrong


def power(options: argparse.Namespace) -> int:
    """Cut the power after every write of a run, and look at what each loss may leave."""
    return asyncio.run(_power(options))


async def _power(options: argparse.Namespace) -> int:
    logging.disable(logging.WARNING)  # each mark that is damaged is told of there
    wrong = 0
    for name in options.store or KINDS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=QUICK) as folder:
            recording = await record(KINDS[name], Path(folder), options.steps, WORLDS[options.world])
        found = await after_losses(
            KINDS[name], recording, seed=options.seed, tail_may_go=name == "normal", every=options.every
        )
        print(
            f"power on {name}: requests {len(recording.steps)} states {found.states} wrong {len(found.lost)} "
            f"shorter {found.shorter} accepted {found.accepted} resumed {found.resumed} rows {len(recording.rows)} "
            f"seed {options.seed} {time.monotonic() - began:.1f} s"
        )
        for each in found.lost[:10]:
            print(f"  {each}")
        wrong += len(found.lost)
    return wrong


def disk(options: argparse.Namespace) -> int:
    """Have the disk fail at every request of a run, once and from then on."""
    return asyncio.run(_disk(options))


async def _disk(options: argparse.Namespace) -> int:
    logging.disable(logging.WARNING)  # each failure is told of there
    whole = Verdict()
    for name in options.store or STORES:
        for which in ("full", "broken", "flush"):
            began, outcome = time.monotonic(), Outcome()
            for often in (1, 1_000_000_000):
                await every_request(
                    STORES[name], which, often, options.steps, outcome, options.every, WORLDS[options.world]
                )
            print(f"disk {which} below {name}: faults {outcome.faults} {in_figures(outcome.verdict)}", end=" ")
            print(f"{time.monotonic() - began:.1f} s")
            whole.add(outcome.verdict)
    return in_words(whole)


def damage(options: argparse.Namespace) -> int:
    """Damage what a store has written, anywhere in it, and continue the run."""
    logging.disable(logging.WARNING)  # what is lost is told of there
    whole = Verdict()
    for name in options.store or DAMAGED:
        began = time.monotonic()
        found = damage_store(name, options.cases, options.seed)
        seconds = time.monotonic() - began
        print(f"damage to {name}: {words(found)} {in_figures(found.verdict)} seed {options.seed} {seconds:.1f} s")
        whole.add(found.verdict)
    return in_words(whole)


def in_figures(verdict: Verdict) -> str:
    """Return how much of each kind is wrong."""
    return " ".join(f"{name} {len(items)}" for name, items in asdict(verdict).items())


def in_words(verdict: Verdict) -> int:
    """Print what is wrong; return how much that is."""
    for name, items in asdict(verdict).items():
        for item in items[:10]:
            print(f"  {name}: {item}")
    return sum(map(len, asdict(verdict).values()))


def report(what: str, tally: Tally, seed: int, seconds: float) -> int:
    """Print what was found; return how much of it is wrong."""
    bad = sum(map(len, asdict(tally.verdict).values()))
    survived = max(0, tally.faults - bad)
    figures = in_figures(tally.verdict)
    print(f"{what}: faults {tally.faults} survived {survived} {figures} runs {tally.runs} seed {seed} {seconds:.1f} s")
    print("  " + ", ".join(f"{point} {number}" for point, number in sorted(tally.kills.items())))
    return in_words(tally.verdict)


def main() -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Storms against stores.")
    commands = parser.add_subparsers(required=True)
    for work in (kills, power, disk, damage):
        command = commands.add_parser(work.__name__, help=work.__doc__)
        command.set_defaults(run=work)
        command.add_argument(
            "--store",
            action="append",
            help="sqlite, normal, file, postgres, or an address; again for more; damage: main, wal, file, session ...",
        )
        command.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
        if work is kills:
            command.add_argument("--kills", type=int, default=400, help="how many for each store")
            command.add_argument("--workers", type=int, default=2)
            command.add_argument("--chance", type=float, default=0.4, help="of a random moment instead of a point")
            command.add_argument("--folder", help="where to work; a temporary folder otherwise")
        elif work is damage:
            command.add_argument("--cases", type=int, default=300, help="how many for each store")
        else:
            command.add_argument("--steps", type=int, default=50 if work is power else 20, help="of the run")
        if work in (kills, power, disk):
            command.add_argument("--world", choices=WORLDS, default="agent", help="what runs")
        if work in (power, disk):
            command.add_argument("--every", type=int, default=1, help="only at every so many requests")
    options = parser.parse_args()
    return 1 if options.run(options) else 0


if __name__ == "__main__":
    sys.exit(main())

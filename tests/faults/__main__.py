"""Storms against stores, from the command line::

python -m tests.faults kills --store sqlite --kills 400 --seed 7
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.faults.storm import Opens, Tally, storm
from ziggurat.core.store import Row, Store
from ziggurat.stores.connect import connect
from ziggurat.stores.file import FileStore


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
    ) -> "asyncio.Future[None]":
        """Promise to write."""
        self._late.append(lambda: FileStore.append(self, log, epoch, rows, blobs, release=release))
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

    def opened() -> Store:
        made = LyingStore(folder / "runs") if store == "lying" else connect(known.get(store, store))
        assert isinstance(made, Store)
        return made

    return opened


def kills(options: argparse.Namespace) -> int:
    """Kill processes that run agents upon each store."""
    wrong = 0
    for store in options.store or ["sqlite", "file"]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            tally = storm(opens(store, Path(folder)), Path(folder), options.seed, options.kills, options.workers)
        wrong += report(f"kills on {store.partition('@')[0]}", tally, options.seed, time.monotonic() - began)
    return wrong


def report(what: str, tally: Tally, seed: int, seconds: float) -> int:
    """Print what was found; return how much of it is wrong."""
    verdict = tally.verdict
    found = {name: getattr(verdict, name) for name in ("lost", "doubled", "stuck", "leaked")}
    bad = sum(map(len, found.values()))
    figures = " ".join(f"{name} {len(items)}" for name, items in found.items())
    survived = max(0, tally.faults - bad)
    print(f"{what}: faults {tally.faults} survived {survived} {figures} runs {tally.runs} seed {seed} {seconds:.1f} s")
    print("  " + ", ".join(f"{point} {number}" for point, number in sorted(tally.kills.items())))
    for name, items in found.items():
        for item in items[:10]:
            print(f"  {name}: {item}")
    return bad


def main() -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Storms against stores.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("kills", help=kills.__doc__)
    command.add_argument("--store", action="append", help="sqlite, normal, file, or an address; may be repeated")
    command.add_argument("--kills", type=int, default=400, help="how many for each store")
    command.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--folder", help="where to work; a temporary folder otherwise")
    command.set_defaults(run=kills)
    options = parser.parse_args()
    return 1 if options.run(options) else 0


if __name__ == "__main__":
    sys.exit(main())

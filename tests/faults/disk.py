"""Disks that are full or broken from the k-th request on, for every k, until there is room again."""

import errno
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import apsw

from tests.faults.apsw_files import Files, connector, quiet
from tests.faults.storm import said_in
from tests.faults.watched import WatchedDisk
from tests.faults.world import QUICK, Ledger, Verdict, World, finish
from ziggurat.databases.files import Disk
from ziggurat.errors import RunNotFound, StoreError
from ziggurat.journal import Store
from ziggurat.journal.entries import Intent
from ziggurat.messages import stops
from ziggurat.runs.stored import StoredRuns
from ziggurat.stores import FileStore, SqliteStore


class Trouble:
    """Counts requests to a disk: writes if it is ``full``, flushes if ``flush``, all if ``broken``."""

    def __init__(self, which: str, first: int, often: int) -> None:
        self.which = which
        self.first = first
        self.often = often
        self.seen = 0

    def fails(self, what: str) -> bool:
        """Count a request; return whether it fails."""
        if (self.which == "full" and what not in ("write", "open")) or (self.which == "flush" and what != "sync"):
            return False
        self.seen += 1
        return self.first <= self.seen < self.first + self.often

    @property
    def met(self) -> bool:
        return self.seen >= self.first

    def end(self) -> None:
        self.often = 0


class FailingFiles(Files):
    """The disk below SQLite."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def before(self, what: str, path: Path, offset: int = 0, data: bytes = b"") -> None:
        if self._trouble.fails(what):
            raise apsw.FullError() if self._trouble.which == "full" else apsw.IOError()


class FailingDisk(WatchedDisk):
    """The disk below a store of files; a full one takes a part of what is written."""

    _KINDS: ClassVar = {"edit": "open", "overwrite": "write", "sync_folder": "sync", "make_folder": "folder"}

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    @contextmanager
    def around(self, what: str, *arguments: Any) -> Iterator[None]:
        """Fail when it is time."""
        kind = self._KINDS.get(what, what)
        if self._trouble.fails(kind):
            if kind == "write" and self._trouble.which == "full":
                *where, data = arguments
                getattr(Disk, what)(self, *where, data[: len(data) // 2])
            raise OSError(errno.ENOSPC if self._trouble.which == "full" else errno.EIO, what)
        yield


Opens = Callable[[Path, Trouble], Store]

STORES: dict[str, Opens] = {
    "file": lambda folder, trouble: FileStore(folder / "runs", disk=FailingDisk(trouble)),
    "sqlite": lambda folder, trouble: SqliteStore(
        folder / "runs.db", connect=connector(FailingFiles(trouble)), disk=FailingDisk(trouble)
    ),
    "normal": lambda folder, trouble: SqliteStore(
        folder / "runs.db", synchronous="NORMAL", connect=connector(FailingFiles(trouble)), disk=FailingDisk(trouble)
    ),
}


@dataclass
class Outcome:
    """What was found with disks that failed."""

    faults: int = 0
    verdict: Verdict = field(default_factory=Verdict)


async def every_request(
    opens: Opens, which: str, often: int, steps: int, outcome: Outcome, stride: int = 1, makes: type[World] = World
) -> None:
    """Have the k-th request fail, for every k that a run comes to, and let it go on when there is room again."""
    first = 1 - stride
    while True:
        first += stride
        trouble = Trouble(which, first, often)
        with tempfile.TemporaryDirectory(dir=QUICK) as folder, quiet():
            await _endure(opens, makes, Path(folder), trouble, steps, outcome.verdict)
        if not trouble.met:
            return
        outcome.faults += 1


async def _endure(
    opens: Opens, makes: type[World], folder: Path, trouble: Trouble, steps: int, verdict: Verdict
) -> None:
    """Run into trouble, look at what was done, and go on when it has ended."""
    where = f"{trouble.which} from request {trouble.first} on, {trouble.often} times"
    store = opens(folder, trouble)
    world = makes(Ledger(folder / "ledger"))
    agent = world.agent(store, steps)
    try:
        run = await finish(world, agent, "r")
        if run.stop != stops.Completed():
            verdict.lost.append(f"{where}: the run has ended with {run.stop}")
    except StoreError:
        pass
    except Exception as error:  # anything else is not an answer
        verdict.lost.append(f"{where}: {type(error).__name__}: {error}")
    trouble.end()
    done = [line["path"] for line in world.ledger.lines() if line.get("effect") in world.with_intent]
    intents = await _intents(opens, folder)
    for path in set(done) - intents:
        verdict.lost.append(f"{where}: {path} was run though its intent was not stored")
    run = await finish(world, agent, "r")
    if run.stop != stops.Completed():
        verdict.stuck.append(f"{where}: when there was room the run ended with {run.stop}")
    journal = await StoredRuns(store).read("r")
    world.judge(journal.entries, said_in(journal.entries), verdict)
    world.ledger.close()
    await store.close()


async def _intents(opens: Opens, folder: Path) -> set[str]:
    """Return what another process finds on record as begun."""
    store = opens(folder, Trouble("none", 1, 0))
    try:
        journal = await StoredRuns(store).read("r")
    except RunNotFound:
        return set()
    finally:
        await store.close()
    return {entry.path for entry in journal.entries if isinstance(entry, Intent)}

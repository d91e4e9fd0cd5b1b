"""What a loss of power may leave: a recorded run of a store is cut at every write, and what was not flushed is lost.

Of what was written after the last flush of a file, each state keeps nothing, all, a torn part, the last write only,
or any of them. Names (files that were made, renamed, removed) are lost likewise until their folder was flushed.
"""

import os
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.faults.apsw_files import Files, connector
from tests.faults.world import QUICK, Ledger, World, finish
from ziggurat.databases.files import Disk
from ziggurat.journal import LogInfo, Row, Store, accept_loss
from ziggurat.journal.rows import lines_of, read_rows
from ziggurat.journal.store import chained, run_log
from ziggurat.messages import stops
from ziggurat.stores import FileStore, SqliteStore
from ziggurat.testing import HandClock

SECTOR = 512
LOG = run_log("r")

DATA = ("none", "all", "torn", "zeros", "last", "any")
"""What is left of what was not flushed."""

NAMES = ("none", "all", "any")
"""Which names are left of those that were not flushed."""


@dataclass(frozen=True)
class Step:
    """Something that was asked of the file system.

    Attributes:
        what: ``open`` (made if it was not there; cut if `size` is 0), ``write``, ``truncate``, ``sync``, ``delete``,
            ``folder``, ``rename``, ``sync_folder``.
        path: Of the file or folder, below the root.
        size: Offset of a write, length after a cut.
        data: What was written.
        to: The new name.
    """

    what: str
    path: str
    size: int = -1
    data: bytes = b""
    to: str = ""


@dataclass
class Recording:
    """All that was asked of the file system in a run, and what had been acknowledged by when."""

    steps: list[Step] = field(default_factory=list)
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """After how many steps how many rows were."""
    posted: list[int] = field(default_factory=list)
    """After how many steps each item of the inbox was."""
    rows: list[Row] = field(default_factory=list)
    makes: type[World] = World
    turns: int = 50
    """How many steps the run itself takes."""

    def by(self, index: int) -> int:
        """Return how many rows had been acknowledged after so many steps."""
        return max((rows for steps, rows in self.acknowledged if steps <= index), default=0)

    def sent_by(self, index: int) -> int:
        """Return how many items of the inbox had been acknowledged after so many steps."""
        return sum(steps <= index for steps in self.posted)


@dataclass
class File:
    """A file as the file system holds it, and what of it is on the disk."""

    flushed: bytearray = field(default_factory=bytearray)
    waiting: list[Step] = field(default_factory=list)

    def left(self, keep: str, draw: random.Random) -> bytes:
        """Return what is found in it after the power is back."""
        data, waiting = bytearray(self.flushed), self.waiting
        chosen: Iterable[Step] = waiting
        if keep == "none":
            chosen = ()
        elif keep == "last":
            chosen = waiting[-1:]
        elif keep == "any":
            chosen = [step for step in waiting if draw.random() < 0.5]
        for step in chosen:
            whole = step.data
            if step is waiting[-1] and keep in ("torn", "zeros", "any") and len(whole) > 1:
                cut = draw.randrange(1, len(whole))
                cut = cut // SECTOR * SECTOR or cut
                whole = whole[:cut] + (bytes(len(whole) - cut) if keep == "zeros" else b"")
            _apply(data, step, whole)
        return bytes(data)

    def flush(self) -> None:
        for step in self.waiting:
            _apply(self.flushed, step, step.data)
        self.waiting = []


def _apply(data: bytearray, step: Step, written: bytes) -> None:
    if step.what == "truncate":
        del data[step.size :]
    else:
        data.extend(bytes(max(0, step.size - len(data))))
        data[step.size : step.size + len(written)] = written


Name = tuple[int, str, str, File | None]
"""Something that happened to a name: when, what, the name, and the file that was made."""


class Machine:
    """A file system that follows a recording, and can tell what a loss of power would leave of it."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.disk: list[Name] = []
        self.names: list[Name] = []  # those that wait to be flushed
        self._count = 0

    def do(self, step: Step) -> None:
        path = step.path
        if step.what == "open":
            if path not in self.files:
                self.files[path] = File()
                self._name("make", path, self.files[path])
            if step.size == 0:
                self.files[path].waiting.append(Step("truncate", path, 0))
        elif step.what in ("write", "truncate"):
            self.files[path].waiting.append(step)
        elif step.what == "sync":
            self.files[path].flush()
        elif step.what == "sync_folder":
            self._sync(lambda name: name.rpartition("/")[0] == path)
        elif step.what == "sync_names":
            self._sync(lambda name: True)
        elif step.what == "folder":
            self._name("folder", path)
        elif step.what == "delete":
            del self.files[path]
            self._name("delete", path)
        elif step.what == "rename":
            self.files = {_moved(name, path, step.to): file for name, file in self.files.items() if name != step.to}
            self._name(f"rename {step.to}", path)

    def _name(self, what: str, path: str, file: File | None = None) -> None:
        self._count += 1
        self.names.append((self._count, what, path, file))

    def _sync(self, which: Callable[[str], bool]) -> None:
        self.disk.extend(name for name in self.names if which(name[2]))
        self.names = [name for name in self.names if not which(name[2])]

    def left(self, data: str, names: str, draw: random.Random) -> tuple[set[str], dict[str, bytes]]:
        """Return the folders and files that are found after the power is back."""
        chosen = [name for name in self.names if names == "all" or (names == "any" and draw.random() < 0.5)]
        folders, files = {""}, dict[str, File]()
        for _, what, path, file in sorted([*self.disk, *chosen], key=lambda name: name[0]):
            if path.rpartition("/")[0] not in folders:
                continue
            if what == "folder":
                folders.add(path)
            elif what == "make" and file is not None:
                files[path] = file
            elif what == "delete":
                files.pop(path, None)
            elif path in files or path in folders:
                to = what.partition(" ")[2]
                files = {_moved(name, path, to): file for name, file in files.items() if name != to}
                folders = {_moved(name, path, to) for name in folders}
        return folders, {path: file.left(data, draw) for path, file in files.items()}


def _moved(name: str, old: str, new: str) -> str:
    if name == old or name.startswith(old + "/"):
        return new + name[len(old) :]
    return name


class RecordingDisk(Disk):
    """Remembers what a store of files has asked for."""

    def __init__(self, root: Path, recording: Recording) -> None:
        self._root = root
        self._recording = recording
        self._open: dict[int, str] = {}

    def _note(self, what: str, path: Path | str, size: int = -1, data: bytes = b"", to: str = "") -> None:
        name = path if isinstance(path, str) else self._name(path)
        self._recording.steps.append(Step(what, name, size, data, to))

    def _name(self, path: Path) -> str:
        return "" if path == self._root else str(path.relative_to(self._root))

    def open(self, path: Path) -> int:
        at = super().open(path)
        self._open[at] = self._name(path)
        self._note("open", path)
        return at

    def write(self, at: int, data: bytes | memoryview) -> int:
        self._note("write", self._open[at], os.fstat(at).st_size, bytes(data))
        return super().write(at, data)

    def edit(self, path: Path) -> int:
        at = super().edit(path)
        self._open[at] = self._name(path)
        self._note("open", path)
        return at

    def overwrite(self, at: int, offset: int, data: bytes) -> None:
        self._note("write", self._open[at], offset, bytes(data))
        super().overwrite(at, offset, data)

    def truncate(self, at: int, size: int) -> None:
        self._note("truncate", self._open[at], size)
        super().truncate(at, size)

    def sync(self, at: int) -> None:
        self._note("sync", self._open[at])

    def make_folder(self, path: Path) -> None:
        super().make_folder(path)
        self._note("folder", path)

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self._open = {at: _moved(path, self._name(old), self._name(new)) for at, path in self._open.items()}
        self._note("rename", old, to=self._name(new))

    def sync_folder(self, path: Path) -> None:
        self._note("sync_folder", path)


class RecordingFiles(Files):
    """Remembers what SQLite has asked for; with a journal's first flush it flushes the names in its folder."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def before(self, what: str, path: Path, offset: int = 0, data: bytes = b"") -> None:
        steps = self._recording.steps
        steps.append(Step(what, path.name, -1 if what == "open" else offset, data))
        if (what == "sync" and not path.name.endswith(".db")) or what == "delete":
            steps.append(Step("sync_names", ""))


class HastyDisk(Disk):
    """Flushes nothing, where nothing is to survive."""

    def sync(self, at: int) -> None:
        """Do nothing."""

    def sync_folder(self, path: Path) -> None:
        """Do nothing."""


class Kind(Protocol):
    """Opens a store in a folder, recording or not."""

    def __call__(self, folder: Path, recording: Recording | None = None, /) -> Store: ...


def file_store(folder: Path, recording: Recording | None = None) -> Store:
    """Open a store of files."""
    if recording is None:
        return FileStore(folder / "runs", disk=HastyDisk())
    return FileStore(folder / "runs", disk=RecordingDisk(folder, recording), clock=HandClock())


def database(synchronous: Literal["FULL", "NORMAL"]) -> Kind:
    """Return what opens a database that flushes at each commit, or when its log is worked in."""

    def opened(folder: Path, recording: Recording | None = None, /) -> Store:
        if recording is None:
            return SqliteStore(folder / "runs.db", synchronous="NORMAL")
        files, disk = connector(RecordingFiles(recording)), RecordingDisk(folder, recording)
        return SqliteStore(folder / "runs.db", synchronous=synchronous, clock=HandClock(), connect=files, disk=disk)

    return opened


KINDS: dict[str, Kind] = {"file": file_store, "sqlite": database("FULL"), "normal": database("NORMAL")}


async def record(kind: Kind, folder: Path, steps: int, makes: type[World] = World) -> Recording:
    """Record a run of an agent or a flow, and what was acknowledged when."""
    recording = Recording(makes=makes, turns=steps)
    store = kind(folder, recording)
    _acknowledging(store, recording)
    world = makes(Ledger(folder / "ledger"))
    run = await finish(world, world.agent(store, steps), "r")
    assert run.stop == stops.Completed()
    recording.rows = await store.read(LOG)
    world.ledger.close()
    await store.close()
    return recording


def _acknowledging(store: Any, recording: Recording) -> None:
    """Note when the store says that rows are written."""
    create, append, post = store.create, store.append, store.post

    async def created(info: LogInfo, rows: Sequence[Row] = (), blobs: Any = None) -> int:
        epoch: int = await create(info, rows, blobs)
        recording.acknowledged.append((len(recording.steps), len(rows)))
        return epoch

    def appended(log: str, epoch: int, rows: Sequence[Row], blobs: Any = None, **more: Any) -> Any:
        done = append(log, epoch, rows, blobs, **more)
        number = rows[-1].number
        done.add_done_callback(lambda _: recording.acknowledged.append((len(recording.steps), number)))
        return done

    async def posted(log: str, key: str, data: bytes) -> bool:
        new: bool = await post(log, key, data)
        if new:
            recording.posted.append(len(recording.steps))
        return new

    store.create, store.append, store.post = created, appended, posted


@dataclass
class Outcome:
    """What was found after losses of power."""

    states: int = 0
    lost: list[str] = field(default_factory=list)
    shorter: int = 0
    """States in which something acknowledged was gone, where that may be."""
    accepted: int = 0
    """States in which that was noticed, and had to be accepted."""
    resumed: int = 0


async def examine(kind: Kind, recording: Recording, *, seed: int, tail_may_go: bool, every: int = 1) -> Outcome:
    """Cut a recorded run after every step, in every way, and open what is left."""
    draw, machine, outcome = random.Random(seed), Machine(), Outcome()
    for index, step in enumerate([Step("", ""), *recording.steps]):
        machine.do(step)
        if index % every:
            continue
        seen = set()
        for data in DATA:
            for names in NAMES if machine.names else ("all",):
                folders, files = machine.left(data, names, draw)
                state = hash((frozenset(folders), frozenset(files.items())))
                if state in seen:
                    continue
                seen.add(state)
                outcome.states += 1
                where = f"after {index} of {len(recording.steps)} steps, data {data}, names {names}"
                with tempfile.TemporaryDirectory(dir=QUICK) as folder:
                    _lay_out(Path(folder), folders, files)
                    goes_on = outcome.states % 50 == 0
                    await _look(kind, Path(folder), recording, index, where, outcome, tail_may_go, goes_on)
    return outcome


def _lay_out(root: Path, folders: Iterable[str], files: dict[str, bytes]) -> None:
    for folder in sorted(folders):
        (root / folder).mkdir(exist_ok=True)
    for path, data in files.items():
        (root / path).write_bytes(data)


async def _look(
    kind: Kind,
    folder: Path,
    recording: Recording,
    index: int,
    where: str,
    outcome: Outcome,
    tail_may_go: bool,
    goes_on: bool,
) -> None:
    """Open what is left: what is there is sound, what was acknowledged is there, and it can be gone on with."""
    store, acknowledged = kind(folder), recording.by(index)
    try:
        await store.logs("run:")
        accepted = bool(await accept_loss(store, LOG)) if tail_may_go else False
        outcome.accepted += accepted
        info = await store.find(LOG)
        rows = [] if info is None else await read_rows(store, LOG)
        await lines_of(store, LOG, rows)
        whole = rows[:-1] if accepted else rows
        if whole != recording.rows[: len(whole)]:
            outcome.lost.append(f"{where}: what is left is not a beginning of what was written")
        if len(whole) < acknowledged:
            outcome.shorter += 1
            if not tail_may_go:
                outcome.lost.append(f"{where}: {acknowledged} rows were acknowledged, {len(whole)} are there")
        if info is not None:
            if not tail_may_go and len(await store.inbox(LOG)) < recording.sent_by(index):
                outcome.lost.append(f"{where}: an event that was sent is gone")
            epoch = await store.lease(LOG)
            data = b'{"more":1}'
            digest = chained(rows[-1].digest if rows else "", data)
            if not goes_on:
                await store.append(LOG, epoch, [Row(len(rows) + 1, digest, data)])
                assert len(await read_rows(store, LOG)) == len(rows) + 1
            await store.release(LOG, epoch)
        if goes_on:
            world = recording.makes(Ledger(folder / "ledger"))
            run = await finish(world, world.agent(store, recording.turns), "r")
            outcome.resumed += run.stop == stops.Completed()
            world.ledger.close()
    except Exception as error:  # whatever it is, it must not be
        outcome.lost.append(f"{where}: {type(error).__name__}: {error}")
    finally:
        await store.close()
    if isinstance(store, SqliteStore):
        with closing(sqlite3.connect(store.path)) as connection:
            (said,) = connection.execute("PRAGMA integrity_check").fetchone()
        if said != "ok":
            outcome.lost.append(f"{where}: integrity_check: {said}")

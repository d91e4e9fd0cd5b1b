"""Check what is left of a memory when its processes are killed, or power is lost, during writes.

::

    python -m tests.memory.losses kills --records 10000 --kills 40
    python -m tests.memory.losses power --records 10000
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.faults.apsw_files import connector
from tests.faults.power import Machine, Recording, RecordingFiles
from ziggurat.memory import MemoryRecord, MemoryStore, Query
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.messages.model import pack

GROUP = 10
"""How many memories are written concurrently, each in its own call."""


@cache
def memory(name: str) -> MemoryRecord:
    """Return a memory whose vector and words are derived from its name."""
    draw = random.Random(name)
    vector = pack([draw.gauss(0, 1) for _ in range(8)])
    return MemoryRecord(id=name, owner="ann", content=f"the word of {name}", embedding=vector)


async def remember(store: MemoryStore, names: Sequence[str]) -> None:
    """Write memories, and print the acknowledged ones."""

    async def one(name: str) -> None:
        await store.add([memory(name)])
        os.write(1, f"{name}\n".encode())

    for start in range(0, len(names), GROUP):
        await asyncio.gather(*(one(name) for name in names[start : start + GROUP]))


async def missing(store: MemoryStore, names: Sequence[str], *, every: int = 1) -> list[str]:
    """Return the acknowledged memories that cannot be read, or not be found by words or by vector."""
    kept = {record.id: record for record in await store.get(names)}
    lost = [name for name in names if kept.get(name) != memory(name)]
    for name in names[::every]:
        for query in (
            Query(owner="ann", text=name, limit=1),
            Query(owner="ann", embedding=memory(name).embedding, limit=1),
        ):
            if [hit.record.id for hit in await store.search(query)] != [name]:
                lost.append(f"{name} in {query}")
    return lost


# -- kills -------------------------------------------------------------------------------------------------------


class Child:
    """A process that writes memories, and the names it has acknowledged."""

    def __init__(self, path: Path, prefix: str, count: int) -> None:
        command = (sys.executable, "-m", "tests.memory.losses", "child", str(path), prefix, str(count))
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.said: list[str] = []

    def listen(self, lines: int) -> bool:
        """Wait until it has acknowledged this many more; return whether it is still running."""
        assert self.process.stdout is not None
        for _ in range(lines):
            line = self.process.stdout.readline()
            if not line.endswith(b"\n"):
                return False
            self.said.append(line.decode().strip())
        return True

    def end(self, *, kill: bool) -> None:
        """Kill it, or let it finish; read the rest of its output."""
        if kill:
            os.kill(self.process.pid, signal.SIGKILL)
        while self.listen(1):
            pass
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert self.process.wait() == (-signal.SIGKILL if kill else 0)


def storm(folder: Path, records: int, kills: int, seed: int) -> tuple[int, list[str]]:
    """Kill two processes that write one memory, repeatedly; return what was acknowledged and what is lost."""
    draw, path, said = random.Random(seed), folder / "memory.db", list[str]()
    each = -(-records // (kills + 1))
    for number in range(0, kills + 1, 2):
        killed = [number + at < kills for at in range(2)]
        pair = [Child(path, f"p{number + at}x", 10**6 if killed[at] else each) for at in range(2)]
        for child, kill in zip(pair, killed, strict=True):
            if kill:
                child.listen(draw.randrange(each // 2, each + 1))
            child.end(kill=kill)
            said += child.said

    async def look() -> list[str]:
        store = SqliteMemoryStore(path)
        try:
            return await missing(store, said, every=max(1, len(said) // 500))
        finally:
            await store.close()

    return len(said), asyncio.run(look())


# -- losses of power ---------------------------------------------------------------------------------------------


async def record(folder: Path, records: int) -> tuple[Recording, list[str]]:
    """Write memories on a file system that records every operation."""
    recording = Recording()
    names = [f"m{number}" for number in range(records)]
    store = SqliteMemoryStore(folder / "memory.db", connect=connector(RecordingFiles(recording)))
    for start in range(0, records, GROUP):
        await asyncio.gather(*(store.add([memory(name)]) for name in names[start : start + GROUP]))
        recording.acknowledged.append((len(recording.steps), start + GROUP))
    await store.close()
    return recording, names


async def examine(recording: Recording, names: Sequence[str], *, every: int, seed: int) -> tuple[int, list[str]]:
    """Simulate power losses at regular steps; return the number of states checked, and what was lost in them."""
    machine, draw, states, lost = Machine(), random.Random(seed), 0, list[str]()
    for index, step in enumerate(recording.steps, start=1):
        machine.do(step)
        if index % every:
            continue
        for data, known in (("none", "none"), ("all", "all"), ("torn", "any"), ("last", "all"), ("any", "any")):
            _, files = machine.left(data, known, draw)
            states += 1
            lost += [
                f"after step {index}, {data}/{known}: {name}" for name in await _look(files, names, recording.by(index))
            ]
    return states, lost


async def _look(files: dict[str, bytes], names: Sequence[str], acknowledged: int) -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        for name, data in files.items():
            (Path(place) / name).write_bytes(data)
        store = SqliteMemoryStore(Path(place) / "memory.db", synchronous="NORMAL")
        try:
            await store.count(owner=None)
            return await missing(store, names[:acknowledged], every=max(1, acknowledged // 5))
        finally:
            await store.close()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kills", "power", "child"))
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    if given.what == "child":
        path, prefix, count = given.rest
        asyncio.run(remember(SqliteMemoryStore(path), [f"{prefix}{number}" for number in range(int(count))]))
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.what == "kills":
            count, lost = storm(Path(folder), given.records, given.kills, given.seed)
            print(f"seed {given.seed}: {given.kills} kills, {count} acknowledged, {len(lost)} lost")
        else:
            recording, names = asyncio.run(record(Path(folder), given.records))
            every = max(1, len(recording.steps) // 100)
            states, lost = asyncio.run(examine(recording, names, every=every, seed=given.seed))
            print(f"seed {given.seed}: {given.records} records, {states} losses of power, {len(lost)} lost")
    for each in lost[:20]:
        print(each)
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()

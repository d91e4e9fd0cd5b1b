"""Many processes write one session: each run's steps stay together, and each lease has one owner.

``python -m tests.stores.session_storm URL --processes 10 --steps 1000`` prints what came of it.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from tests.stores.server import schema
from ziggurat import Agent, Message, tool
from ziggurat.errors import LeaseLost
from ziggurat.journal import Store
from ziggurat.journal.store import session_log
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.stores import Session, connect
from ziggurat.stores.session import SessionLease
from ziggurat.stores.session_log import MessagesAdded, read_session_entry

ROOT = Path(__file__).parents[2]
STEPS_OF_A_RUN = 10


class Storm(Struct):
    """The result; every fault is a number that should be 0."""

    processes: int
    steps: int
    runs: int
    epochs: int
    handovers: int
    interleaved: int
    lost: int
    shared_epochs: int
    seconds: float

    @property
    def faults(self) -> int:
        """The number of faults."""
        return self.interleaved + self.lost + self.shared_epochs


@tool
def count(to: int) -> int:
    """Count."""
    return to


def reply(messages: Sequence[Message]) -> object:
    """Count the steps of this run, which begins with the last user message."""
    began = max(index for index, message in enumerate(messages) if message.role == "user")
    made = sum(message.role == "assistant" for message in messages[began:])
    return tool_call("count", to=made + 1) if made < STEPS_OF_A_RUN - 1 else "counted"


class Noting(Session):
    """A session that records each of its leases."""

    epochs: ClassVar[list[int]] = []

    async def lease(self, *, branching: bool = True) -> SessionLease:
        """Lease the session, and record it."""
        lease = await super().lease(branching=branching)
        self.epochs.append(lease.epoch)
        return lease


async def write(url: str, steps: int) -> None:
    """Act as one process: make this many steps in runs of ten, and print the epochs of the leases."""
    store = connect(url)
    agent = Agent(FunctionModel(reply), tools=[count], name="counter")  # its runs are kept by reference
    for number in range(steps // STEPS_OF_A_RUN):
        chat = Noting("storm", store, limit=20, timeout=3600.0)
        run = await agent.run(f"{os.getpid()} {number}", session=chat)
        run.raise_for_stop()
    await store.close()
    print(json.dumps(Noting.epochs))


async def sleeper(url: str) -> None:
    """Lease the session, report it, and write when a line arrives: too late, if another process took over."""
    store = connect(url)
    lease = await Session("storm", store).lease()
    print(json.dumps([lease.epoch]), flush=True)
    sys.stdin.readline()
    try:
        await lease.write([MessagesAdded(0.0, "late", 0, ())])
    except LeaseLost as error:
        print(f"LeaseLost: {error}")
    await store.close()


def process(url: str, *more: str) -> "subprocess.Popen[str]":
    """Start one of the processes."""
    words = [sys.executable, "-m", "tests.stores.session_storm", url, *more]
    return subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def storm(url: str, processes: int, steps: int) -> Storm:
    """Let processes write one session, and check the result."""
    began = time.monotonic()
    begun = [process(url, "--write", str(steps)) for _ in range(processes)]
    epochs: list[list[int]] = []
    for each in begun:
        out, _ = each.communicate()
        assert each.returncode == 0
        epochs.append(json.loads(out))
    seconds = time.monotonic() - began
    store = connect(url)
    assert isinstance(store, Store)
    said = asyncio.run(_said(store))
    blocks = [(run, [*entries]) for run, entries in groupby(said, key=lambda entry: entry.run)]
    whole = 1 + 2 * (STEPS_OF_A_RUN - 1) + 1
    complete = sum(_in_order(entries) == whole for _, entries in blocks)
    everyone = [epoch for each in epochs for epoch in each]
    owners = [number for _, number in sorted((epoch, number) for number, each in enumerate(epochs) for epoch in each)]
    runs = processes * (steps // STEPS_OF_A_RUN)
    return Storm(
        processes=processes,
        steps=runs * STEPS_OF_A_RUN,
        runs=runs,
        epochs=len(everyone),
        handovers=sum(one != other for one, other in pairwise(owners)),
        interleaved=len(blocks) - len({run for run, _ in blocks}),
        lost=runs - complete,
        shared_epochs=len(everyone) - len(set(everyone)),
        seconds=round(seconds, 1),
    )


async def _said(store: Store) -> list[MessagesAdded]:
    rows = await store.read(session_log("storm"))
    assert [row.number for row in rows] == [*range(1, len(rows) + 1)]
    state = await Session("storm", store).damaged()
    assert not state
    await store.close()
    return [*_entries(row.data for row in rows)]


def _entries(rows: Iterator[bytes]) -> Iterator[MessagesAdded]:
    for data in rows:
        entry = read_session_entry(data)
        assert isinstance(entry, MessagesAdded)
        yield entry


def _in_order(entries: Sequence[MessagesAdded]) -> int:
    """Return the number of messages of a run, or -1 if they are out of order."""
    length = 0
    for entry in entries:
        if entry.start != length:
            return -1
        length += len(entry.messages)
    return length


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--write", type=int)
    parser.add_argument("--sleep", action="store_true")
    given = parser.parse_args()
    if given.write:
        asyncio.run(write(given.url, given.write))
    elif given.sleep:
        asyncio.run(sleeper(given.url))
    else:
        url = schema() if given.url == "postgres" else given.url  # on a server of our own
        found = storm(url, given.processes, given.steps)
        print(found)
        sys.exit(1 if found.faults else 0)


if __name__ == "__main__":
    main()

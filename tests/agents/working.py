"""A storm over workers: processes that drive submitted runs are killed, paused and drained, and every run ends once.

``python -m tests.agents.working URL --runs 1000`` is the long form; a short one is in `test_workers`.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.agents.recovering import agent_of
from tests.stores.server import PostgresServer
from ziggurat import Agent, ConfigurationError, Deny
from ziggurat.agents import Decision, Happened
from ziggurat.errors import AlreadyDecided, LeaseHeld
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Ended

LEASE = 1.0
"""Seconds after which the run of a paused process may be taken; short, so that a pause need not be long."""

_PATIENCE = 120.0
"""Seconds without progress after which the storm gives up."""


async def work(url: str, ledger: str) -> None:
    """Drive what is due until SIGTERM comes."""
    agent = agent_of(url, Path(ledger), hangs=False)
    worker = agent.worker(concurrency=5, attempts=1_000, grace=0.05)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
    print("ready", flush=True)
    try:
        await worker.run()
    finally:
        await agent.store.close()


@dataclass
class Outcome:
    """What came of a storm."""

    completed: int = 0
    ended_more_than_once: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    acts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    exit_codes: Counter[int] = field(default_factory=Counter)


class Storm:
    """Workers that drive the runs of a store, and what happens to them.

    Args:
        url: The address of the store.
        folder: For the ledger of effects.
        workers: How many processes work at the same time.
        acts: What is done to one of them, after equal shares of the runs: ``kill``, ``pause`` for longer than the
            lease, ``drain``. The runs of the next share are submitted after that.
        seed: Of which worker it is done to.
    """

    def __init__(self, url: str, folder: Path, workers: int, acts: list[str], seed: int = 0) -> None:
        self.url = url
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.outcome = Outcome()
        self._acts = acts
        self._chance = random.Random(seed)
        self._processes = [self._start() for _ in range(workers)]
        self._paused: list[subprocess.Popen[str]] = []

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.agents.working", self.url, "--ledger", str(self.ledger)]
        return subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL)

    def _effects(self) -> list[str]:
        return self.ledger.read_text().split("\n")[:-1]

    async def rage(self, runs: int) -> Outcome:
        """Submit runs, and wait until all have ended, whatever happens to the workers."""
        agent = agent_of(self.url, self.ledger, hangs=False)
        began = progressed = time.monotonic()
        shares = len(self._acts) + 1
        submitted = 0
        try:
            while (ended := len(await agent.store.logs("run:", status="Completed", limit=runs))) < runs:
                wanted = runs * (shares - len(self._acts)) // shares
                await asyncio.gather(*(agent.submit("go", run_id=f"r-{number}") for number in range(submitted, wanted)))
                submitted = wanted
                if self._acts and ended >= wanted - runs // shares // 2:
                    await self._act()
                if ended > self.outcome.completed:
                    self.outcome.completed, progressed = ended, time.monotonic()
                assert time.monotonic() < progressed + _PATIENCE, f"{ended} of {runs} ended, {self.outcome}"
                await self._decide(agent)
                await asyncio.sleep(0.02)
            self.outcome.seconds = time.monotonic() - began
            await self._judge(agent, runs)
        finally:
            await agent.store.close()
            self.end()
        return self.outcome

    async def _act(self) -> None:
        """Do what is next to one of the workers; nothing yet if all are paused."""
        able = [process for process in self._processes if process not in self._paused]
        if not able:
            return
        process, what = self._chance.choice(able), self._acts.pop(0)
        self.outcome.acts[what] += 1
        if what == "pause":
            process.send_signal(signal.SIGSTOP)
            self._paused.append(process)  # it may hold a lock that this process waits for, so a timer continues it
            asyncio.get_running_loop().call_later(2 * LEASE, self._continue, process)
            return
        process.send_signal(signal.SIGKILL if what == "kill" else signal.SIGTERM)
        self.outcome.exit_codes[await asyncio.to_thread(process.wait, 30)] += 1
        self._processes[self._processes.index(process)] = self._start()

    def _continue(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGCONT)
        self._paused.remove(process)

    async def _decide(self, agent: Agent) -> None:
        """Say of a call that was interrupted that it took effect; of one that may still do so, that it is denied."""
        effects = set(self._effects())
        for run_id, items in (await agent.pending()).items():
            decisions: dict[str, Decision] = {
                item.id: Happened("it did") if f"{item.call.name} {run_id}" in effects else Deny("nobody knows")
                for item in items
            }
            try:
                await agent.attach(run_id).decide(decisions)
            except (LeaseHeld, AlreadyDecided, ConfigurationError):  # a worker has it, or it waits no longer
                continue

    async def _judge(self, agent: Agent, runs: int) -> None:
        self.outcome.completed = runs
        counts = Counter(effect for effect in self._effects() if not effect.startswith("waiting"))
        self.outcome.doubled = [effect for effect, count in counts.items() if count > 1]
        for number in range(runs):
            entries = LocalJournal.load(await agent.record(f"r-{number}")).entries
            if sum(isinstance(entry, Ended) and entry.stop == "Completed" for entry in entries) != 1:
                self.outcome.ended_more_than_once.append(f"r-{number}")

    def end(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def storm_acts(kills: int, pauses: int, drains: int, seed: int) -> list[str]:
    """Return what is done to workers, in a random order."""
    acts = ["kill"] * kills + ["pause"] * pauses + ["drain"] * drains
    random.Random(seed).shuffle(acts)
    return acts


def main() -> None:
    """Be a worker, or a long storm on each store."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", help="of a worker: the address of its store")
    parser.add_argument("--ledger")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    if arguments.ledger is not None:
        asyncio.run(work(arguments.url, arguments.ledger))
        return
    for kind in ("sqlite", "postgres"):
        for workers in (2, 5):
            with tempfile.TemporaryDirectory() as folder:
                place, server = Path(folder), PostgresServer() if kind == "postgres" else None
                url = server.url if server is not None else address(kind, place)
                acts = storm_acts(12, 6, 12, arguments.seed)
                storm = Storm(with_lease(url), place, workers, acts, arguments.seed)
                outcome = asyncio.run(storm.rage(arguments.runs))
                print(f"{kind}, {workers} workers, seed {arguments.seed}: {outcome}", flush=True)
                if server is not None:
                    server.remove()
                assert not outcome.ended_more_than_once
                assert not outcome.doubled


def address(kind: str, folder: Path) -> str:
    """Return the address of a store in a folder."""
    return f"sqlite:///{folder}/runs.db?synchronous=NORMAL" if kind == "sqlite" else f"file://{folder}/runs"


def with_lease(url: str) -> str:
    """Return the address with a short lease."""
    return f"{url}{'&' if '?' in url else '?'}lease={LEASE}"


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()

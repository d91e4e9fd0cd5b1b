"""Kill processes that run agents, at named points and at random moments, and see that nothing is lost.

A process stays warm and forks one child per life of a run; a life ends by its own hand at a point, by the parent's at
a random moment, or with the run. The next life continues with what the store holds.
"""

import asyncio
import json
import os
import random
import select
import signal
import sqlite3
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.flow_world import FlowWorld, TimedFlowWorld
from tests.faults.graph_world import GraphWorld
from tests.faults.plan_world import PlanWorld
from tests.faults.team_world import TeamWorld
from tests.faults.world import DieAt, Ledger, Reached, Verdict, World, finish, nowhere
from ziggurat import ModelResponse, ToolResult
from ziggurat.agents import Environment
from ziggurat.core.codec import as_type
from ziggurat.core.path import is_tool_call
from ziggurat.journal import Store
from ziggurat.journal.entries import Result
from ziggurat.journal.store import run_log
from ziggurat.messages import stops
from ziggurat.plans.causes import Update
from ziggurat.runs.stored import StoredRuns
from ziggurat.stores import FileStore, SqliteStore

Opens = Callable[[], Store]
"""Opens a store as each process opens it."""

WORLDS: dict[str, type[World]] = {
    "agent": World,
    "flow": FlowWorld,
    "timed": TimedFlowWorld,
    "graph": GraphWorld,
    "plan": PlanWorld,
    "team": TeamWorld,
}
"""What is killed, by name; time passes by hand in a flow, and by itself in a timed one."""

PATIENCE = 60.0
"""Seconds after which a life that has not ended is stuck."""

LIVES = 25
"""After so many lives a run is let go to its end."""


@dataclass
class Tally:
    """What a storm has done and found."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def faults(self) -> int:
        return sum(self.kills.values())

    def add(self, other: "Tally") -> None:
        self.kills.update(other.kills)
        self.runs += other.runs
        self.verdict.add(other.verdict)


def forked(work: Callable[[], object]) -> int:
    """Do something in a child process and return its id; the child ends with code 0 if nothing was raised."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(pid: int, seconds: float) -> bool:
    """Wait for a child at most so long; return whether it has ended."""
    watched = os.pidfd_open(pid)
    try:
        return bool(select.select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)


def answer_of(work: Callable[[], object]) -> Any:
    """Return what a child process answers, as JSON."""
    read, write = os.pipe()

    def child() -> None:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(work(), pipe)

    pid = forked(child)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else None


def live(opens: Opens, makes: type[World], run_id: str, ledger: Path, reached: Reached) -> None:
    """One life of a run: continue it to its end, unless something comes between."""

    async def main() -> None:
        store = opens()
        world = makes(Ledger(ledger), reached)
        run = await finish(world, world.agent(store), run_id, Environment(probe=reached))
        assert run.stop == stops.Completed(), run.stop
        await store.close()

    asyncio.run(main())


def examine(opens: Opens, makes: type[World], run_id: str, ledger: Path) -> dict[str, list[str]]:
    """Look at a run that has ended: its record, its lease, its ledger."""
    verdict = Verdict()

    async def main() -> None:
        store = opens()
        world = makes(Ledger(ledger))
        run = await world.agent(store).resume(run_id)
        if run.text != "done":
            verdict.lost.append(f"{run_id} ended with {run.stop}")
        info = await store.find(run_log(run_id))
        if info is None or info.owner:
            verdict.leaked.append(f"the lease of {run_id}: {info}")
        journal = await StoredRuns(store).read(run_id)  # which checks the chain
        world.judge(journal.entries, said_in(journal.entries), verdict)
        await store.close()

    asyncio.run(main())
    return asdict(verdict)


def said_in(entries: list[Any]) -> dict[str, str]:
    """Return what each call on record answered, by path."""
    said: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, Result):
            raw = bytes(memoryview(entry.value))  # type: ignore[arg-type]  # read from a store: raw JSON
            if raw.startswith(b'"'):  # of a step
                said[entry.path] = as_type(entry.value, str)
            elif raw.startswith(b'{"changes"'):  # of a node of a graph
                changes = as_type(entry.value, Update).changes
                said[entry.path] = "".join(changes[0].get("notes", ())) if len(changes) == 1 else ""  # of one call
            elif b'"finish"' in raw[:1000] or b'"message"' in raw[:20]:
                said[entry.path] = as_type(entry.value, ModelResponse).message.text
            elif b'"messages"' not in raw and raw.startswith(b"{") and is_tool_call(entry.path):
                said[entry.path] = as_type(entry.value, ToolResult).text
    return said


class Storm:
    """Kills lives of runs, one after another."""

    def __init__(self, opens: Opens, makes: type[World], folder: Path, seed: int, name: str, chance: float) -> None:
        self.opens = opens
        self.makes = makes
        self.folder = folder
        self.name = name
        self.tally = Tally()
        self._chance = chance
        self._draw = random.Random(f"{seed} {name}")
        self._points: list[str] = []
        self._length = 0.2

    def rage(self, kills: int) -> Tally:
        """Kill until it was done so often, and the run that is underway has ended."""
        self._measure()
        while self.tally.faults < kills:
            self._run(kills)
        return self.tally

    def _measure(self) -> None:
        """Find out how long an untroubled run takes."""
        began = time.monotonic()
        if (outcome := self._live(f"{self.name}-calm", None)) != "ended":
            self.tally.verdict.stuck.append(f"a run that nobody troubled: {outcome}")
        self._length = time.monotonic() - began

    def _run(self, kills: int) -> None:
        run_id = f"{self.name}-{self.tally.runs}"
        lives: Counter[str] = Counter()
        for number in range(LIVES):
            troubled = number < LIVES - 1 and self.tally.faults + sum(lives.values()) < kills
            fault = self._next_fault() if troubled else None
            outcome = self._live(run_id, fault)
            if outcome == "ended":
                break
            if outcome != "killed" or fault is None:
                self.tally.verdict.stuck.append(f"{run_id}: {outcome}")
                break
            lives[fault[0]] += 1
        self.tally.runs += 1
        self.tally.kills.update(lives)
        found = answer_of(lambda: examine(self.opens, self.makes, run_id, self._ledger(run_id)))
        self.tally.verdict.add(Verdict(**found) if found else Verdict(stuck=[f"{run_id} cannot be examined"]))

    def _next_fault(self) -> tuple[str, float]:
        """Draw where the next life ends: at each point in turn for the n-th time, or after so many seconds."""
        if self._draw.random() < self._chance:
            return "random", self._draw.uniform(0, self._length / 2)
        if not self._points:
            self._points = self._draw.sample(self.makes.points, len(self.makes.points))
        point = self._points.pop()
        rare = point.endswith(("wait", "decision", "end"))
        return point, 1 if rare else self._draw.randint(1, 8)

    def _ledger(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.ledger"

    def _live(self, run_id: str, fault: tuple[str, float] | None) -> str:
        reached: Reached = nowhere
        if fault is not None and fault[0] != "random":
            reached = DieAt(fault[0], int(fault[1]))
        pid = forked(lambda: live(self.opens, self.makes, run_id, self._ledger(run_id), reached))
        if fault is not None and fault[0] == "random" and not ended(pid, fault[1]):
            os.kill(pid, signal.SIGKILL)
        if not ended(pid, PATIENCE):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return f"did not end within {PATIENCE:g} s"
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return "killed"
        code = os.waitstatus_to_exitcode(status)
        return "ended" if code == 0 else f"ended with code {code}"


def storm(opens: Opens, makes: type[World], folder: Path, seed: int, kills: int, workers: int, chance: float) -> Tally:
    """Have several storms rage at once over one store, and return what they have done together."""
    pipes: list[tuple[int, int]] = []
    for worker in range(workers):
        read, write = os.pipe()
        share = kills // workers + (worker < kills % workers)

        def child(name: str = f"w{worker}", share: int = share, write: int = write) -> None:
            tally = Storm(opens, makes, folder, seed, name, chance).rage(share)
            with os.fdopen(write, "w") as pipe:
                json.dump([tally.kills, tally.runs, asdict(tally.verdict)], pipe)

        pipes.append((forked(child), read))
        os.close(write)
    whole = Tally()
    for pid, read in pipes:
        with os.fdopen(read) as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
        if text:
            killed, runs, verdict = json.loads(text)
            whole.add(Tally(Counter(killed), runs, Verdict(**verdict)))
        else:
            whole.verdict.stuck.append("a worker of the storm ended without a word")
    whole.verdict.add(Verdict(**answer_of(lambda: left_behind(opens))))
    return whole


def left_behind(opens: Opens) -> dict[str, list[str]]:
    """Look at a store after all runs: whether it is sound, and what the dead have left in it."""
    verdict = Verdict()

    async def main() -> None:
        store = opens()
        for info in await store.logs("run:", limit=1_000_000):
            if info.owner or info.status != "Completed":
                verdict.leaked.append(f"{info.log} is {info.status}, held by {info.owner or 'nobody'}")
        if isinstance(store, SqliteStore):
            with closing(sqlite3.connect(store.path)) as connection:
                (said,) = connection.execute("PRAGMA integrity_check").fetchone()
            if said != "ok":
                verdict.lost.append(f"integrity_check: {said}")
        if isinstance(store, FileStore):  # an hour later; a younger log that is being created may be somebody's
            for left in (store.path / "logs").glob(".new-*"):
                os.utime(left, (time.time() - 3600, time.time() - 3600))
        await store.vacuum(time.time() + 1)
        verdict.leaked.extend(f"after vacuum there is {info.log}" for info in await store.logs())
        if isinstance(store, FileStore):
            verdict.leaked.extend(f"after vacuum there is {path}" for path in (store.path / "logs").iterdir())
        await store.close()

    asyncio.run(main())
    return asdict(verdict)

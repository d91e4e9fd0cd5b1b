"""Workers that are killed and paused while others send, decide and schedule: every pair of what waits and who acts.

``python -m tests.faults.crowd --kills 200`` is the long form. A process stays warm and forks the workers, which have
wrong clocks and stores that fail; another one submits runs, sends events, and decides as two people at once.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults.storm import ended, forked
from tests.faults.world import QUICK, Ledger, Turns, Verdict, helper_calls
from tests.stores.server import schema
from ziggurat import Agent, Context, Runnable, tool
from ziggurat.agents import Answer, Decision, Deny, Environment, Happened
from ziggurat.core.clock import SystemClock
from ziggurat.errors import AlreadyDecided, CallerError, Denied, LeaseHeld, NotRepeatable, StoreError
from ziggurat.flows import ask, event, every, first, flow, gather, quorum, schedule, sleep, step
from ziggurat.journal import Store
from ziggurat.journal.entries import Opened
from ziggurat.messages import ToolCall, tool_call
from ziggurat.runs.stored import StoredRuns
from ziggurat.stores import connect
from ziggurat.teams import background

NAMES = ("a", "b", "c")
KINDS = ("first", "quorum", "gather", "timer", "team")
LEASE = 1.5

LATE = 10.0
"""Seconds after which an answer to the last that was posted is late, with what was killed and paused meanwhile.

A run whose worker was lost is claimed again `LEASE` and a second later, if there is room: three losses take 7.5 s.
"""

PATIENCE = 60.0
"""Seconds after the last kill within which all must have ended."""


@dataclass
class Found(Verdict):
    """What is wrong, and how many were told yes of a decision that another part of its group had made useless."""

    late: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Skewed(SystemClock):
    """A clock that is set back and forward."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._offset = 0.0

    def now(self) -> float:
        if self._draw.random() < 0.02:
            self._offset = self._draw.uniform(-1.5, 1.5)
        return super().now() + self._offset


def flaky(store: Store, draw: random.Random, chance: float) -> Store:
    """Have a store fail now and then before it does what work is begun with."""

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        async def called(*arguments: Any, **more: Any) -> Any:
            if draw.random() < chance:
                raise StoreError("a test has it fail")
            answer = await call(*arguments, **more)
            if call.__name__ == "claim" and answer:
                logging.info("claimed %s", " ".join(f"{each.log[4:]}{'!' * each.lost}" for each in answer))
            return answer

        return called

    for name in ("claim", "create", "find"):
        setattr(store, name, failing(getattr(store, name)))
    return store


def runnables(store: Store, ledger: Ledger) -> dict[str, Runnable[Any]]:
    """Return the flow, the team and what is scheduled, as each process makes them."""

    def act(ctx: Context, name: str) -> str:
        ledger.write(effect=name, run=ctx.run_id, path=ctx.path, key=ctx.idempotency_key)
        return f"{name} at {ctx.path}"

    @step(context=True)
    async def note(ctx: Context, place: str) -> str:
        return act(ctx, "note")

    @step(context=True, effect="once")
    async def pay(ctx: Context, place: str) -> str:
        return act(ctx, "pay")

    async def paid(place: str) -> None:
        with suppress(NotRepeatable, Denied):
            await pay(place)

    async def take(name: str) -> tuple[str, int]:
        await note(name)
        return name, await event(name, int)

    async def answer(name: str) -> tuple[str, int]:
        return name, await ask(f"{name}?", int)

    async def waits(kind: str) -> list[Any]:
        if kind == "first":
            return [await first(take("a"), take("b"), take("c"), answer("q"))]
        if kind == "quorum":
            return [each for each in await quorum(2, take("a"), answer("q"), take("b"), take("c")) if each is not None]
        if kind == "gather":
            return [*await gather(take("a"), answer("q"), take("b"), answer("r"))]
        await sleep(seconds=0.3)
        late = await event("never", int, timeout=0.2, default=-1)
        return [("never", late), *await gather(take("a"), answer("q"))]

    @flow(name="crowd", store=store)
    async def crowd(kind: str) -> str:
        await paid("begin")
        taken = dict(await waits(kind))
        for name in NAMES:  # what lost is there
            if name not in taken:
                taken[name] = await event(name, int)
        await paid("end")
        return json.dumps(taken)

    @flow(name="tick", store=store)
    async def tick(time: str) -> str:
        await paid(time)
        return time

    @tool(name="note")
    async def note_tool(number: int, ctx: Context) -> str:
        """Write down."""
        return act(ctx, "note")

    @tool(name="pay", effect="once")
    async def pay_tool(number: int, ctx: Context) -> str:
        """Pay."""
        return act(ctx, "pay")

    def leads(turn: int, asked: str) -> list[ToolCall]:
        if turn == 1:
            return [tool_call(f"start_{name}", id=name, task=f"part {at}") for at, name in enumerate(("ann", "ben"))]
        return [tool_call("join_members", id="join")]

    members = [Agent(Turns("m", 3, helper_calls), name=name, tools=[note_tool, pay_tool]) for name in ("ann", "ben")]
    leader = Agent(Turns("leader", 3, leads), name="leader")
    team = background(leader, *members, name="team", store=store)
    return {"crowd": crowd, "tick": tick, "team": team}


def work(url: str, ledger: Path, seed: int, chance: float) -> None:
    """Be a worker until this process is killed."""

    async def main() -> None:
        draw = random.Random(seed)
        store = flaky(connect(url), draw, chance)
        environment = Environment(clock=Skewed(draw)) if draw.random() < 0.5 else Environment()
        made = runnables(store, Ledger(ledger))
        ticks = schedule(made["tick"], every(seconds=1), input=lambda at: f"{at:%H:%M:%S}", catch_up=120.0)
        options: dict[str, Any] = {"concurrency": 5, "attempts": 1_000, "environment": environment}
        await store.logs("run:", limit=1)
        (ledger.parent / f"ready-{os.getpid()}").touch()
        await asyncio.gather(
            made["tick"].worker(schedules=[ticks], **options).run(),
            made["crowd"].worker(**options).run(),
            made["team"].worker(**options).run(),
        )

    form = "%(created).2f %(process)d %(levelname)s %(message)s"
    logging.basicConfig(filename=ledger.parent / "log", format=form, level=logging.INFO)
    asyncio.run(main())


class Outside:
    """Who submits, sends and decides, until the workers are left alone, and then waits for all to end."""

    def __init__(self, url: str, folder: Path, seed: int, runs: int) -> None:
        self.folder = folder
        self.draw = random.Random(seed)
        self.runs = runs
        self.ledger = Ledger(folder / "ledger")
        self.stores = [connect(url) for _ in range(2)]
        self.people = [runnables(store, self.ledger) for store in self.stores]
        self.told: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.posted: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.found = Found()
        self.began = self.until = time.time()

    async def rage(self) -> Found:
        """Do all that, and judge."""
        calm, number, tasks = self.folder / "calm", 0, set[asyncio.Task[None]]()
        deadline = float("inf")
        while time.time() < deadline:
            open_runs = number - len(self.ended)
            if not calm.exists() and open_runs < self.runs:
                tasks.add(asyncio.create_task(self._submit(number)))
                number += 1
            if calm.exists() and deadline == float("inf"):
                deadline = time.time() + PATIENCE
                self.until = time.time() - 5.0
            await self._decide()
            await self._look()
            if calm.exists() and number == len(self.ended) and not await self._missing_ticks():
                break
            await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(error, Exception):
                self.found.wrong.append(f"outside: {error!r}")
        self.found.stuck += [f"r-{each} has not ended" for each in range(number) if f"r-{each}" not in self.ended]
        await self._judge(number)
        for store in self.stores:
            await store.close()
        return self.found

    async def _submit(self, number: int) -> None:
        kind, run_id = KINDS[number % len(KINDS)], f"r-{number}"
        made = self.draw.choice(self.people)
        await made["team" if kind == "team" else "crowd"].submit(kind, run_id=run_id, labels={"kind": kind})
        self.posted[run_id] = time.time()
        if kind == "team":
            return
        for value, name in enumerate(self.draw.sample(NAMES, len(NAMES))):
            await asyncio.sleep(self.draw.random() * 0.3)
            new = await self.draw.choice(self.people)["crowd"].attach(run_id).send(name, 10 * number + value, key=name)
            self.ledger.write(sent=name, run=run_id, value=10 * number + value, new=new)
            self.posted[run_id] = time.time()

    async def _decide(self) -> None:
        """Decide on all that waits, as two people at the same moment, who say different things."""
        effects = {(line["run"], line["path"]) for line in self.ledger.lines() if line.get("effect") == "pay"}
        for name in ("crowd", "tick", "team"):
            for run_id, items in (await self.people[0][name].pending()).items():
                for item in items:
                    if not item.needs_decision:
                        continue
                    if item.interrupted:
                        sure: Decision = Happened("it did") if (run_id, item.path) in effects else Deny("unknown")
                        with suppress(LeaseHeld, CallerError):
                            await self.people[0][name].attach(run_id).decide({item.id: sure})
                        self.posted[run_id] = time.time()
                        continue
                    if self.draw.random() < 0.7:
                        continue  # later
                    values = self.draw.sample(range(1000), 2)
                    answers = await asyncio.gather(
                        *(
                            self._say(who[name], run_id, item.id, value)
                            for who, value in zip(self.people, values, strict=True)
                        )
                    )
                    self.told[run_id, item.path] |= {value for value in answers if value is not None}
                    self.posted[run_id] = time.time()

    async def _say(self, who: Runnable[Any], run_id: str, item_id: str, value: int) -> int | None:
        await asyncio.sleep(self.draw.random() * 0.003)
        try:
            await who.attach(run_id).decide({item_id: Answer(value)})
        except (AlreadyDecided, LeaseHeld, CallerError):  # the other was quicker, or it waits no longer
            return None
        return value

    async def _look(self) -> None:
        for info in await self.stores[0].logs("run:r-", status="Completed", limit=1_000_000):
            if info.id not in self.ended:
                self.ended[info.id] = info.updated

    async def _judge(self, number: int) -> None:
        lines, found = self.ledger.lines(), self.found
        once = Counter((line["run"], line["path"]) for line in lines if line.get("effect") == "pay")
        found.doubled += [f"{run} at {path}: {count} times" for (run, path), count in once.items() if count > 1]
        sent = {(line["run"], line["sent"]): line["value"] for line in lines if "sent" in line}
        both = [f"{at}: {sorted(values)}" for at, values in self.told.items() if len(values) > 1]
        found.wrong += [f"both were told yes: {each}" for each in both]
        for each in range(number):
            run_id, kind = f"r-{each}", KINDS[each % len(KINDS)]
            if run_id not in self.ended:
                continue
            status = await self.people[1]["team" if kind == "team" else "crowd"].attach(run_id).result()
            if kind == "team":
                if status.text != "done":
                    found.lost.append(f"{run_id}: {status.stop}")
                continue
            taken = json.loads(status.text)
            for name in NAMES:
                if taken.get(name) != sent[run_id, name]:
                    found.lost.append(f"{run_id} {kind}: {name} is {taken.get(name)}, sent was {sent[run_id, name]}")
            for name in {"q", "r"} & taken.keys():
                said = {value for (run, path), values in self.told.items() if run == run_id for value in values}
                if taken[name] not in said:
                    found.wrong.append(f"{run_id} {kind}: {name} is {taken[name]}, yes was said of {said}")
            if taken.get("never", -1) != -1:
                found.wrong.append(f"{run_id}: an event that nobody sent: {taken}")
            if (late := self.ended[run_id] - self.posted[run_id]) > LATE:
                found.late.append(f"{run_id} {kind} {late:.1f} s\n{await self._story(run_id)}")
        found.lost += [f"{each} has not ended" for each in await self._missing_ticks()]
        kinds = Counter(KINDS[each % len(KINDS)] for each in range(number))
        waited = sorted(self.ended[run_id] - self.posted[run_id] for run_id in self.ended)
        slowest = f"{waited[-1]:.2f}" if waited else "none"
        print(f"  {dict(kinds)}, {len(self.told)} questions that two answered, at most {slowest} s behind", flush=True)

    async def _story(self, run_id: str) -> str:
        """Return what is on record of a late run with times, and what the workers have said of it."""
        lines = [f"{self.posted[run_id]:.2f} the last was posted", f"{self.ended[run_id]:.2f} it has ended"]
        for entry in (await StoredRuns(self.stores[0]).read(run_id)).entries:
            at = f"{entry.at:.2f}" if isinstance(entry, Opened) else "             "
            lines.append(f"{at} {entry.kind} {entry.path} {getattr(entry, 'until', None) or getattr(entry, 'due', '')}")
        return "\n".join(f"      {line:.200}" for line in (*lines, *self._said(run_id)))

    def _said(self, run_id: str) -> list[str]:
        """Return what the workers have said of a run since the last was posted to it."""
        lines = [line for line in (self.folder / "log").read_text().splitlines() if line[:1].isdigit()]
        fitting = [line for line in lines if re.search(rf"\b{run_id}\b", line)]
        return [line for line in fitting if float(line.split()[0]) > self.posted[run_id]]

    async def _missing_ticks(self) -> list[str]:
        """Return the runs of the schedule that are not there, or have not ended, of all seconds but the first."""
        infos = await self.stores[0].logs("run:tick-", status="Completed", limit=1_000_000)
        times = (datetime.fromtimestamp(each, UTC) for each in range(int(self.began) + 5, int(self.until)))
        ended = {info.id for info in infos}
        return [run_id for run_id in (f"tick-{each:%Y%m%dT%H%M%SZ}" for each in times) if run_id not in ended]


def storm(url: str, folder: Path, seed: int, kills: int, pauses: int, workers: int, chance: float) -> tuple[int, Found]:
    """Kill and pause workers so often, and return how often that was and what was found."""
    draw, done, stopped = random.Random(seed), 0, list[tuple[float, int]]()
    seen, hasty = 0, False

    def outside() -> None:
        found = asyncio.run(Outside(url, folder, seed, 12).rage())
        (folder / "found").write_text(json.dumps(asdict(found)))

    Ledger(folder / "ledger").close()
    watcher = forked(outside)
    acts = draw.sample(["kill"] * kills + ["pause"] * pauses, kills + pauses)
    here = [forked(lambda: work(url, folder / "ledger", draw.getrandbits(32), chance)) for _ in range(workers)]
    while not ended(watcher, draw.uniform(0.05, 0.8)):
        for at, pid in [each for each in stopped if each[0] < time.time()]:
            os.kill(pid, signal.SIGCONT)
            stopped.remove((at, pid))
        for place, pid in enumerate(here):
            if ended(pid, 0.0):
                print("a worker ended by itself", os.waitpid(pid, 0), flush=True)
                here[place] = forked(lambda: work(url, folder / "ledger", draw.getrandbits(32), chance))
        place = draw.randrange(workers)
        # Most come after some work, and few before one is ready, or nothing would ever be done on a slow machine.
        effects = (folder / "ledger").read_bytes().count(b'"effect"')
        ready = hasty or (effects > seen and (folder / f"ready-{here[place]}").exists())
        if not acts or not ready or here[place] in [pid for _, pid in stopped]:
            (folder / "calm").touch() if not acts else None
            continue
        done, seen, hasty = done + 1, effects, draw.random() < 0.1
        act = acts.pop()
        with (folder / "log").open("a") as log:
            log.write(f"{time.time():.2f} {here[place]} INFO {act}\n")
        if act == "pause":
            os.kill(here[place], signal.SIGSTOP)
            stopped.append((time.time() + 2.5, here[place]))
            continue
        os.kill(here[place], signal.SIGKILL)
        os.waitpid(here[place], 0)
        here[place] = forked(lambda: work(url, folder / "ledger", draw.getrandbits(32), chance))
    os.waitpid(watcher, 0)
    for pid in here:
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    text = (folder / "found").read_text() if (folder / "found").exists() else None
    return done, Found(**json.loads(text)) if text else Found(stuck=["who was outside ended without a word"])


def main() -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.crowd", description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pauses", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chance", type=float, default=0.02, help="of a store that fails")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=QUICK))
    url = f"{schema()}&" if options.store == "postgres" else f"sqlite:///{folder}/runs.db?"
    began = time.monotonic()
    try:
        done, found = storm(
            f"{url}lease={LEASE}", folder, options.seed, options.kills, options.pauses, options.workers, options.chance
        )
    finally:
        shutil.rmtree(folder)
    figures = " ".join(f"{name} {len(items)}" for name, items in asdict(found).items())
    print(f"crowd on {options.store}: faults {done} {figures} seed {options.seed} {time.monotonic() - began:.1f} s")
    for name, items in asdict(found).items():
        for item in items[:10]:
            print(f"  {name}: {item}")
    return 1 if any(asdict(found).values()) else 0


if __name__ == "__main__":
    sys.exit(main())

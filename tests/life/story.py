"""One random story: thirty actions on a few runs, each checked against the specification.

Run one by hand with ``python -m tests.life.story SEED [--place sqlite]``, many with ``make life``.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.life.specification import ASKED, Life
from tests.life.world import CHANGED, PER_CALL, Call, Plan, Process, World, decision, inner_calls, number_of, numbers
from tests.stores.mortal import MortalStore
from ziggurat import AgentRun, Approve, ConfigurationError, Usage
from ziggurat.errors import AlreadyDecided, LeaseHeld, RunExists, StoreError
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Failure, Unanswered
from ziggurat.journal.store import run_log
from ziggurat.messages import ValidationPolicy, validate
from ziggurat.messages.stops import status_of
from ziggurat.messages.usage import as_usage
from ziggurat.stores import FileStore, InMemoryStore, SqliteStore
from ziggurat.testing import HandClock

PLACES = ("rows", "sqlite", "file")
LEASE = 30.0


class Story:
    """Random actions on a place, and what must hold after each."""

    def __init__(self, seed: int, place: str, folder: Path) -> None:
        self.random = random.Random(seed)
        self.place, self.folder = place, folder
        self.clock = HandClock()
        self.rows = InMemoryStore(clock=self.clock, lease=LEASE)
        self.world = World()
        self.lives: dict[str, Life] = {}
        self.last: dict[str, AgentRun] = {}
        self.numbers = 0
        self.log: list[str] = []
        self.opened: list[MortalStore] = []

    def process(self, lives: int | None = None, **options: Any) -> Process:
        """Start a process; it dies at its append number `lives`."""
        store: Any
        if self.place == "rows":
            store = InMemoryStore(clock=self.clock, lease=LEASE, shared=self.rows)
        elif self.place == "sqlite":
            store = SqliteStore(self.folder / "runs.db", synchronous="NORMAL", clock=self.clock, lease=LEASE)
        else:
            store = FileStore(self.folder / "runs", clock=self.clock)
        mortal = MortalStore(store, lives)
        self.opened.append(mortal)
        return Process(self.world, mortal, **options)

    async def end(self, process: Process) -> None:
        """End a process; what it leased lapses if it died."""
        if self.place != "rows" or not process.store.dead:
            await process.store.inner.close()
        if process.store.dead:
            await self.clock.advance(LEASE + 1)

    def ask(self, process: Process, run_id: str) -> Any:
        """Ask for a run by its id, with its own request and session."""
        life = self.lives[run_id]
        options: dict[str, Any] = {"session": life.session} if life.session else {}
        return process.agent.run(life.plan.prompt(), run_id=run_id, **options)

    def new(self, session: str = "", first: tuple[Call, ...] = ()) -> str:
        """Add a run to the specification, perhaps in a session and with given first calls, and return its id."""
        run_id, plan = f"r{len(self.lives)}", self.plan()
        if first:
            plan = Plan(plan.name, (first, *plan.steps))
        self.lives[run_id] = Life(plan, session=session)
        return run_id

    def plan(self) -> Plan:
        steps: list[tuple[Call, ...]] = []
        for _ in range(self.random.randint(0, 4)):
            names = self.random.choices([*_TOOLS], [*_TOOLS.values()], k=self.random.randint(1, 3))
            nested = [name for name in names if inner_calls(name, 1)]
            if len(nested) > 1:
                names = [nested[0], "look"]
            batch = []
            for name in names:
                self.numbers += 1
                batch.append((name, self.numbers))
            steps.append(tuple(batch))
        return Plan(f"plan-{len(self.lives)}", tuple(steps))

    async def check(self, run_id: str, run: AgentRun, process: Process) -> None:
        """Compare a run as it was answered with the specification, the ledger and its own replay."""
        life = self.lives[run_id]
        allowed = None if process.requests is None else process.requests - self.failed(life, process.counted)
        expected = life.outcome(process.breaks_at, allowed)
        life.turns, life.model_calls = expected.turns, expected.model_calls
        journal = LocalJournal.load(await process.agent.record(run_id))
        lost = [as_usage(cost) or Usage() for e in journal.entries if isinstance(e, Unanswered) for cost in e.spent]
        life.lost = len(lost)
        failed = [each for each in journal.entries if isinstance(each, Failure) and each.spent]
        life.failed = len(failed)
        reserved = [as_usage(cost) or Usage() for each in failed for cost in each.spent]
        life.failed_output = sum(usage.output or 0 for usage in reserved)
        lost += reserved
        if life.stop == "Cancelled":
            life.turns = None
            assert status_of(run.stop) in ("Cancelled", expected.stop)
        else:
            assert status_of(run.stop) == expected.stop, f"{run.stop} {run.error}, expected {expected}"
            waiting = sorted(item.call.arguments for item in run.pending)
            assert waiting == sorted(f'{{"n":{n}}}' for _, n in expected.waiting), f"{waiting}, expected {expected}"
            if expected.stop == "Completed":
                assert run.text == f"done after {len(life.plan.steps)}"
                tokens = PER_CALL * expected.model_calls + sum(usage.total for usage in lost)
                assert run.usage.total == tokens, f"{run.usage}, expected {expected}, besides {lost}"
        assert validate(run.messages, ValidationPolicy.sendable()) is None
        self.check_effects(run_id, run)
        self.last[run_id] = run

    def check_effects(self, run_id: str, run: AgentRun | None = None) -> None:
        """Check the ledger: what must happen once happened once, and nothing that no person approved."""
        life = self.lives[run_id]
        for name in ("pay", "wire", "lose", "doubt"):
            again = {n for run, n in self.world.denied if run == run_id and name == "doubt"}
            once = [key for key, n in self.world.effects(name, run_id) if n not in again]
            assert len(once) == len(set(once)), f"{name} was carried out twice in {run_id}"
        for name in ASKED:
            for _, n in self.world.effects(name, run_id):
                decided = life.decisions.get(n % CHANGED)
                assert decided in ("approve", "modify"), f"{name} {n} of {run_id} was never approved: {decided}"
                assert (n >= CHANGED) == (decided == "modify"), f"{name} {n} of {run_id} was decided: {decided}"
        if run is None or status_of(run.stop) != "Completed":
            return
        for step in run.trace():
            for call, result in zip(step.calls, step.results, strict=True):
                if result.error is None and call.name in ("look", "pay", "send", "wire"):
                    n = int(result.text.split()[-1])
                    assert n in self.happened(call.name, run_id), f"{result.text} never happened"

    def happened(self, name: str, run_id: str) -> set[int]:
        """Return the numbers with which a tool took effect in a run, or in the runs that it is a fork of."""
        own = {n for _, n in self.world.effects(name, run_id)}
        parent = self.lives[run_id].parent
        return own | self.happened(name, parent) if parent else own

    def choose(self, *stops: str) -> str | None:
        """Choose a run that stands in one of these ways; any run without a name."""
        fitting = [each for each, life in self.lives.items() if not stops or life.stop in stops]
        return self.random.choice(fitting) if fitting else None

    async def act(self) -> None:
        names = list(_WEIGHTS)
        name = self.random.choices(names, [_WEIGHTS[each] for each in names])[0]
        self.log.append(name)
        await getattr(self, name)()

    async def drive(self, run_id: str, process: Process, work: Any) -> None:
        """Await a run or resume, check it, and remember how the run stands; a process that died leaves it lost."""
        life = self.lives[run_id]
        try:
            run = await work
        except StoreError:
            if not process.store.dead:
                raise
            life.stop, life.turns = await self.standing(run_id, process, life.stop), None
            await self.forget_unwritten(run_id, process)
            self.check_effects(run_id)
        else:
            if process.store.dead and life.stop == "absent":
                raise AssertionError("a dead process has answered")
            life.stop = status_of(run.stop)
            await self.check(run_id, run, process)
        finally:
            await self.end(process)

    async def standing(self, run_id: str, process: Process, before: str) -> str:
        """Return how a run stands whose process died: as before, if that had not written anything yet."""
        info = await process.store.find(run_log(run_id))
        return before if info is not None and info.status == before else "lost"

    async def forget_unwritten(self, run_id: str, process: Process) -> None:
        """Take decisions out of the specification that a process died before sending; with one that was, a run goes
        on."""
        rows, items = await process.store.read(run_log(run_id)), await process.store.inbox(run_log(run_id))
        written = b"".join(row.data for row in rows if b'"Decided"' in row.data)
        sent = b"".join(item.key.encode() + item.data for item in items)
        for item in self.last[run_id].pending if run_id in self.last else ():
            if item.id.encode() in sent and item.id.encode() not in written:
                self.lives[run_id].stop = "lost"
            elif item.id.encode() not in written:
                self.lives[run_id].decisions.pop(number_of(item), None)
                self.world.denied.discard((run_id, number_of(item)))

    def options(self, life: Life) -> dict[str, Any]:
        """Draw what is wrong with the next process: nothing, a broken model, too small a budget."""
        kind = self.random.random()
        if kind > 0.3 or life.turns is None:
            return {}
        if kind < 0.15:
            return {"breaks_at": life.turns + self.random.randint(0, 2)}
        requests = max(1, life.model_calls) + self.random.randint(0, 4)
        counted = self.random.choice(["requests", "output"])
        if life.lost or not life.within_budget(requests):
            return {}
        return {"requests": requests + self.failed(life, counted), "counted": counted}

    def failed(self, life: Life, counted: str) -> int:
        """Return what failed model calls of a run count in a budget: as much as was reserved for them."""
        return life.failed if counted == "requests" else life.failed_output

    async def begin(self) -> None:
        run_id = self.new()
        process = self.process(**self.options(self.lives[run_id]))
        await self.drive(run_id, process, self.ask(process, run_id))

    async def crash(self) -> None:
        """Begin a run, or go on with one, in a process that dies."""
        run_id = self.choose("lost", "absent")
        if run_id is None or self.lives[run_id].unasked:
            run_id = self.new()
        process = self.process(lives=self.random.randint(1, 12))
        await self.drive(run_id, process, self.ask(process, run_id))

    async def run_again(self) -> None:
        """Ask for a run again by its id: an ended or waiting one is answered from its record, a lost one goes on."""
        run_id = self.choose()
        if run_id is None or self.lives[run_id].unasked:
            return
        life, asked, effects = self.lives[run_id], self.world.asked, len(self.world.ledger)
        stop, process = life.stop, self.process()
        work = self.ask(process, run_id)
        if stop in ("lost", "absent"):
            await self.drive(run_id, process, work)
            return
        run = await work
        await self.end(process)
        assert status_of(run.stop) == stop, f"{run_id} stood {stop}, now {run.stop}"
        assert (asked, effects) == (self.world.asked, len(self.world.ledger)), f"{run_id} ended {stop}, and went on"
        assert run.messages == self.last[run_id].messages, f"{run_id}: another answer than before"
        assert run.usage == self.last[run_id].usage, f"{run.usage} was {self.last[run_id].usage}"

    async def run_other(self) -> None:
        """Ask for another request under the id of a run: refused."""
        run_id = self.choose("Completed", "Suspended", "Failed", "Cancelled", "BudgetExceeded", "lost")
        if run_id is None:
            return
        process, asked = self.process(), self.world.asked
        existed = await process.store.find(run_log(run_id)) is not None
        try:
            if existed:
                await process.agent.run("plan " + self.plan().name, run_id=run_id)
        except RunExists:
            assert asked == self.world.asked
        else:
            assert not existed, f"{run_id} was run with another request"
        await self.end(process)

    async def resume(self) -> None:
        """Go on with a run, deciding some of the calls that wait, perhaps with a process that dies."""
        run_id = self.choose("Suspended", "Failed", "Cancelled", "BudgetExceeded", "Completed", "lost")
        if run_id is None:
            return
        life = self.lives[run_id]
        lives = self.random.randint(1, 12) if self.random.random() < 0.2 else None
        # a process that dies has a sound model: a failure may be on record, and the end of the run not
        process = self.process(lives, **({} if life.stop == "Completed" or lives else self.options(life)))
        if await process.store.find(run_log(run_id)) is None:
            await self.end(process)
            return
        decisions = self.decide(run_id, dies=lives is not None)
        await self.drive(run_id, process, process.agent.resume(run_id, decisions))

    def decide(self, run_id: str, *, dies: bool = False) -> dict[str, Any]:
        """Decide some of the calls that wait, and write the decisions down in the specification.

        In a process that dies, no call is run a second time: it could be interrupted a second time.
        """
        life, decisions = self.lives[run_id], {}
        pending = self.last[run_id].pending if life.stop == "Suspended" else ()
        for item in pending:
            n = number_of(item)
            verdict = self.random.choice([*(_DOUBTED if item.interrupted else _DECIDED), "later"])
            if verdict == "later" or (dies and verdict == "did not happen"):
                continue
            if item.interrupted:
                life.doubted.add(n)
            if verdict == "did not happen":
                self.world.denied.add((run_id, n))
            life.decisions[n], life.items[n] = verdict, item.id
            decisions[item.id] = decision(verdict, n)
        return decisions

    async def decide_again(self) -> None:
        """Decide again what was decided: harmless in the same way, refused in another, and nothing has changed then."""
        run_id = self.choose("Suspended", "Completed", "Failed")
        life = None if run_id is None else self.lives[run_id]
        decided = [] if life is None else [n for n in life.items if n in life.decisions]
        if run_id is None or life is None or not decided:
            return
        n = self.random.choice(decided)
        process, verdict = self.process(), self.random.choice(_DOUBTED if n in life.doubted else _DECIDED)
        if verdict == life.decisions[n]:
            await self.drive(run_id, process, process.agent.resume(run_id, {life.items[n]: decision(verdict, n)}))
            return
        before = await process.store.read(run_log(run_id))
        try:
            await process.agent.resume(run_id, {life.items[n]: decision(verdict, n)})
        except AlreadyDecided:
            assert await process.store.read(run_log(run_id)) == before, "a refused decision was recorded"
        else:
            raise AssertionError(f"{n} of {run_id} was decided {life.decisions[n]}, then {verdict}")
        await self.end(process)

    async def stream(self) -> None:
        """Stream a run to its end, or leave it at any event: it stands as its record says, and is answered so."""
        run_id, process = self.new(), self.process()
        life, left = self.lives[run_id], self.random.randint(0, 60)
        async with process.agent.stream(life.plan.prompt(), run_id=run_id, buffer=self.random.randint(1, 3)) as events:
            async for _ in events:
                left -= 1
                if left < 0:
                    break
        info = await process.store.find(run_log(run_id))
        if info is None:
            await self.end(process)
            return
        life.stop = info.status
        assert life.stop in ("Cancelled", life.outcome().stop), f"{run_id} was left, and stands {life.stop}"
        if left >= 0:
            assert events.response.stop == (await self.ask(process, run_id)).stop
        await self.drive(run_id, process, self.ask(process, run_id))

    async def turn(self) -> None:
        """Begin a run in a session: its model sees what was said and what waits, and queues no equal call again."""
        session = f"s{self.random.randint(0, 1)}"
        earlier = [each for each in self.lives.values() if each.session == session]
        suspended = [each.outcome() for each in earlier if each.stop == "Suspended"]
        waiting = [call for each in suspended for call in each.waiting]
        again = tuple(self.random.sample(waiting, 1)) if waiting and self.random.random() < 0.5 else ()
        run_id, process = self.new(session, again), self.process()
        life = self.lives[run_id]
        life.blocked = frozenset(n for _, n in again)
        await self.drive(run_id, process, self.ask(process, run_id))
        seen = self.world.seen[life.plan.name]
        prompts = [message.text for message in seen if message.role == "user"]
        for each in earlier:
            if each.stop in ("Completed", "Suspended", "Failed"):
                assert each.plan.prompt() in prompts, f"{run_id} does not know of {each.plan.name}"
        told = [result.text for message in seen for result in message.tool_results]
        shown = sum("has been asked and has not" in text for text in told)
        assert shown >= sum(each.open for each in suspended), f"{waiting} not in {told}"

    async def cancel(self) -> None:
        """Begin a run in the background and cancel it after some turns of the event loop."""
        run_id = self.new()
        life = self.lives[run_id]
        process = self.process()
        handle = process.agent.start(life.plan.prompt(), run_id=run_id)
        for _ in range(self.random.randint(0, 60)):
            await asyncio.sleep(0)
        await handle.cancel()
        run = await handle.result()
        life.stop = status_of(run.stop)
        if await process.store.find(run_log(run_id)) is None:
            life.stop = "absent"
        else:
            await self.check(run_id, run, process)
        await self.end(process)

    async def replay(self) -> None:
        """Replay a run: the same run, and nothing is called."""
        run_id = self.choose("Completed", "Suspended", "Failed", "Cancelled", "BudgetExceeded")
        if run_id is None:
            return
        process, asked, effects = self.process(), self.world.asked, len(self.world.ledger)
        run = await process.agent.replay(run_id)
        await self.end(process)
        last = self.last[run_id]
        assert (asked, effects) == (self.world.asked, len(self.world.ledger))
        assert type(run.stop) is type(last.stop), f"replayed as {run.stop}, was {last.stop}"
        assert run.messages == last.messages
        assert [item.id for item in run.pending] == [item.id for item in last.pending]

    async def fork(self) -> None:
        """Fork a run at one of its steps; the fork goes its own way, with effects of its own."""
        run_id = self.choose("Completed", "Suspended", "Failed")
        if run_id is None or not self.lives[run_id].plan.steps or not self.last[run_id].steps:
            return
        at, new_id = self.random.randint(1, self.last[run_id].steps), f"r{len(self.lives)}"
        old = self.lives[run_id]
        before = {n for step in old.plan.steps[: at - 1] for call in step for n in numbers(call)}
        self.lives[new_id] = Life(
            old.plan, {n: verdict for n, verdict in old.decisions.items() if n in before}, parent=run_id
        )
        self.lives[new_id].blocked = old.blocked & before
        self.lives[new_id].unasked = old.unasked or bool(old.session)
        process = self.process()
        await self.drive(new_id, process, process.agent.fork(run_id, at, new_id=new_id, effects="live"))

    async def change(self) -> None:
        """Go on with a suspended run as an agent with other instructions: the record wins."""
        run_id = self.choose("Suspended")
        if run_id is None:
            return
        process = self.process(instructions="Follow the plan with care.")
        await self.drive(run_id, process, process.agent.resume(run_id, self.decide(run_id)))

    async def race(self) -> None:
        """Two processes resume a run at once: one goes on, the other is told, or hears the same answer."""
        run_id = self.choose("Suspended", "Failed", "Cancelled")
        if run_id is None:
            return
        decisions = self.decide(run_id)
        first, second = self.process(), self.process()
        both = await asyncio.gather(
            first.agent.resume(run_id, decisions), second.agent.resume(run_id, decisions), return_exceptions=True
        )
        runs = [each for each in both if isinstance(each, AgentRun)]
        others = [each for each in both if not isinstance(each, (AgentRun, LeaseHeld))]
        assert runs, both
        assert not others, both
        self.lives[run_id].stop = status_of(runs[0].stop)
        for run in runs:
            await self.check(run_id, run, first)
        await self.end(first)
        await self.end(second)

    async def misuse(self) -> None:
        """Decide what does not wait, or decide it again otherwise: refused, and nothing has changed."""
        run_id = self.choose("Suspended", "Completed", "Failed")
        if run_id is None:
            return
        process = self.process()
        before = await process.store.read(run_log(run_id))
        try:
            await process.agent.resume(run_id, {"no-such-item": Approve()})
        except ConfigurationError:
            pass
        else:
            raise AssertionError("a decision on nothing was accepted")
        info = await process.store.find(run_log(run_id))
        assert await process.store.read(run_log(run_id)) == before, "a refused decision was recorded"
        assert info is not None
        assert info.status == self.lives[run_id].stop, f"{info.status}, was {self.lives[run_id].stop}"
        await self.end(process)


_TOOLS = {
    "look": 4,
    "pay": 3,
    "send": 3,
    "wire": 2,
    "fail": 1,
    "lose": 1,
    "doubt": 1,
    "helper": 1,
    "manager": 1,
    "chief": 1,
}
_DECIDED = ("approve", "deny", "modify")
_DOUBTED = ("happened", "did not happen", "deny")
_WEIGHTS = {
    "begin": 4,
    "crash": 4,
    "run_again": 4,
    "run_other": 1,
    "resume": 9,
    "cancel": 2,
    "replay": 3,
    "fork": 2,
    "change": 1,
    "race": 2,
    "misuse": 1,
    "decide_again": 2,
    "stream": 3,
    "turn": 4,
}


async def tell(seed: int, place: str, folder: Path, actions: int = 30) -> list[str]:
    """Do the actions of a story and return their names."""
    story = Story(seed, place, folder)
    try:
        for _ in range(actions):
            await story.act()
    except Exception as error:
        raise AssertionError(
            f"story {seed} on {place}, action {len(story.log)} ({story.log[-1]}): {error!r}"
        ) from error
    return story.log


def main() -> int:
    """Tell stories from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--place", choices=PLACES, default="rows")
    options = parser.parse_args()
    logging.getLogger("ziggurat").setLevel(logging.CRITICAL)  # failures are a part of the stories
    wrong = 0
    for seed in range(options.seed, options.seed + options.count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                asyncio.run(tell(seed, options.place, Path(folder)))
            except AssertionError as error:
                wrong += 1
                print(error)
    print(f"{options.count - wrong} of {options.count} stories as specified")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

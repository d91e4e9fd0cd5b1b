"""The flow that storms act on: steps, some to be made once only, groups, an agent, a question, timers, events."""

__all__ = ["FlowWorld", "TimedFlowWorld"]

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from tests.faults.world import POINTS, STEPS, Ledger, Reached, Verdict, World, nowhere
from ziggurat import AgentRun, Context, Runnable
from ziggurat.agents import Decision
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.errors import NotRepeatable, RunNotFound
from ziggurat.flows import ask, event, flow, gather, sleep, step
from ziggurat.journal import Store
from ziggurat.journal.entries import Decided, JournalEntry, Pending
from ziggurat.journal.store import Queue, run_log
from ziggurat.testing import HandClock

_EVENTS = {2: 1, 11: 2, 18: 1}
"""How many events the flow waits for, by turn; the last is sent when it waits for it, the others at any time."""


class FlowWorld(World):
    """Makes the flow as each process makes it again.

    Time is a line of the ledger, and passes when the flow waits for nothing else.
    """

    with_intent = frozenset({"pay"})
    points = (*POINTS, "before send", "after send", "before time", "after time")
    long, short, limit = 3 * 86400.0, 3600.0, 2 * 86400.0
    """Seconds of the timers, and those after which no event comes any more."""

    def __init__(self, ledger: Ledger, reached: Reached = nowhere) -> None:
        super().__init__(ledger, reached)
        self.clock = self._clock()
        self._events = 0
        self._sending: asyncio.Task[None] | None = None
        self._halved: set[float] = set()
        self._idle = 0

    def _clock(self) -> Clock:
        return HandClock(max((line["time"] for line in self.ledger.lines() if "time" in line), default=1e9))

    def agent(self, store: Store | str, steps: int = STEPS) -> Runnable[str]:
        """Return the flow of some `steps` steps."""
        self._events = sum(count for number, count in _EVENTS.items() if number < steps)

        @step(context=True)
        async def note(ctx: Context, number: int) -> str:
            return self._do(ctx, "note", number)

        @step(context=True, effect="once")
        async def pay(ctx: Context, number: int) -> str:
            return self._do(ctx, "pay", number)

        helper = self.helper()

        async def paid(number: int) -> None:
            with suppress(NotRepeatable):  # if it is unknown whether it took effect, it stays at that
                self._acknowledge(await pay(number))

        async def part(number: int) -> None:
            self._acknowledge(await note(number))
            if number % 2:
                await paid(number)

        async def turn(number: int) -> None:
            if number in (2, 4, 11, 16, 18):
                await self._wait(number)
            elif number % 7 == 3:
                await gather(*(part(number * 100 + place) for place in range(4)), limit=3)
            elif number % 7 == 5:
                await paid(number)
            elif number % 7 == 6:
                await helper.run(f"part {number}")
            elif number == 9:
                assert await ask("Go on?", bool)
            else:
                await part(number)

        @flow(name="worker", store=store)
        async def worker(prompt: str) -> str:
            for number in range(1, steps):
                await turn(number)
            return "done"

        return worker

    def _do(self, ctx: Context, name: str, number: int) -> str:
        return f"{ctx.path}: {self.act(ctx, name, number)}"

    def _acknowledge(self, said: str) -> None:
        """Acknowledge a step to the outside, whose result is on record when the flow has it."""
        self.acknowledge(said.partition(": ")[0], said)

    async def _wait(self, number: int) -> None:
        if number == 4:
            await self._sleep(self.long)
        elif number == 11:
            await gather(self._take("11, first"), self._take("11, second"), self._sleep(self.short))
        elif number == 16:
            assert await event("never", int, timeout=self.limit, default=-1) == -1
            self.ledger.write(fired=self.clock.now(), length=self.limit)
        else:
            await self._take(f"{number}")

    async def _take(self, place: str) -> None:
        self.ledger.write(taken=await event("paid", int), place=place)

    async def _sleep(self, seconds: float) -> None:
        await sleep(seconds=seconds)
        self.ledger.write(fired=self.clock.now(), length=seconds)

    @asynccontextmanager
    async def beside(self, agent: Runnable[str], run_id: str) -> AsyncIterator[None]:
        """Send all events but the last while the flow runs, some before it waits for them."""
        self._sending = asyncio.create_task(self._send(agent, run_id, range(1, self._events)))
        try:
            yield
        finally:
            self._sending.cancel()
            await asyncio.wait([self._sending])

    async def _send(self, agent: Runnable[str], run_id: str, numbers: Sequence[int]) -> None:
        for number in numbers:
            for _ in range(random.choice((1, 1, 2))):
                await asyncio.sleep(random.random() * 0.02)
                self.reached("before send", run_id)
                try:
                    new = await agent.attach(run_id).send("paid", number, key=str(number))
                except RunNotFound:  # it is not there yet
                    await self._send(agent, run_id, numbers)
                    return
                self.ledger.write(sent=number, new=new)
                self.reached("after send", run_id)

    async def happen(self, agent: Runnable[str], run: AgentRun) -> dict[str, Decision]:
        """Answer what is asked; else let the next event come, or time pass."""
        info = await agent.store.find(run_log(run.id))
        dues = [item.until for item in run.pending if item.until is not None]
        assert info is not None
        latest = max(time.time(), min(dues, default=0.0))  # the clock of the store is that of the machine
        if dues and isinstance(agent.store, Queue):
            assert info.due is not None
            assert info.due <= latest, f"{run.pending} and is due at {info.due}"
        if decisions := await super().happen(agent, run):
            return decisions
        if any(item.stage == "event" and item.until is None for item in run.pending):
            assert self._sending is not None
            if self._sending.done():
                self._sending.result()
                self._idle += 1
                assert self._idle < 10, f"the run waits for an event that was sent: {run.pending}"
                await self._send(agent, run.id, [self._events])
            await asyncio.wait([self._sending])
        else:
            self.reached("before time", run.id)
            await self._pass(min(dues))
            self.reached("after time", run.id)
        return {}

    async def _pass(self, until: float) -> None:
        """Let time pass, first to half of what is left, then to the end."""
        clock = self.clock
        assert isinstance(clock, HandClock)
        left = until - clock.now()
        if until not in self._halved:
            self._halved.add(until)
            left /= 2
        self.ledger.write(time=clock.now() + max(0.0, left))
        clock.skip(max(0.0, left))

    def judge(self, entries: Sequence[JournalEntry], results: dict[str, str], verdict: Verdict) -> None:
        """Compare also what was sent and taken, and when timers ended."""
        super().judge(entries, results, verdict)
        lines = self.ledger.lines()
        new = [line["sent"] for line in lines if line.get("new")]
        if len(new) > len(set(new)):
            verdict.doubled.append(f"events were new more than once: {new}")
        taken: dict[str, set[int]] = {}
        for line in lines:
            if "taken" in line:
                taken.setdefault(line["place"], set()).add(line["taken"])
        values = sorted(value for each in taken.values() for value in each)
        if values != [*range(1, self._events + 1)]:
            verdict.lost.append(f"of {self._events} events these were taken: {taken}")
        numbers = [entry.posted for entry in entries if isinstance(entry, Decided) and entry.posted]
        if len(numbers) > len(set(numbers)):
            verdict.doubled.append(f"items of the inbox were taken twice: {numbers}")
        untils = [entry.until for entry in entries if isinstance(entry, Pending) and entry.until is not None]
        for until, length in zip(untils, (self.long, self.short, self.limit), strict=False):
            ends = [line["fired"] for line in lines if line.get("length") == length]
            if not ends or min(ends) < until:
                verdict.lost.append(f"a timer of {length} seconds ended at {ends}, not at {until}")


class TimedFlowWorld(FlowWorld):
    """The same with the clock of the machine."""

    long, short, limit = 1.2, 0.05, 0.1

    def _clock(self) -> Clock:
        return SYSTEM_CLOCK

    async def _pass(self, until: float) -> None:
        await asyncio.sleep(max(0.0, until - time.time()))

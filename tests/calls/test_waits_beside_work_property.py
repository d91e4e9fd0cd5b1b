"""Random programs of waits beside work end with what a model says, each step is made once, and nothing is waited for
that is there."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec import Struct

from tests.samples import SEED, amount
from ziggurat import AgentRun
from ziggurat.agents import Environment, RunHandle, runs_of
from ziggurat.calls.inbox import Inbox
from ziggurat.flows import Flow, event, first, flow, gather, quorum, settled, sleep, step
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, assert_no_leaks, run_until_idle

GROUPS: dict[str, Callable[..., Any]] = {"gather": gather, "first": first, "settled": settled, "quorum": quorum}


class Part(Struct):
    """A part of a program: an event of a time, a sleep or a step that takes one, or several parts."""

    kind: str
    number: int
    seconds: float = 0.0
    fails: bool = False
    parts: tuple["Part", ...] = ()
    needed: int = 0
    limit: int | None = None


class Program:
    def __init__(self, seed: int, *, shared: bool) -> None:
        self.random = random.Random(seed)
        self.shared = shared  # with groups that have few slots, and events of the same name; no sleeps then
        self.events: list[Part] = []
        self.clock, self.begun = HandClock(), dict[int, int]()
        self.number = 0
        self.worked: list[tuple[float, float]] = []  # when each step began and ended
        self.ties = False
        draw = [self.group(2), *([self.event(), self.group(1), self.event()] if shared else [])]
        self.whole = Part("seq", 0, parts=tuple(draw))

    def leaf(self, kind: str) -> Part:
        self.number += 1
        fails = kind == "step" and self.random.random() < 0.15
        return Part(kind, self.number, self.random.choice([1, 30, 300]) * self.random.random() + 0.01, fails)

    def event(self) -> Part:
        self.events.append(drawn := self.leaf("event"))
        return drawn

    def part(self, depth: int) -> Part:
        kind = self.random.choice(["event", "step", "sleep", "seq", "group"])
        if kind == "event" or (kind == "sleep" and self.shared):
            return self.event()
        if kind in ("step", "sleep") or not depth:
            return self.leaf("step" if kind == "group" else "sleep" if kind == "seq" and not self.shared else "step")
        if kind == "group":
            return self.group(depth - 1)
        return Part("seq", 0, parts=tuple(self.part(depth - 1) for _ in range(2)))

    def group(self, depth: int) -> Part:
        parts = tuple(self.part(depth) for _ in range(self.random.randint(2, 4)))
        kind, needed = self.random.choice([*GROUPS]), self.random.randint(1, len(parts))
        limit = self.random.choice([None, 1, 2]) if self.shared else None
        return Part(kind, 0, parts=parts, needed=needed if kind == "quorum" else 1, limit=limit)

    # -- as a flow -----------------------------------------------------------------------------------------------

    def flow(self, store: InMemoryStore) -> Flow[None, Any]:
        @step
        async def work(number: int, seconds: float, fails: bool) -> int:
            self.begun[number], began = self.begun.get(number, 0) + 1, self.clock.monotonic()
            try:
                await self.clock.sleep(seconds)
            finally:
                self.worked.append((began, self.clock.monotonic()))
            if fails:
                raise ValueError("failed")
            return number

        async def run(part: Part) -> Any:
            if part.kind == "step":
                return await work(part.number, part.seconds, part.fails)
            if part.kind == "sleep":
                await sleep(seconds=part.seconds)
                return part.number
            if part.kind == "event":
                return await event("go" if self.shared else f"go {part.number}", int)
            if part.kind == "seq":
                return [await run(each) for each in part.parts]
            parts: list[Coroutine[Any, Any, Any]] = [run(each) for each in part.parts]
            needed = [part.needed] if part.kind == "quorum" else []
            try:
                results = await GROUPS[part.kind](*needed, *parts, limit=part.limit)
            except Exception as error:
                if "failed" not in str(error):
                    raise
                return "failed"
            if part.kind == "first":
                return results
            return ["failed" if isinstance(each, Exception) else each for each in results]

        @flow(store=store, name="order")
        async def order() -> Any:
            return await run(self.whole)

        return order

    # -- the model -----------------------------------------------------------------------------------------------

    def end(self, part: Part, began: float) -> tuple[float, bool, Any]:
        """Return when a part ends, whether it succeeds, and with what result."""
        if part.kind == "event":
            return max(began, part.seconds), True, part.number
        if not part.parts:
            return began + part.seconds, not part.fails, part.number
        if part.kind == "seq":
            results = []
            for each in part.parts:
                began, good, result = self.end(each, began)
                if not good:
                    return began, False, result
                results.append(result)
            return began, True, results
        ends = [self.end(each, began) for each in part.parts]
        self.ties = self.ties or len({each[0] for each in ends}) < len(ends)
        results = [result if good else "failed" for _, good, result in ends]
        succeeded = sorted((at, place) for place, (at, good, _) in enumerate(ends) if good)
        failed = sorted(at for at, good, _ in ends if not good)
        needed = len(ends) if part.kind == "gather" else part.needed
        if part.kind == "settled":
            return max(at for at, _, _ in ends), True, results
        if len(succeeded) < needed:
            return failed[len(ends) - needed], True, "failed"
        at, last = succeeded[needed - 1]
        won = {place for _, place in succeeded[:needed]}
        used = [result if place in won else None for place, result in enumerate(results)]
        return at, True, results[last] if part.kind == "first" else used


async def drive(order: Flow[None, Any], settings: Environment, kick: asyncio.Event) -> AgentRun[Any]:
    """Drive a run as a worker does: only when it is due."""
    while True:
        run = (await order.recover(environment=settings)).runs.get("r")
        if run is not None and run.stop != stops.Suspended():
            return run
        if run is None:
            kick.clear()
            await kick.wait()


@pytest.mark.parametrize("seed", range(SEED, SEED + amount(25, 1000)))
async def test_a_random_program_ends_as_the_model_says(seed: int) -> None:
    program, store = Program(seed, shared=False), InMemoryStore()
    order, other = program.flow(store), program.flow(InMemoryStore(shared=store))
    async with assert_no_leaks():
        handle: RunHandle[Any] = order.start(run_id="r", environment=Environment(clock=program.clock))
        for each in sorted(program.events, key=lambda sent: sent.seconds):
            await program.clock.advance(max(0.0, each.seconds - program.clock.monotonic()))
            if (await other.attach("r").status()).status not in ("running", "Suspended"):
                break
            await order.attach("r").send(f"go {each.number}", each.number)
            await run_until_idle()
        result = asyncio.create_task(handle.result())
        await program.clock.advance(10_000)
        run = await result
    wanted = program.end(program.whole, 0.0)
    assert program.ties or run.output == wanted[2]
    await check_ended(program, other, run)


@pytest.mark.parametrize("seed", range(SEED, SEED + amount(25, 1000)))
async def test_a_random_program_waits_for_nothing_that_is_there(seed: int) -> None:
    program, store = Program(seed, shared=True), InMemoryStore()
    order, kick, settings = program.flow(store), asyncio.Event(), Environment(clock=program.clock)
    async with assert_no_leaks():
        await order.submit(run_id="r")
        driving = asyncio.create_task(drive(order, settings, kick))
        await run_until_idle()
        for each in sorted(program.events, key=lambda sent: sent.seconds):
            await program.clock.advance(max(0.0, each.seconds - program.clock.monotonic()))
            if driving.done():
                break
            await order.attach("r").send("go", each.number)
            kick.set()
            await run_until_idle()
            record = await runs_of(store).read("r")
            if record.ended is not None and record.ended.stop == "Suspended":
                inbox = Inbox(runs_of(store), "r", record, lambda *_: True)
                assert [*await inbox.events("go", "")] == []
        await program.clock.advance(10_000)
        kick.set()
        await run_until_idle()
        run = await asyncio.wait_for(driving, 1)  # as many were sent as there are waits
    await check_ended(program, program.flow(InMemoryStore(shared=store)), run)


async def check_ended(program: Program, order: Flow[None, Any], run: AgentRun[Any]) -> None:
    begun = dict(program.begun)
    worked, until = 0.0, 0.0
    for began, ended in sorted(program.worked):
        worked, until = worked + max(0.0, ended - max(began, until)), max(ended, until)
    assert run.seconds == pytest.approx(worked, abs=1e-3)  # what waited is not counted
    assert set(begun.values()) <= {1}
    again: AgentRun[Any] = await order.resume("r")
    assert (again.output, (await order.replay("r")).output) == (run.output, run.output)
    assert (program.begun, await order.pending(), (await order.attach("r").status()).pending) == (begun, {}, ())

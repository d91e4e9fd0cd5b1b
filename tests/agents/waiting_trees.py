"""Generated flows that wait: trees of steps, groups, questions, timers and events, and a world that answers them."""

import random
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tests.agents.flow_trees import Tree, Trial
from ziggurat import AgentRun
from ziggurat.agents import Answer, Environment, runs_of
from ziggurat.flows import Flow, ask, event, sleep
from ziggurat.journal.entries import Decided, Pending
from ziggurat.messages import stops
from ziggurat.messages.agent import stage_of
from ziggurat.testing import HandClock

KINDS = ("step", "once", "question", "timer", "timeout", "event", "sequence", "sequence", "gather", "gather", "settled")
LEAVES = KINDS[:6]
NAMES = ("paid", "packed")


def waiting_tree(chance: random.Random, depth: int = 3) -> Tree:
    """Return a random tree in which much waits."""
    kind = chance.choice(KINDS if depth else LEAVES)
    if kind in ("timer", "timeout"):
        return kind, chance.randint(2, 9) * 1000
    if kind == "event":
        return kind, chance.choice(NAMES)
    if kind in LEAVES:
        return kind, f"{kind} {chance.getrandbits(40):x}"
    return kind, *(waiting_tree(chance, depth - 1) for _ in range(chance.randint(2, 3)))


def count(tree: Tree, leaf: Tree) -> int:
    """Return how often a leaf occurs in a tree."""
    return int(tree == leaf) + sum(count(part, leaf) for part in tree[1:] if isinstance(part, tuple))


class WaitingTrial(Trial):
    """A tree whose leaves may wait."""

    async def run(self, tree: Tree) -> str:
        """Do what a tree says, and return the outcome."""
        match tree:
            case "question", question:
                return await ask(question)
            case "timer", seconds:
                await sleep(seconds=seconds)
                return f"slept {seconds}"
            case "timeout", seconds:
                return await event("never", str, timeout=seconds, default=f"late {seconds}")
            case "event", name:
                return f"{name} {await event(name, int)}"
        return await super().run(tree)


class World:
    """Answers what runs of a tree ask, sends the events that they wait for, and lets time pass.

    Args:
        chance: Decides what happens next.
        tree: The tree; each event is sent as often as it is waited for.
        clock: Time.
    """

    def __init__(self, chance: random.Random, tree: Tree, clock: HandClock) -> None:
        self.chance = chance
        self.clock = clock
        self.environment = Environment(clock=clock)
        self.unsent = [(name, number) for name in NAMES for number in range(count(tree, ("event", name)))]

    async def drive(self, flow_of: Callable[[], Flow[None, str]], run_id: str) -> AgentRun[Any]:
        """Continue a run until it has ended, each time by another object, as in another process."""
        for _ in range(200):
            flow = flow_of()
            run: AgentRun[Any] = await flow.resume(run_id, environment=self.environment)
            await self._check(flow, run)
            if not isinstance(run.stop, stops.Suspended):
                return run
            await self._happen(flow_of(), run)
        raise AssertionError("the run goes on for ever")

    async def recover(self, flow_of: Callable[[], Flow[None, str]], run_id: str) -> AgentRun[Any]:
        """Do as `drive`, with what is due alone: a run goes on when it can, or it does not end."""
        run: AgentRun[Any] | None = None
        for _ in range(300):
            flow = flow_of()
            recovery = await flow.recover(environment=self.environment)
            assert not recovery.errors
            run = recovery.runs.get(run_id, run)
            assert run is not None, "it was submitted, so it was due"
            await self._check(flow, run)
            if not isinstance(run.stop, stops.Suspended):
                return run
            await self._happen(flow_of(), replace(run, pending=(await flow.attach(run_id).status()).pending))
        raise AssertionError("the run goes on for ever, or is forgotten")

    async def _happen(self, flow: Flow[None, str], run: AgentRun[Any]) -> None:
        """Let one thing happen that the run may wait for."""
        questions = [item for item in run.pending if item.needs_decision]
        dues = [item.until for item in run.pending if item.until is not None]
        happenings: list[str] = ["question"] * bool(questions) + ["time"] * bool(dues) + ["event"] * bool(self.unsent)
        match self.chance.choice(happenings):
            case "question":
                item = self.chance.choice(questions)
                await flow.attach(run.id).decide(
                    {item.id: Answer(f"answer to {item.reason}")}, environment=self.environment
                )
            case "time":
                left = min(dues) - self.clock.now()
                early = left > 3 and self.chance.random() < 0.5
                await self.clock.advance(left / 2 if early else left + 0.5)
            case _:
                name, number = self.unsent.pop(self._first_of_a_name())
                for _ in range(self.chance.randint(1, 2)):
                    await flow.attach(run.id).send(name, number, key=str(number))

    def _first_of_a_name(self) -> int:
        name = self.chance.choice(self.unsent)[0]
        return next(index for index, (other, _) in enumerate(self.unsent) if other == name)

    async def _check(self, flow: Flow[None, str], run: AgentRun[Any]) -> None:
        """Check that no timer ended early or is forgotten, and that no event was taken twice."""
        assert not [item for item in run.pending if item.until is not None and item.until <= self.clock.now()]
        entries = (await runs_of(flow.store).read(run.id)).entries
        until = {entry.id: entry.until for entry in entries if isinstance(entry, Pending)}
        decided = [entry for entry in entries if isinstance(entry, Decided)]
        for entry in decided:
            end = until[entry.id]
            if stage_of(entry.path) == "timer":
                assert end is not None
                assert end <= self.clock.now()
        taken = [entry.posted for entry in decided if entry.posted]
        assert len(taken) == len(set(taken))

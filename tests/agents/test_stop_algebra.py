"""The algebra of stop policies: when a composed policy stops, and what it says, against a specification in booleans."""

from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.samples import amount
from ziggurat import Agent, tool
from ziggurat.agents import max_steps
from ziggurat.agents.stop import Advice, BasePolicy, Progress, Verdict, all_of, any_of
from ziggurat.messages import stops, tool_call
from ziggurat.testing import ScriptedModel

STEPS = 8


class Leaf(BasePolicy):
    """Holds in the steps of a table, which it says of the response or of the step."""

    def __init__(self, name: str, table: frozenset[int], early: bool) -> None:
        self.name, self.table, self.early = name, table, early

    def on_response(self, progress: Progress) -> Verdict:
        return self._say(progress) if self.early else None

    def on_step(self, progress: Progress) -> Verdict:
        return None if self.early else self._say(progress)

    def _say(self, progress: Progress) -> Verdict:
        return stops.StopCondition(self.name) if progress.step in self.table else None

    def __repr__(self) -> str:
        return self.name


@dataclass
class Said:
    """A policy, when it holds, and what it says then."""

    policy: BasePolicy
    holds: frozenset[int]
    says: dict[int, str]

    def since(self, step: int) -> int:
        """Return the first of the steps in a row up to this one in which it holds."""
        return step if step - 1 not in self.holds else self.since(step - 1)


def _drawn(random: Random, depth: int, *, phases: bool) -> Said:
    kind = random.choice(["leaf", "any", "all"]) if depth else "leaf"
    if kind == "leaf":
        table = frozenset(step for step in range(1, STEPS + 1) if random.random() < 0.4)
        leaf = Leaf(f"p{random.randrange(10**6)}", table, phases and random.random() < 0.5)
        return Said(leaf, table, dict.fromkeys(table, leaf.name))
    parts = [_drawn(random, depth - 1, phases=phases) for _ in range(random.randint(1, 3))]
    policies, tables = [part.policy for part in parts], [part.holds for part in parts]
    if kind == "any":
        holds = frozenset[int]().union(*tables)
        first = {step: next(part for part in parts if step in part.holds) for step in holds}
        return Said(any_of(*policies), holds, {step: part.says[step] for step, part in first.items()})
    holds = tables[0].intersection(*tables)
    last = {step: max(parts, key=lambda part, step=step: part.since(step)) for step in holds}  # type: ignore[misc]
    return Said(all_of(*policies), holds, {step: part.says[step] for step, part in last.items()})


@tool(effect="none")
async def look() -> str:
    """Look."""
    return "seen"


def _stop_of(policy: BasePolicy, limit: int | None = STEPS) -> tuple[int, Any]:
    run = Agent(ScriptedModel(always=tool_call("look")), tools=[look], stop=policy, max_steps=limit).run_sync("go")
    return run.steps, run.stop


_seeds = st.integers(0, 10**6)


@settings(max_examples=amount(60, 2000))
@given(_seeds, st.booleans())
def test_composed_policies_stop_as_the_booleans_do(seed: int, phases: bool) -> None:
    said = _drawn(Random(seed), 3, phases=phases)
    steps, stop = _stop_of(said.policy)
    if not said.holds:
        assert (steps, stop) == (STEPS, stops.MaxSteps(STEPS))
        return
    assert steps == min(said.holds)
    assert isinstance(stop, stops.StopCondition)
    if not phases:  # every part is asked at the same time, so the reason is known too
        assert stop == stops.StopCondition(said.says[steps])


@settings(max_examples=amount(10, 200))
@given(_seeds)
def test_max_steps_combine_as_the_larger_and_the_smaller(seed: int) -> None:
    random = Random(seed)

    def drawn(depth: int) -> tuple[BasePolicy, int]:
        if not depth:
            limit = random.randint(1, 40)
            return max_steps(limit), limit
        (first, one), (second, other) = drawn(depth - 1), drawn(depth - 1)
        return (first & second, max(one, other)) if random.random() < 0.5 else (first | second, min(one, other))

    policy, limit = drawn(random.randint(1, 3))
    assert _stop_of(policy, None) == (limit, stops.MaxSteps(limit))


@settings(max_examples=amount(10, 200))
@given(st.integers(1, 50), st.integers(1, 50), st.booleans(), st.booleans())
def test_max_steps_joined_with_a_condition_end_when_both_hold(least: int, holds: int, early: bool, first: bool) -> None:
    late = Leaf("late", frozenset(range(holds, 100)), early)
    policy = max_steps(least) & late if first else late & max_steps(least)
    assert _stop_of(policy, None)[0] == min(max(least, holds), max(25, least + 25))


class Counting(BasePolicy):
    """Counts in its state how often it was asked, and gives its advice each time."""

    def on_response(self, progress: Progress) -> Verdict:
        progress.state(self, list[int]).append(progress.step)
        return Advice((), ("again",))

    def on_step(self, progress: Progress) -> Verdict:
        asked = progress.state(self, list[int])
        assert asked == list(range(1, progress.step + 1))
        return stops.StopCondition() if progress.step == STEPS else None


@settings(max_examples=amount(10, 200))
@given(_seeds)
def test_a_policy_that_occurs_several_times_is_asked_once(seed: int) -> None:
    random, counting = Random(seed), Counting()

    def drawn(depth: int) -> BasePolicy:
        if not depth:
            return counting
        parts = [drawn(random.randrange(depth)) for _ in range(random.randint(1, 3))]
        return random.choice([any_of, all_of])(*parts)

    run = Agent(ScriptedModel(always=tool_call("look")), tools=[look], stop=drawn(3)).run_sync("go")
    assert run.steps == STEPS
    assert [message.text for message in run.messages if message.origin == "runtime"] == ["again"] * (STEPS - 1)

"""What should happen to a run, said without journals, stores and services: the whole life of a run on one page.

A run follows its plan. It stops at the first step that asks for a decision not made yet, that the model breaks at, or
that the budget has no call for; otherwise it completes. Where it stopped is all that a store needs to know: asking
again answers the same, and only an explicit resume goes on.
"""

from dataclasses import dataclass, field

from tests.life.world import Call, Plan, inner_calls, model_calls

ASKED = ("send", "wire")
"""The tools whose calls wait for a person before they begin; those of ``doubt`` do when they are interrupted."""


@dataclass
class Outcome:
    """How a run stands: the name of its stop, the calls that wait, the calls that were carried out, its model calls.

    `open` is the number of its own calls that wait, or below which a call waits.
    """

    stop: str
    waiting: list[Call] = field(default_factory=list)
    done: list[Call] = field(default_factory=list)
    refused: list[Call] = field(default_factory=list)
    turns: int = 0
    model_calls: int = 0
    open: int = 0


@dataclass
class Life:
    """What is known of one run.

    Attributes:
        plan: What it does.
        decisions: What was decided, by the number of the call: an approval, or a denial.
        stop: How it stood when it was last heard of; "absent" before it began, "lost" when its process died.
        turns: The number of its own model calls that are on record; None if that is not known.
        model_calls: The number of all its model calls that are on record.
        lost: The number of its model calls that were cancelled while they ran: they are paid for, and made again.
        failed: The number of its model calls that failed: a budget of requests counts them too.
        failed_output: The output tokens that were reserved for those: a budget of output counts them.
        parent: The run that it is a fork of.
        session: Its session.
        items: By the number of each call that was decided, the id of the decision.
        doubted: The numbers of the calls that were decided because they were interrupted.
        unasked: Whether it was never asked for alone: a fork of a turn begins with what the session said.
        blocked: The calls that are refused, because an equal one of another run of the session waits.
    """

    plan: Plan
    decisions: dict[int, str] = field(default_factory=dict)
    stop: str = "absent"
    turns: int | None = 0
    model_calls: int = 0
    lost: int = 0
    failed: int = 0
    failed_output: int = 0
    parent: str = ""
    session: str = ""
    items: dict[int, str] = field(default_factory=dict)
    doubted: set[int] = field(default_factory=set)
    unasked: bool = False
    blocked: frozenset[int] = frozenset()

    def outcome(self, breaks_at: int | None = None, requests: int | None = None) -> Outcome:
        """Return how the run stands after it was driven as far as it goes."""
        outcome = Outcome("Completed")
        for turn in range(len(self.plan.steps) + 1):
            outcome.turns = turn
            if turn == breaks_at:
                outcome.stop = "Failed"
                return outcome
            if requests is not None and outcome.model_calls >= requests:
                outcome.stop = "BudgetExceeded"
                return outcome
            outcome.model_calls += 1
            outcome.turns += 1
            if turn == len(self.plan.steps):
                return outcome
            for call in self.plan.steps[turn]:
                before = len(outcome.waiting)
                self._carry_out(call, outcome)
                outcome.open += len(outcome.waiting) > before
            if outcome.waiting:
                outcome.stop = "Suspended"
                return outcome
        return outcome

    def _carry_out(self, call: Call, outcome: Outcome) -> None:
        name, n = call
        if nested := inner_calls(name, n):
            outcome.model_calls += 1
            before = len(outcome.waiting)
            for inner in nested:
                self._carry_out(inner, outcome)
            if len(outcome.waiting) == before:
                outcome.model_calls += 1
                outcome.done.append(call)
        elif n in self.blocked or name == "lose":
            outcome.refused.append(call)
        elif name not in (*ASKED, "doubt"):
            outcome.done.append(call)
        elif n not in self.decisions:
            outcome.waiting.append(call)
        elif self.decisions[n] == "deny":
            outcome.refused.append(call)
        else:
            outcome.done.append(call)

    def within_budget(self, requests: int) -> bool:
        """Return whether a budget would end the run between two steps of its own, not within the nested agent."""
        calls = 0
        for step in self.plan.steps:
            calls += 1
            nested = sum(map(model_calls, step))
            if calls <= requests < calls + nested:
                return False
            calls += nested
        return True

"""The search of HTN planning: depth-first, most specific method first, going back where it fails."""

__all__ = ["Asking", "Search"]

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ziggurat.plans.htn_parts import (
    Compound,
    DepthExceeded,
    HtnPlan,
    HtnStep,
    HtnTask,
    Method,
    NoMethodFound,
    NoPlan,
    NoPreconditionSatisfied,
    Primitive,
    Refusal,
    SearchLimitExceeded,
    StepLimitExceeded,
    World,
    unmet,
)

_MAX_REFUSALS = 200

Asking = Generator[tuple[str, Sequence[Method], World], Sequence[Method], HtnPlan]
"""Yields a task with its applicable methods and the world, takes their order, and returns the plan."""


class _State(Struct):
    """How far a plan has come.

    Attributes:
        agenda: What is left to do: None, or a task, its depth, its source, and the agenda after it.
        steps: The steps so far: None, or the last step, and those before it.
        count: Their number.
        world: What holds after them.
    """

    agenda: Any
    steps: Any
    count: int
    world: dict[str, Any]


class _Choice(Struct):
    """A task whose methods are tried one after the other, and the state in which it was met."""

    task: str
    methods: Sequence[Method]
    number: int
    depth: int
    state: _State


class Search:
    """One search for a plan.

    Args:
        methods: By the name of their task, most specific first.
        limits: The largest depth and number of steps, and how many tasks are looked at.
    """

    def __init__(self, methods: Mapping[str, Sequence[Method]], limits: tuple[int, int, int]) -> None:
        self._methods = methods
        self._max_depth, self._max_steps, self._max_tasks = limits
        self._refused: dict[Refusal, None] = {}
        self._choices: list[_Choice] = []

    def run(self, goal: HtnTask, world: World) -> Asking:
        """Search for a plan.

        Raises:
            NoPlan: there is none; the error is that of the last attempt.
        """
        name = goal.tool if isinstance(goal, Primitive) else goal.name
        state = _State((goal, 0, name, None), None, 0, dict(world))
        tasks = 0
        while state.agenda is not None:
            task, depth, source, rest = state.agenda
            name = task.tool if isinstance(task, Primitive) else task.name
            tasks += 1
            if tasks > self._max_tasks:
                limit = self._max_tasks
                text = f"the search looked at {limit} tasks, the last of which was {name}"
                raise self._explained(SearchLimitExceeded("tasks", limit, tasks, text).at(name))
            try:
                if depth > self._max_depth:
                    limit = self._max_depth
                    text = f"{name} is more than {limit} levels below the goal"
                    raise DepthExceeded("depth", limit, depth, text).at(name)
                if isinstance(task, Primitive):
                    state = self._do(task, depth, source, rest, state)
                    continue
                methods = self._applicable(task, state.world)
                if len(methods) > 1:
                    methods = yield name, methods, state.world
                self._choices.append(
                    _Choice(name, methods, 0, depth, _State(rest, state.steps, state.count, state.world))
                )
            except NoPlan as error:
                self._go_back(error)
            state = self._decompose(self._choices[-1])
        return HtnPlan(_in_order(state.steps), tuple(self._refused), state.world)

    def _do(self, task: Primitive, depth: int, source: str, rest: Any, state: _State) -> _State:
        """Return the state after a step."""
        if state.count >= self._max_steps:
            text = f"{task.tool} would make a plan of more than {self._max_steps} steps"
            raise StepLimitExceeded("steps", self._max_steps, state.count + 1, text).at(task.tool)
        why = unmet(task.preconditions, state.world)
        if why:
            raise NoPreconditionSatisfied(f"{task.tool} cannot be done: {why}").at(task.tool)
        step = HtnStep(task.tool, dict(task.arguments), depth, source)
        world = {**state.world, **task.effects} if task.effects else state.world
        return _State(rest, (step, state.steps), state.count + 1, world)

    def _applicable(self, task: Compound, world: World) -> Sequence[Method]:
        """Return the methods of a task whose preconditions hold."""
        methods = self._methods.get(task.name)
        if methods is None:
            names = ", ".join(self._methods) or "nothing"
            text = f"no method decomposes {task.name}; there are methods for: {names}"
            raise NoMethodFound(text).at(task.name)
        applicable: list[Method] = []
        reasons: list[str] = []
        for method in methods:
            why = unmet(method.preconditions, world)
            if why:
                self._refuse(task.name, method, why)
                reasons.append(f"{method.title}: {why}")
            else:
                applicable.append(method)
        if not applicable:
            text = f"no method for {task.name} can be used: {'; '.join(reasons)}"
            raise NoPreconditionSatisfied(text).at(task.name)
        return applicable

    @staticmethod
    def _decompose(choice: _Choice) -> _State:
        """Return the state in which the current method of a choice is to be done."""
        state = choice.state
        agenda = state.agenda
        for subtask in reversed(choice.methods[choice.number].subtasks):
            agenda = (subtask, choice.depth + 1, choice.task, agenda)
        return _State(agenda, state.steps, state.count, state.world)

    def _go_back(self, error: NoPlan) -> None:
        """Make the next method current of the last choice that has one.

        Raises:
            NoPlan: there is none.
        """
        while self._choices:
            choice = self._choices[-1]
            self._refuse(choice.task, choice.methods[choice.number], str(error))
            choice.number += 1
            if choice.number < len(choice.methods):
                return
            self._choices.pop()
        raise self._explained(error)

    def _refuse(self, task: str, method: Method, reason: str) -> None:
        if len(self._refused) < _MAX_REFUSALS:
            self._refused[Refusal(task, method.title, reason)] = None

    def _explained(self, error: NoPlan) -> NoPlan:
        error.refused = tuple(self._refused)
        return error


def _in_order(steps: Any) -> tuple[HtnStep, ...]:
    collected: list[HtnStep] = []
    while steps is not None:
        step, steps = steps
        collected.append(step)
    return tuple(reversed(collected))

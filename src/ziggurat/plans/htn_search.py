"""The search of HTN planning: depth-first, most specific method first, going back where it fails."""

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
_MAX_REASONS = 10
"""How many reasons an error names."""

_CONDITIONS = 20
"""How many methods and preconditions are looked at, as a multiple of the tasks."""

_ABSENT = object()

Question = tuple[str, Sequence[Method], World]
Asking = Generator[Question, Sequence[Method], HtnPlan]
"""Yields a task with its applicable methods and the world, takes their order, and returns the plan."""


class _State(Struct):
    """How far a plan has come."""

    agenda: Any
    steps: Any
    count: int
    changes: int


class _Choice(Struct):
    """A task whose methods are tried one after the other, and the state in which it was met."""

    task: str
    methods: Sequence[Method]
    number: int
    depth: int
    state: _State


class Search:
    """One search for a plan."""

    def __init__(self, methods: Mapping[str, Sequence[Method]], limits: tuple[int, int, int], world: World) -> None:
        self._methods = methods
        self._max_depth, self._max_steps, self._max_tasks = limits
        self._world = dict(world)
        self._changed: list[tuple[str, Any]] = []  # the name and the earlier value of each change of the world
        self._refused: dict[Refusal, None] = {}
        self._choices: list[_Choice] = []
        self._tasks = self._conditions = 0  # how many were looked at

    def run(self, goal: HtnTask) -> Asking:
        """Search for a plan."""
        state = _State(((goal,), 0, 0, _name_of(goal), None), None, 0, 0)
        while state.agenda is not None:
            tasks, number, depth, source, rest = state.agenda
            task = tasks[number]
            if number + 1 < len(tasks):
                rest = (tasks, number + 1, depth, source, rest)
            name = _name_of(task)
            self._count(name)
            try:
                if depth > self._max_depth:
                    limit = self._max_depth
                    text = f"{name} is more than {limit} levels below the goal"
                    raise DepthExceeded("depth", limit, depth, text).at(name)
                if isinstance(task, Primitive):
                    state = self._do(task, depth, source, rest, state)
                    continue
                methods = self._applicable(task)
                if len(methods) > 1:
                    methods = yield name, methods, self._world
                self._choices.append(
                    _Choice(name, methods, 0, depth, _State(rest, state.steps, state.count, state.changes))
                )
            except NoPlan as error:
                self._go_back(error)
            state = self._decompose(self._choices[-1])
        return HtnPlan(_in_order(state.steps), tuple(self._refused), self._world)

    def _count(self, name: str) -> None:
        """Count a task that is looked at."""
        self._tasks += 1
        for what, number, limit in (
            ("tasks", self._tasks, self._max_tasks),
            ("preconditions", self._conditions, self._max_tasks * _CONDITIONS),
        ):
            if number > limit:
                text = f"the search looked at {limit} {what}, the last task was {name}"
                raise self._explained(SearchLimitExceeded(what, limit, number, text).at(name))

    def _do(self, task: Primitive, depth: int, source: str, rest: Any, state: _State) -> _State:
        """Return the state after a step."""
        if state.count >= self._max_steps:
            text = f"{task.tool} would make a plan of more than {self._max_steps} steps"
            raise StepLimitExceeded("steps", self._max_steps, state.count + 1, text).at(task.tool)
        self._conditions += len(task.preconditions) + len(task.effects)
        why = unmet(task.preconditions, self._world)
        if why:
            raise NoPreconditionSatisfied(f"{task.tool} cannot be done: {why}").at(task.tool)
        for name, value in task.effects.items():
            self._changed.append((name, self._world.get(name, _ABSENT)))
            self._world[name] = value
        step = HtnStep(task.tool, dict(task.arguments), depth, source)
        return _State(rest, (step, state.steps), state.count + 1, len(self._changed))

    def _applicable(self, task: Compound) -> Sequence[Method]:
        """Return the methods of a task whose preconditions hold."""
        methods = self._methods.get(task.name)
        if methods is None:
            names = ", ".join(self._methods) or "nothing"
            text = f"no method decomposes {task.name}; there are methods for: {names}"
            raise NoMethodFound(text).at(task.name)
        applicable: list[Method] = []
        reasons: list[str] = []
        for method in methods:
            self._conditions += 1 + len(method.preconditions)
            why = unmet(method.preconditions, self._world)
            if why:
                self._refuse(task.name, method, why)
                if len(reasons) < _MAX_REASONS:
                    reasons.append(f"{method.title}: {why}")
            else:
                applicable.append(method)
        if not applicable:
            more = f"; and {len(methods) - len(reasons)} more" if len(methods) > len(reasons) else ""
            text = f"no method for {task.name} can be used: {'; '.join(reasons)}{more}"
            raise NoPreconditionSatisfied(text).at(task.name)
        return applicable

    @staticmethod
    def _decompose(choice: _Choice) -> _State:
        """Return the state in which the current method of a choice is to be done."""
        state = choice.state
        subtasks = choice.methods[choice.number].subtasks
        agenda = (subtasks, 0, choice.depth + 1, choice.task, state.agenda) if subtasks else state.agenda
        return _State(agenda, state.steps, state.count, state.changes)

    def _go_back(self, error: NoPlan) -> None:
        """Make the next method current of the last choice that has one."""
        while self._choices:
            choice = self._choices[-1]
            self._refuse(choice.task, choice.methods[choice.number], str(error))
            choice.number += 1
            self._undo(choice.state.changes)
            if choice.number < len(choice.methods):
                return
            self._choices.pop()
        raise self._explained(error)

    def _undo(self, changes: int) -> None:
        """Restore the world as it was after the first changes."""
        while len(self._changed) > changes:
            name, value = self._changed.pop()
            if value is _ABSENT:
                del self._world[name]
            else:
                self._world[name] = value

    def _refuse(self, task: str, method: Method, reason: str) -> None:
        if len(self._refused) < _MAX_REFUSALS:
            self._refused[Refusal(task, method.title, reason)] = None

    def _explained(self, error: NoPlan) -> NoPlan:
        error.refused = tuple(self._refused)
        return error


def _name_of(task: HtnTask) -> str:
    return task.tool if isinstance(task, Primitive) else task.name


def _in_order(steps: Any) -> tuple[HtnStep, ...]:
    collected: list[HtnStep] = []
    while steps is not None:
        step, steps = steps
        collected.append(step)
    return tuple(reversed(collected))

"""The parts of HTN planning: tasks, methods and plans, and the search for one."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError, LimitExceeded, ServiceError
from ziggurat.core.protocols import closed
from ziggurat.core.settings import CheckedStruct, NonEmptyText

World = Mapping[str, Any]
"""What holds, by name: plain data."""


class Primitive(CheckedStruct, frozen=True):
    """A task that is one call of a tool.

    Args:
        tool: The name of the tool.
        arguments: Its arguments; texts in them may refer to variables as ``{name}``, see `Planner`.
        preconditions: What must hold before it, as in a `Method`.
        effects: What holds after it.
    """

    tool: NonEmptyText
    arguments: Mapping[str, Any] = {}
    preconditions: Mapping[str, Any] = {}
    effects: Mapping[str, Any] = {}


class Compound(CheckedStruct, frozen=True):
    """A task that methods decompose, by its name."""

    name: NonEmptyText


HtnTask = Primitive | Compound


class Method(CheckedStruct, frozen=True):
    """One way to do a compound task.

    Args:
        task: The name of the compound task.
        subtasks: What is done for it, in this order.
        preconditions: What must hold: each name must have the value; a name that the world does not have fails. If the
            value is a function of the world, it must return True, and the name says what it tests.
        description: For people, and for a model that orders methods.
    """

    task: NonEmptyText
    subtasks: Sequence[HtnTask]
    preconditions: Mapping[str, Any] = {}
    description: str = ""

    @property
    def title(self) -> str:
        """Its description, or what it is made of, which is cut after ten tasks."""
        if self.description or not self.subtasks:
            return self.description or "nothing to do"
        names = [each.tool if isinstance(each, Primitive) else each.name for each in self.subtasks[:10]]
        more = len(self.subtasks) - len(names)
        return " > ".join([*names, f"{more} more"] if more else names)


class HtnStep(Struct, frozen=True):
    """A step of a plan: a call of a tool.

    Attributes:
        tool: The name of the tool.
        arguments: Its arguments.
        depth: How deep its task is below the goal, which has depth 0.
        source: The compound task that it is a part of; its own tool if it is the goal.
    """

    tool: str
    arguments: dict[str, Any]
    depth: int
    source: str


class Refusal(Struct, frozen=True):
    """Why a method was not used.

    Attributes:
        task: The compound task.
        method: The title of the method.
        reason: What did not hold, or what failed below it.
    """

    task: str
    method: str
    reason: str


class HtnPlan(Struct, frozen=True):
    """The result of planning.

    Attributes:
        steps: What to do, in order.
        refused: Why other methods were not used, in the order of the search, each reason once.
        world: What holds after the plan.
    """

    steps: tuple[HtnStep, ...]
    refused: tuple[Refusal, ...] = ()
    world: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.steps)


class NoPlan(ServiceError):
    """There is no plan.

    Attributes:
        task: The task at which the last attempt failed.
        refused: Why each method was not used.
    """

    task: str = ""
    refused: tuple[Refusal, ...] = ()

    def at(self, task: str) -> "NoPlan":
        """Return this error with the name of a task."""
        self.task = task
        return self


class NoMethodFound(NoPlan):
    """No method decomposes the task."""


class NoPreconditionSatisfied(NoPlan):
    """The preconditions of the task, or of all its methods, do not hold."""


class DepthExceeded(LimitExceeded, NoPlan):
    """The task is deeper below the goal than `limit`."""


class StepLimitExceeded(LimitExceeded, NoPlan):
    """The plan would have more than `limit` steps."""


class SearchLimitExceeded(LimitExceeded, NoPlan):
    """The search has looked at `limit` tasks without coming to an end; there may be a plan."""


def unmet(preconditions: Mapping[str, Any], world: World) -> str:
    """Return which precondition does not hold, in words; empty if all do."""
    for name, value in preconditions.items():
        if callable(value):
            answer = value(world)
            if not isinstance(answer, bool):
                raise ConfigurationError(
                    f"the precondition {name!r} gave {closed(answer)!r:.100}, not True or False: return one of them"
                )
            if not answer:
                return f"{name} does not hold"
        elif name not in world:
            return f"{name} is not {value!r:.200}: it has no value"
        elif not _equal(world[name], value):
            return f"{name} is {world[name]!r:.200}, not {value!r:.200}"
    return ""


def comparable(task: HtnTask | Method) -> HtnTask | Method:
    """Return a task or a method as it is compared with a recorded one: of functions, with their names alone."""
    if isinstance(task, Compound):
        return task
    tests = {name: None if callable(value) else value for name, value in task.preconditions.items()}
    if isinstance(task, Primitive):
        return replace(task, preconditions=tests)
    return replace(task, preconditions=tests, subtasks=[comparable(each) for each in task.subtasks])


def _equal(one: object, other: object) -> bool:
    """Return whether two values are equal; a boolean is no number."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


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
        self._tasks += 1
        for what, number, limit in (
            ("tasks", self._tasks, self._max_tasks),
            ("preconditions", self._conditions, self._max_tasks * _CONDITIONS),
        ):
            if number > limit:
                text = f"the search looked at {limit} {what}, the last task was {name}"
                raise self._explained(SearchLimitExceeded(what, limit, number, text).at(name))

    def _do(self, task: Primitive, depth: int, source: str, rest: Any, state: _State) -> _State:
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

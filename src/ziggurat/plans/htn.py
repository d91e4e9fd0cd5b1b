"""Planning with a hierarchical task network: methods decompose compound tasks until only calls of tools are left."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

import msgspec

from ziggurat.agents.flow import Flow
from ziggurat.agents.flow_program import FlowArguments
from ziggurat.core.codec import digest
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded, ServiceError
from ziggurat.core.failures import call_given
from ziggurat.core.settings import CheckedStruct, NonEmptyText, PositiveInt, checked
from ziggurat.core.tasks import closed
from ziggurat.journal.store import Store
from ziggurat.plans.building import plan_flow, prepared
from ziggurat.plans.nodes import PlanResult, Task
from ziggurat.tools.entry import Tool
from ziggurat.tools.toolbox import Toolbox

World = Mapping[str, Any]
"""What holds, by name: plain data."""


class Primitive(CheckedStruct, frozen=True):
    """A task that is one call of a tool.

    Texts in its arguments may refer to variables as ``{name}``, see `htn_flow`. Before it, its preconditions must hold,
    as those of a `Method`; after it, its effects hold.
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
    """One way to do a compound task: its subtasks in this order.

    Of the preconditions each name must have the value; a name that the world does not have fails. If the value is a
    function of the world, it must return True, and the name says what it tests. The description is for people.
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


class HtnStep(msgspec.Struct, frozen=True):
    """A step of a plan: a call of a tool.

    Its `depth` is how far its task is below the goal, and `source` the compound task that it is a part of, or its own
    tool if it is the goal.
    """

    tool: str
    arguments: dict[str, Any]
    depth: int
    source: str


class Refusal(msgspec.Struct, frozen=True):
    """Why a method of a compound task was not used: what did not hold, or what failed below it."""

    task: str
    method: str
    reason: str


class HtnPlan(msgspec.Struct, frozen=True):
    """A plan: what to do, in order, why other methods were not used, each reason once, and what holds after it."""

    steps: tuple[HtnStep, ...]
    refused: tuple[Refusal, ...] = ()
    world: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.steps)


class NoPlan(ServiceError):
    """The planner has found no plan for its goal; the last attempt failed at `task`, and `refused` says why."""

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


def _unmet(preconditions: Mapping[str, Any], world: World) -> str:
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


def _comparable(task: HtnTask | Method) -> HtnTask | Method:
    """Return a task or a method as it is compared with a recorded one: of functions, with their names alone."""
    if isinstance(task, Compound):
        return task
    tests = {name: None if callable(value) else value for name, value in task.preconditions.items()}
    if isinstance(task, Primitive):
        return msgspec.structs.replace(task, preconditions=tests)
    return msgspec.structs.replace(task, preconditions=tests, subtasks=[_comparable(each) for each in task.subtasks])


def _equal(one: object, other: object) -> bool:
    """Return whether two values are equal; a boolean is no number."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


_MAX_REFUSALS = 200
_MAX_REASONS = 10
"""How many reasons an error names."""

_CONDITIONS = 20
"""How many methods and preconditions are looked at, as a multiple of the tasks."""

_ABSENT = object()


class _State(msgspec.Struct):
    agenda: Any
    steps: Any
    count: int
    changes: int


class _Choice(msgspec.Struct):
    task: str
    methods: Sequence[Method]
    number: int
    depth: int
    state: _State


class _Search:
    """One search for a plan: depth-first, the most specific method first, going back where it fails."""

    def __init__(self, methods: Mapping[str, Sequence[Method]], limits: tuple[int, int, int], world: World) -> None:
        self._methods = methods
        self._max_depth, self._max_steps, self._max_tasks = limits
        self._world = dict(world)
        self._changed: list[tuple[str, Any]] = []  # the name and the earlier value of each change of the world
        self._refused: dict[Refusal, None] = {}
        self._choices: list[_Choice] = []
        self._tasks = self._conditions = 0  # how many were looked at

    def run(self, goal: HtnTask) -> HtnPlan:
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
                left = _State(rest, state.steps, state.count, state.changes)
                self._choices.append(_Choice(name, self._applicable(task), 0, depth, left))
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
        why = _unmet(task.preconditions, self._world)
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
            why = _unmet(method.preconditions, self._world)
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
        state = choice.state
        subtasks = choice.methods[choice.number].subtasks
        agenda = (subtasks, 0, choice.depth + 1, choice.task, state.agenda) if subtasks else state.agenda
        return _State(agenda, state.steps, state.count, state.changes)

    def _go_back(self, error: NoPlan) -> None:
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


class Planner:
    """Finds plans by decomposing tasks (HTN), that is the calls of tools that do a task where certain things hold.

    Of the methods whose preconditions hold, that with the most preconditions is tried first; of those with as many, the
    one that is listed first. If what follows fails, the next one is tried. The same arguments give the same plan.

    Args:
        max_depth: How many levels a task may be below the goal.
        max_tasks: How many tasks the search looks at before it gives up; and 20 times as many preconditions, effects
            and methods.
    """

    @checked
    def __init__(
        self,
        methods: Iterable[Method],
        *,
        max_depth: PositiveInt = 16,
        max_steps: PositiveInt = 256,
        max_tasks: PositiveInt = 20_000,
    ) -> None:
        self.methods: tuple[Method, ...] = tuple(methods)
        self._limits = max_depth, max_steps, max_tasks
        self._by_task: dict[str, list[Method]] = {}
        for each in sorted(self.methods, key=lambda method: -len(method.preconditions)):
            self._by_task.setdefault(each.task, []).append(each)

    def plan(self, goal: HtnTask, world: World | None = None) -> HtnPlan:
        """Return a plan that does the goal in a world.

        Raises:
            NoPlan: there is none: `NoMethodFound`, `NoPreconditionSatisfied`, `DepthExceeded`, `StepLimitExceeded`, as
                the last attempt has failed; or `SearchLimitExceeded`. Its `refused` says why each method was not used.
        """
        return _Search(self._by_task, self._limits, world or {}).run(goal)


@checked
def htn_flow(
    planner: Planner,
    goal: HtnTask,
    *,
    tools: Iterable[Tool] = (),
    name: NonEmptyText = "htn",
    store: str | Store | None = None,
    **arguments: Unpack[FlowArguments],
) -> Flow[dict[str, Any], PlanResult]:
    """Make a flow that plans how to do a task in the world it is run with, and then does the steps of the plan.

    ::

        research = htn_flow(planner, Compound("Research"), tools=[search, filings, summarise])
        run = await research.run({"company": "Acme", "company_type": "public"})

    Arguments of primitive tasks refer to what holds in the world by ``{name}``, and to the last output of a tool by the
    name of the tool, such as ``{search}``. A plan that is not found ends the run with the error of the planner. The
    other arguments are those of all flows, see `flow`.

    Raises:
        ConfigurationError: there is no tool for a primitive task.
    """
    named = {each: entry.service for each, entry in Toolbox(tools).entries.items()}
    _require_tools(planner, goal, named)

    async def run(ctx: Context, world: dict[str, Any]) -> PlanResult:
        plan = call_given(planner.plan, ctx, goal, world)
        tasks = [_task_of(each, named) for each in plan.steps]
        return await prepared(tasks, None, alike=True).run(ctx, dict(world))

    return plan_flow(
        run,
        {"ctx": Context, "world": dict[str, Any], "return": PlanResult},
        {"goal": digest(_comparable(goal)), "methods": digest([_comparable(each) for each in planner.methods])},
        name=name,
        store=store,
        tools=named.values(),
        agents=[],
        arguments=arguments,
    )


def _require_tools(planner: Planner, goal: HtnTask, tools: Iterable[str]) -> None:
    for task in (goal, *(each for method in planner.methods for each in method.subtasks)):
        if isinstance(task, Primitive) and task.tool not in tools:
            raise ConfigurationError(
                f"htn_flow() has no tool {task.tool!r}, which a primitive task needs; there are: "
                f"{', '.join(tools) or 'none'}. Pass it in tools="
            )


def _task_of(step: HtnStep, tools: dict[str, Any]) -> Task:
    name = re.sub(r"\W", "_", step.tool)
    return Task(name if name.isidentifier() else f"_{name}", tool=tools[step.tool], arguments=step.arguments)

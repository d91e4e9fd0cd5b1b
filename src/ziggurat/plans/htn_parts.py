"""The parts of HTN planning: tasks, methods, plans, and the errors of a search."""

from collections.abc import Mapping, Sequence
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

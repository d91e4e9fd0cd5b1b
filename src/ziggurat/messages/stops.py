"""Stops: why a run ended, as values. (The errors `Timeout` and `Denied` are in `core.errors`.)"""

__all__ = [
    "BudgetExceeded",
    "Cancelled",
    "Completed",
    "Denied",
    "Failed",
    "LoopDetected",
    "MaxSteps",
    "Stop",
    "StopCondition",
    "Suspended",
    "Timeout",
    "ToolCalled",
]

from msgspec import Struct


class _Stop(Struct, frozen=True, tag=True, tag_field="stop"):
    """Base of all stops."""


class Completed(_Stop, frozen=True):
    """The model answered and asked for no tool."""


class MaxSteps(_Stop, frozen=True):
    """The run took as many steps as it may."""

    limit: int


class ToolCalled(_Stop, frozen=True):
    """The tool that ends the run was called."""

    name: str


class StopCondition(_Stop, frozen=True):
    """A condition of the user's held."""

    reason: str = ""


class LoopDetected(_Stop, frozen=True):
    """The model did the same again and again."""

    tool: str
    count: int


class BudgetExceeded(_Stop, frozen=True):
    """A budget is used up."""

    kind: str
    limit: float
    used: float


class Timeout(_Stop, frozen=True):
    """The run used up its time."""

    seconds: float


class Denied(_Stop, frozen=True):
    """A person or policy refused to let the model be asked."""

    reason: str


class Suspended(_Stop, frozen=True):
    """The run waits for decisions; see `pending`."""


class Cancelled(_Stop, frozen=True):
    """The run was cancelled through its handle."""


class Failed(_Stop, frozen=True):
    """The run failed; the text and the kind of the error."""

    error: str
    kind: str


Stop = (
    Completed
    | MaxSteps
    | ToolCalled
    | StopCondition
    | LoopDetected
    | BudgetExceeded
    | Timeout
    | Denied
    | Suspended
    | Cancelled
    | Failed
)

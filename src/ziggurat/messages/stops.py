"""Stops: the reasons why a run ended, as values. (The errors `Timeout` and `Denied` are in `core.errors`.)"""

__all__ = [
    "BudgetExceeded",
    "Cancelled",
    "Completed",
    "Denied",
    "Failed",
    "Incomplete",
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
    """The base of all stops."""


class Completed(_Stop, frozen=True):
    """The model answered without tool calls."""


class Incomplete(_Stop, frozen=True):
    """The model's last answer is not whole.

    Attributes:
        finish: Why it ended: ``"length"``, ``"content_filter"``, ``"refusal"``, ``"paused"`` or ``"error"``.
    """

    finish: str


class MaxSteps(_Stop, frozen=True):
    """The run reached its maximum number of steps."""

    limit: int


class ToolCalled(_Stop, frozen=True):
    """The tool that ends the run was called."""

    name: str


class StopCondition(_Stop, frozen=True):
    """A stop condition of the user was met."""

    reason: str = ""


class LoopDetected(_Stop, frozen=True):
    """The model repeated the same tool calls too often."""

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
    """A person or policy denied a model call."""

    reason: str


class Suspended(_Stop, frozen=True):
    """The run waits for decisions; see `pending`."""


class Cancelled(_Stop, frozen=True):
    """The run was cancelled through its handle."""


class Failed(_Stop, frozen=True):
    """The run failed; `error` is the text and `kind` the type of the error."""

    error: str
    kind: str


Stop = (
    Completed
    | Incomplete
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

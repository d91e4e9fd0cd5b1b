"""Stops: the reasons why a run ended, as values."""

__all__ = [
    "BudgetExceeded",
    "Cancelled",
    "Completed",
    "Failed",
    "Incomplete",
    "LoopDetected",
    "MaxSteps",
    "ModelCallDenied",
    "Stop",
    "StopCondition",
    "Suspended",
    "TimedOut",
    "ToolCalled",
    "status_of",
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


class TimedOut(_Stop, frozen=True, tag="Timeout"):
    """The run used up its time."""

    seconds: float


class ModelCallDenied(_Stop, frozen=True, tag="Denied"):
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
    | TimedOut
    | ModelCallDenied
    | Suspended
    | Cancelled
    | Failed
)
"""The reason why a run ended."""


def status_of(stop: Stop) -> str:
    """Return the name by which records and lists of runs know a stop, such as ``"Completed"`` or ``"Timeout"``.

    It is the tag in the stop's JSON, which stays the same when a class is renamed.
    """
    return str(stop.__struct_config__.tag)

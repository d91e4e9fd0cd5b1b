"""Stops: the reasons why a run ended, as values."""

from asyncio import CancelledError
from typing import get_args

from msgspec import Struct

from ziggurat.core import errors


class _Stop(Struct, frozen=True, tag=True, tag_field="stop"): ...


class Completed(_Stop, frozen=True):
    """The model answered without tool calls."""


class Incomplete(_Stop, frozen=True):
    """The model's last answer is not whole.

    Attributes:
        finish: Why it ended: ``"length"``, ``"content_filter"``, ``"refusal"``, ``"paused"`` or ``"error"``.
    """

    finish: str


class MaxSteps(_Stop, frozen=True):
    """The run reached its maximum number of steps.

    Attributes:
        limit: That number.
    """

    limit: int


class ToolCalled(_Stop, frozen=True):
    """The tool that ends the run was called, and succeeded; see `until_tool_called`.

    Attributes:
        name: The name of the tool.
    """

    name: str


class StopCondition(_Stop, frozen=True):
    """The condition of `stop_when` was met.

    Attributes:
        reason: The text that the condition returned; empty if it returned true.
    """

    reason: str = ""


class LoopDetected(_Stop, frozen=True):
    """The model repeated the same tool calls too often, or a team handed over or planned in circles.

    Attributes:
        tool: The name of the tool, or what was repeated.
        count: How often in a row.
    """

    tool: str
    count: int


class BudgetExceeded(_Stop, frozen=True):
    """A budget is used up, or would be by the next call.

    Attributes:
        kind: What is used up: a field of `Budget`, such as ``"tokens"`` or ``"cost"``, or ``"handoffs"`` of a team.
        limit: Its value.
        used: What was used, in the same unit.
    """

    kind: str
    limit: float
    used: float


class TimedOut(_Stop, frozen=True, tag="Timeout"):
    """The run used up its time, or a wait or call in it did; then `AgentRun.cause` says which.

    Attributes:
        seconds: The time that it had, without the time spent waiting for people; 0 if that is unknown.
    """

    seconds: float


class ModelCallDenied(_Stop, frozen=True, tag="Denied"):
    """A person or policy denied a model call, or what else a flow needed, such as the answer to a question.

    Attributes:
        reason: Why, as the person or the policy says.
    """

    reason: str


class Suspended(_Stop, frozen=True):
    """The run waits for decisions, times or events, which are in `AgentRun.pending`; `resume` goes on with it."""


class Continued(_Stop, frozen=True):
    """The flow continues as new, in another run; see `continue_as_new`.

    Attributes:
        run_id: The id of that run.
    """

    run_id: str


class Cancelled(_Stop, frozen=True):
    """The run was cancelled: through its handle, or with the task that awaits it."""


class Failed(_Stop, frozen=True):
    """The run failed; `AgentRun.error` also says where.

    Attributes:
        error: The text of the error.
        kind: The name of its type, such as ``"ModelError"``.
    """

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
    | Continued
    | Cancelled
    | Failed
)
"""The reason why a run ended, as ``run.stop``; match on its classes: ``case BudgetExceeded(kind="cost")``."""


def natural_end(finish: str) -> Stop:
    """Return the stop for a reply without tool calls, by why it ended: whether it is whole is up to the provider."""
    return Incomplete(finish) if finish in _INCOMPLETE else Completed()


def status_of(stop: Stop) -> str:
    """Return the name by which records and lists of runs know a stop, such as ``"Completed"`` or ``"Timeout"``.

    It is the tag in the stop's JSON, which stays the same when a class is renamed.
    """
    return str(stop.__struct_config__.tag)


STATUSES: tuple[str, ...] = ("running", *(kind.__struct_config__.tag for kind in get_args(Stop)), "Quarantined")


def stop_of(error: BaseException) -> Stop:
    fact, error = errors.fact_of, errors.original_of(error)
    if isinstance(error, errors.Timeout):
        return TimedOut(fact(error, "seconds", float) or 0.0)
    if isinstance(error, errors.LimitExceeded) and not errors.is_transient(error):  # a transient one is busy
        limit, used = fact(error, "limit", float) or 0.0, fact(error, "used", float) or 0.0
        return BudgetExceeded(fact(error, "kind", str) or "calls", limit, used)
    if isinstance(error, errors.Denied):
        return ModelCallDenied(errors.text_of(error))
    if isinstance(error, errors.Suspend):
        return Suspended()
    if isinstance(error, CancelledError):
        return Cancelled()
    kind = errors.type_name_of(error)
    return Failed(errors.text_of(error) or kind, kind)


_INCOMPLETE = {
    "length": "the answer was cut at the limit of tokens: set ModelSettings(max_tokens=...) higher, or ask for less",
    "content_filter": "the provider's content filter withheld the answer or a part of it",
    "refusal": "the model refused to answer",
    "paused": "the model paused its answer more often than it is asked to continue",
    "error": "an error of the provider ended the answer",
}


def error_of(stop: Stop) -> errors.ServiceError:
    if isinstance(stop, TimedOut):
        return errors.Timeout(
            f"the run timed out after {round(stop.seconds, 2) or stop.seconds:g} s", seconds=stop.seconds
        )
    if isinstance(stop, BudgetExceeded):
        return errors.LimitExceeded(stop.kind, stop.limit, stop.used)
    if isinstance(stop, MaxSteps):
        return errors.LimitExceeded("steps", stop.limit, stop.limit)
    if isinstance(stop, Incomplete):
        refused = stop.finish in ("content_filter", "refusal")
        return errors.ModelError(_INCOMPLETE[stop.finish], kind="content_filter" if refused else "other")
    if isinstance(stop, ModelCallDenied):
        return errors.Denied(stop.reason)
    if isinstance(stop, Continued):
        next_id = stop.run_id
        return errors.ServiceError(
            f"the flow continues as the run {next_id!r}: resume({next_id!r}), or start() a handle"
        )
    if isinstance(stop, Failed):
        return errors.ServiceError(f"the run failed: {stop.kind}: {stop.error}")
    return errors.ServiceError(f"the run stopped: {stop}")

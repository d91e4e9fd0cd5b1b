"""Frozen: the form in which a call was approved, the only one that the tool's function may run."""

__all__ = ["Frozen", "frozen_in", "require_approved", "use_approval"]

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import NotRepeatable, ToolError
from ziggurat.core.path import is_beneath
from ziggurat.messages.model import Effect
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.results import text_of_error


class Frozen(Struct):
    """The approved call, and how often it has been run; if it acts once only, how it failed too.

    Attributes:
        call: The approved call.
        effect: That of its tool.
        path: Where it may be run.
        runs: How often it was run.
        failure: The error with which it ended.
        unknown: The error that says so, if it is unknown whether it took effect.
    """

    call: ToolCall
    effect: Effect
    path: str
    runs: int = 0
    failure: BaseException | None = None
    unknown: NotRepeatable | None = None


def frozen_in(ctx: Context) -> Frozen | None:
    """Return the approved call of this context, the only one the function may run; None if there is none."""
    return ctx.frozen if isinstance(ctx.frozen, Frozen) else None


def require_approved(call: ToolCall, agreed: ToolCall) -> None:
    """Raise ToolError unless the call has the name and arguments of the approved one."""
    if call.name != agreed.name or call.arguments != agreed.arguments:
        raise ToolError(f"{call.name} was called with other arguments than those that were approved; it was not run")


def use_approval(call: ToolCall, frozen: Frozen, ctx: Context) -> None:
    """Check that a call is the approved one, at its path, and not a second run of a tool with ``effect="once"``.

    Raises:
        ToolError: the call must not run.
    """
    if call is not frozen.call:
        require_approved(call, frozen.call)
    if ctx.path != frozen.path and not is_beneath(ctx.path, frozen.path):
        raise ToolError(f"{call.name} was approved at {frozen.path}, not at {ctx.path}; it was not run")
    if frozen.effect == "once" and frozen.runs:
        raise frozen.unknown or _second_run_error(frozen)
    frozen.runs += 1


def _second_run_error(frozen: Frozen) -> NotRepeatable:
    text = f"{frozen.call.name} acts once only and has been run; it was not run again"
    if frozen.failure is not None:
        text = f"{text_of_error(frozen.failure)} ({text})"
    return NotRepeatable(text, kind="permanent")

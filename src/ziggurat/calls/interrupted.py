"""Handle interrupted calls of tools with ``effect="once"``, which may or may not have taken effect."""

__all__ = ["settle_interrupted"]

from msgspec.structs import replace

from ziggurat.calls.gate import decided, is_waiting, item_of, suspend
from ziggurat.core.context import Context
from ziggurat.core.entries import Record
from ziggurat.core.errors import ToolError
from ziggurat.messages.agent import Deny, Happened
from ziggurat.messages.events import ApprovalDecided
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.tools.results import result_of

_MARK = "interrupted"


async def settle_interrupted(spec: ToolSpec, call: ToolCall, record: Record, ctx: Context) -> ToolResult | None:
    """Return the result of an interrupted call as reported by a person; None if it is to be run now.

    The approver in this process is not asked: one that approves everything would let the call run twice.

    Args:
        spec: The tool, with ``effect="once"``.
        call: The recorded call.
        record: Its record: an intent without a result.
        ctx: The context of the call.

    Raises:
        ToolError: the interruption is reported to the model, or a person decided not to run it again.
        Suspend: a person must find out whether it took effect.
        JournalCorrupt: the recorded decision belongs to another call.
    """
    if spec.interrupted == "retry_if_idempotent":
        return None
    unknown = f"{spec.name} was interrupted and acts once only, so it was not run again; "
    if spec.interrupted == "report":
        told = "whether it took effect is unknown: find out before you ask for it again"
        raise ToolError(unknown + told, kind="interrupted")
    reason = "it was interrupted, and nobody knows whether it took effect"
    item = item_of(call, ctx, reason, "tool", None, _MARK)
    if record.pending is not None and is_waiting(call, record, ctx, _MARK):
        item = replace(item, id=record.pending.id)
    if record.decided is None:
        await suspend(item, record, ctx)
    decision = decided(item, record)
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item.id, item.call, decision))
    if isinstance(decision, Happened):
        return result_of(decision.result, call)
    if isinstance(decision, Deny):
        raise ToolError(f"{unknown}whether it took effect is unknown: {decision.reason}", kind="interrupted")
    return None

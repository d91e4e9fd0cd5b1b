"""Handle interrupted calls of tools with ``effect="once"``, which may or may not have taken effect."""

__all__ = ["settle_interrupted"]

from msgspec.structs import replace

from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.entries import Record
from ziggurat.core.errors import JournalCorrupt, ToolError
from ziggurat.messages.agent import Deny, Happened, PendingItem, decision_of
from ziggurat.messages.approval import decide, is_named, item_id, pending_entry, written
from ziggurat.messages.events import ApprovalDecided
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.tools.results import result_of


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
    copy = ToolCall(call.id, call.name, call.arguments)
    reason = "it was interrupted, and nobody knows whether it took effect"
    item = PendingItem(item_id(call, ctx, "interrupted"), ctx.path, copy, reason, interrupted=True)
    if record.pending is not None and is_named(record.pending.id, call, ctx, "interrupted"):
        item = replace(item, id=record.pending.id)
    if record.pending is None:
        await written(ctx.scope[JOURNAL], pending_entry(item))
    if record.decided is None:
        await decide(item, None, ctx)
    assert record.decided is not None
    decision = decision_of(record.decided.decision)
    if record.decided.id != item.id:
        raise JournalCorrupt(f"the decision at {ctx.path} is on another call ({record.decided.id})")
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item.id, copy, decision))
    if isinstance(decision, Happened):
        return result_of(decision.result, call)
    if isinstance(decision, Deny):
        raise ToolError(f"{unknown}whether it took effect is unknown: {decision.reason}", kind="interrupted")
    return None

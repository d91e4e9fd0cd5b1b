"""Interrupted calls of tools that act once: whether they took effect is unknown. Report, ask, or run again."""

__all__ = ["settled"]

from ziggurat.core.codec import digest
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.entries import Record
from ziggurat.core.errors import JournalCorrupt, ToolError
from ziggurat.messages.agent import Deny, Happened, PendingItem, decision_of
from ziggurat.messages.approval import decide, pending_entry, written
from ziggurat.messages.events import ApprovalDecided
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.tools.results import result_of


async def settled(spec: ToolSpec, call: ToolCall, record: Record, ctx: Context) -> ToolResult | None:
    """Return what came of an interrupted call, as a person says; None if it is to be run now.

    Nobody in this process is asked: who lets through whatever is asked would have it done twice.

    Args:
        spec: The tool, which acts once.
        call: The call as it is on record.
        record: What is known of it: an intent without a result.
        ctx: Where it stands.

    Raises:
        ToolError: it is to be reported, or a person leaves it at that.
        Suspend: a person is to find out.
    """
    if spec.interrupted == "retry_if_idempotent":
        return None
    unknown = f"{spec.name} was interrupted and acts once only, so it was not run again; "
    if spec.interrupted == "report":
        told = "whether it took effect is unknown: find out before you ask for it again"
        raise ToolError(unknown + told, kind="interrupted")
    copy = ToolCall(call.id, call.name, call.arguments)
    reason = "it was interrupted, and nobody knows whether it took effect"
    key = digest([ctx.path, call.name, call.arguments, "interrupted"])
    item = PendingItem(key, ctx.path, copy, reason, interrupted=True)
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

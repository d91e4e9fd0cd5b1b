"""The approval gate of tool calls: what is executed is, byte for byte, what was approved."""

__all__ = ["APPROVALS", "Agreed", "Approvals", "Approver", "Predicate", "Rule", "agree"]

from collections.abc import Callable

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.entries import Record
from ziggurat.core.errors import Denied
from ziggurat.messages.agent import Decision, Deny, Modify
from ziggurat.messages.approval import (
    APPROVALS,
    Approvals,
    Approver,
    Judgement,
    Predicate,
    Rule,
    decision_for,
    item_of,
    judge,
)
from ziggurat.messages.canonical import canonical
from ziggurat.messages.events import ApprovalDecided
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall

Check = Callable[[ToolCall], None] | None


class Agreed(Struct, frozen=True):
    """A call that has passed the gate.

    Attributes:
        call: What is executed.
        id: The id of the item that was decided on; empty if the rules let it through.
    """

    call: ToolCall
    id: str = ""


async def agree(spec: ToolSpec, check: Check, call: ToolCall, record: Record | None, ctx: Context) -> Agreed:
    """Bring a call through the gate: judge it by the rules, ask where they say so, and freeze what was agreed to.

    Args:
        spec: The tool.
        check: Checks arguments against the tool's schema.
        call: The call as the hooks left it, or the one that waits already.
        record: What is known of this call.
        ctx: Where it stands.

    Raises:
        Denied: a rule or a person said no.
        InvalidArguments: it cannot be shown to a person as it is, or a decision from elsewhere changed it to what
            does not fit.
        ConfigurationError: the approver in this process answered with what cannot be done.
        Suspend: nobody in this process decides.
    """
    if record is not None and record.pending is not None:
        frozen = call
        judgement = await _again(spec, frozen, record, ctx)
    else:
        if not spec.approval and not any(gate.concern(spec.name) for gate in ctx.scope.get(APPROVALS) or ()):
            return Agreed(call)
        frozen = ToolCall(call.id, call.name, call.arguments)  # nobody else has it in hand
        readable = canonical(frozen.arguments, call.name)
        judgement = await judge(spec.name, readable, ctx, "tool", always=spec.approval)
        if judgement.verdict == "allow":
            return Agreed(frozen)
        if judgement.verdict == "deny":
            raise await _denied(frozen, judgement.reason, ctx)
    item, decision = await decision_for(frozen, judgement, record, ctx, "tool", check)
    return Agreed(await _as_decided(decision, frozen, check, ctx), item.id)


async def _again(spec: ToolSpec, frozen: ToolCall, record: Record, ctx: Context) -> Judgement:
    """Return who decides on a call that waits already; the rules are not judged again where a decision is known."""
    if record.decided is not None:
        return Judgement("ask")
    readable = canonical(frozen.arguments, frozen.name)
    judgement = await judge(spec.name, readable, ctx, "tool", always=True)
    if judgement.verdict == "deny":
        raise await _denied(frozen, judgement.reason, ctx)
    return judgement


async def _denied(call: ToolCall, reason: str, ctx: Context) -> Denied:
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item_of(call, ctx).id, call, Deny(reason)))
    return Denied(f"denied: {reason}")


async def _as_decided(decision: Decision, frozen: ToolCall, check: Check, ctx: Context) -> ToolCall:
    if isinstance(decision, Deny):
        raise Denied(f"denied: {decision.reason}")
    if not isinstance(decision, Modify):
        return frozen
    readable = canonical(decision.arguments, frozen.name)
    changed = ToolCall(frozen.id, frozen.name, decision.arguments)
    if check is not None:
        check(changed)
    judgement = await judge(frozen.name, readable, ctx, "tool")
    if judgement.verdict == "deny":  # also for who may change a call
        raise Denied(f"denied: {judgement.reason}")
    return changed

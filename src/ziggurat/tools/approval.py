"""The approval gate of tool calls: the call that is executed is byte for byte the one that was approved."""

__all__ = ["APPROVALS", "Agreed", "Approvals", "Approver", "Predicate", "Rule", "agree"]

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
    Normalize,
    Predicate,
    Rule,
    decision_for,
    item_of,
    judge,
)
from ziggurat.messages.events import ApprovalDecided
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall


class Agreed(Struct, frozen=True):
    """A call that has passed the gate.

    Attributes:
        call: The call to execute.
        id: The id of the approved item; empty if the rules allowed the call.
    """

    call: ToolCall
    id: str = ""


async def agree(spec: ToolSpec, normalize: Normalize, call: ToolCall, record: Record | None, ctx: Context) -> Agreed:
    """Check a call against the approval rules, ask for a decision if they require one, and freeze the approved call.

    Args:
        spec: The tool.
        normalize: Returns a call with the arguments that the tool will receive.
        call: The normalized call after the hooks, or the recorded one that is already pending.
        record: The record of this call, if any.
        ctx: The context of the call.

    Raises:
        Denied: a rule or a person said no.
        InvalidArguments: a recorded decision changed the arguments to ones that do not fit.
        ConfigurationError: the approver in this process returned an invalid decision.
        Suspend: there is no approver in this process.
    """
    if record is not None and record.pending is not None:
        frozen = call
        judgement = await _judge_pending(spec, frozen, record, ctx)
    else:
        if not spec.approval and not any(gate.concern(spec.name) for gate in ctx.scope.get(APPROVALS) or ()):
            return Agreed(call)
        frozen = ToolCall(call.id, call.name, call.arguments)  # a copy that no other code can reach
        judgement = await judge(spec.name, frozen.arguments, ctx, "tool", always=spec.approval)
        if judgement.verdict == "allow":
            return Agreed(frozen)
        if judgement.verdict == "deny":
            raise await _denial(frozen, judgement.reason, ctx)
    item, decision = await decision_for(frozen, judgement, record, ctx, "tool", normalize)
    return Agreed(await _apply_decision(decision, frozen, normalize, ctx), item.id)


async def _judge_pending(spec: ToolSpec, frozen: ToolCall, record: Record, ctx: Context) -> Judgement:
    """Return the rules' verdict on a call that is already pending; skip the rules if a decision is recorded."""
    if record.decided is not None:
        return Judgement("ask")
    judgement = await judge(spec.name, frozen.arguments, ctx, "tool", always=True)
    if judgement.verdict == "deny":
        raise await _denial(frozen, judgement.reason, ctx)
    return judgement


async def _denial(call: ToolCall, reason: str, ctx: Context) -> Denied:
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item_of(call, ctx).id, call, Deny(reason)))
    return Denied(f"denied: {reason}")


async def _apply_decision(decision: Decision, frozen: ToolCall, normalize: Normalize, ctx: Context) -> ToolCall:
    if isinstance(decision, Deny):
        raise Denied(f"denied: {decision.reason}")
    if not isinstance(decision, Modify):
        return frozen
    changed = normalize(ToolCall(frozen.id, frozen.name, decision.arguments))
    judgement = await judge(frozen.name, changed.arguments, ctx, "tool")
    if judgement.verdict == "deny":  # a person's change cannot override a rule that denies
        raise Denied(f"denied: {judgement.reason}")
    return changed

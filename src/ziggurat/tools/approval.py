"""The gate before a tool call: who must agree, and what is executed is exactly what was agreed to."""

__all__ = ["APPROVALS", "Approvals", "Approver", "decide", "item_of", "needed", "pending_entry"]

from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase

from ziggurat.core.codec import digest
from ziggurat.core.context import AMBIENT, Context
from ziggurat.core.entries import Pending
from ziggurat.core.errors import ConfigurationError, Suspend
from ziggurat.core.scope import Key
from ziggurat.messages.agent import Decision, PendingItem
from ziggurat.messages.events import ApprovalDecided, ApprovalRequested
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall

Approver = Callable[[PendingItem], Decision | Awaitable[Decision]]
"""Decides at once, sync or async; without one the run is suspended until somebody does."""


class Approvals:
    """Which calls need a decision, beside the tools that always do, and who makes it.

    ::

        Agent(model, tools=[...], approvals=Approvals("delete_*", "send_mail"))

    Args:
        patterns: Names of tools, with ``*`` and ``?``.
        approver: Asked in this process; None suspends the run.
    """

    def __init__(self, *patterns: str, approver: Approver | None = None) -> None:
        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern:
                raise ConfigurationError(f"Approvals() takes patterns of tools' names, as 'delete_*'; got {pattern!r}")
        if approver is not None and not callable(approver):
            raise ConfigurationError(f"the approver must be callable with a PendingItem, got {approver!r}")
        self.patterns = patterns
        self.approver = approver

    def concern(self, name: str) -> bool:
        """Tell whether calls of this tool need a decision."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def __repr__(self) -> str:
        return f"Approvals({', '.join(map(repr, self.patterns))})"


APPROVALS: Key[tuple[Approvals, ...]] = Key("approvals")


def needed(spec: ToolSpec, ctx: Context) -> tuple[bool, Approver | None]:
    """Tell whether a call needs a decision, and who in this process makes it."""
    rules = ctx.scope.get(APPROVALS) or ()
    concerned = [rule for rule in rules if spec.approval or rule.concern(spec.name)]
    approver = next((rule.approver for rule in reversed(concerned) if rule.approver is not None), None)
    return spec.approval or bool(concerned), approver


def item_of(call: ToolCall, ctx: Context) -> PendingItem:
    """Return what is waited for when this frozen call needs a decision."""
    return PendingItem(digest([ctx.path, call.name, call.arguments]), ctx.path, call)


async def decide(item: PendingItem, approver: Approver | None, ctx: Context) -> Decision:
    """Get a decision upon a frozen call.

    Raises:
        Suspend: nobody in this process decides.
    """
    if ctx.listens(ApprovalRequested):
        await ctx.emit(ApprovalRequested(ctx.path, item))
    if approver is None:
        raise Suspend((item,))
    token = AMBIENT.set(ctx.at("approval"))  # an agent that the approver asks is a part of this run
    try:
        answer = approver(item)
        decision = answer if isinstance(answer, Decision) else await answer
    finally:
        AMBIENT.reset(token)
    if not isinstance(decision, Decision):
        raise ConfigurationError(
            f"the approver must return Approve(), Deny(reason) or Modify(arguments), got {decision!r}"
        )
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item.id, item.call, decision))
    return decision


def pending_entry(item: PendingItem) -> Pending:
    """Return the entry that records what is waited for."""
    return Pending(item.path, item.id, item.call.name, item.call, item.reason)

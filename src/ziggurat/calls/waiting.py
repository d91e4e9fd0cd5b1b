"""Waiting: a place in a flow, a tool or a hook that waits for an answer, a time or an event, for days if need be."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.call_decision import CallDecision, Settle, refuse
from ziggurat.calls.step import place_of
from ziggurat.core.codec import as_type
from ziggurat.core.context import AMBIENT, JOURNAL, Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.journal import LocalJournal, journal_of
from ziggurat.core.scope import Key
from ziggurat.messages.agent import Decision, PendingItem, decision_of
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.guarded_call import frozen_in

if TYPE_CHECKING:
    from ziggurat.calls.inbox import Inbox

INBOX: "Key[Callable[[str, LocalJournal], Inbox]]" = Key("inbox")
"""Returns the inbox of the run of an id with a record."""


def inbox_of(ctx: Context) -> "Inbox":
    """Return the inbox of the run, always the same; it is made when something waits for an event."""
    run = ctx.scope[AGENT_CALL].outermost
    if run.inbox is None:
        run.inbox = ctx.scope[INBOX](ctx.run_id, journal_of(ctx))
    return run.inbox


def waiting_place(name: str) -> Context:
    """Return the context of the next wait of this name, below the function that is running."""
    ambient = AMBIENT.get()
    if ambient is None or JOURNAL not in ambient.scope:
        raise ConfigurationError(f"{name}() belongs into a flow, a tool or a hook of a run; here is none")
    if ambient.leaf:
        raise ConfigurationError(
            f"{ambient.path} is recorded as a whole, so it cannot wait: call {name}() in the flow, and pass on what "
            "comes of it"
        )
    frozen = frozen_in(ambient)
    if frozen is not None and frozen.effect == "once":
        raise ConfigurationError(
            f"{frozen.call.name} acts once only, and would be interrupted by its {name}(): wait before, in a tool of "
            "its own, or let a person approve the call"
        )
    return place_of(ambient, name)


async def decision_on(item: PendingItem, ctx: Context, settle: Settle | None = None) -> Decision:
    """Return the recorded decision on what waits here, or the one that `settle` finds now; else have the run wait."""
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.decided is not None:
        return decision_of(record.decided.decision)
    if record is not None and record.pending is not None:
        item = replace(item, call=as_type(record.pending.request, ToolCall))
    elif journal.refusing:
        refuse(item.call.name, ctx, journal)
    return await CallDecision(item, record, ctx).reach(settle)

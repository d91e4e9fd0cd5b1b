"""Acts: calls that act once only and have begun; what came of them is found out before others take their place."""

from ziggurat.calls.wait import item_of, wait
from ziggurat.core.codec import as_error, as_type
from ziggurat.core.context import Context
from ziggurat.core.errors import NotRepeatable, Suspend, is_transient
from ziggurat.core.failures import NO_OUTCOMES
from ziggurat.core.path import is_beneath, is_tool_call
from ziggurat.journal.entries import Failure, Intent, Record, Result
from ziggurat.journal.journal import journal_of
from ziggurat.messages.agent import Decision, DidNotHappen, Happened, decision_of
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.tools.results import kind_of, result_of, text_of_error


def failure_since(record: Record, ctx: Context) -> ToolResult | None:
    """Return the error with which a begun call has ended its agent, which asks for it again; None if it has not."""
    for entry in reversed(journal_of(ctx).entries):
        if entry is record.intent:
            break
        if isinstance(entry, Result) and entry.path == ctx.path:
            result = as_type(entry.value, ToolResult)
            if result.error != "interrupted":
                return result
    return None


async def decision_on_interrupted(call: ToolCall, ctx: Context) -> Decision:
    reason = "it was interrupted, and nobody knows whether it took effect"
    record = journal_of(ctx).find(ctx.path)
    return await wait(item_of(call, ctx, reason=reason, interrupted=True, record=record), ctx)


async def after_acts(error: Exception, ctx: Context) -> Exception:
    """Return the error of a call below which others may have acted: it tells of those that act once only."""
    acts = journal_of(ctx).acts_before(error)
    if not acts or isinstance(error, NO_OUTCOMES):
        return error
    notes: list[str] = []
    waiting: list[object] = []
    unknown = False
    for intent in acts:
        if intent.path == ctx.path or not is_beneath(intent.path, ctx.path):
            continue
        try:
            note, known = await what_came_of(intent, Context(intent.path, ctx.emit, ctx.watch, ctx.scope))
        except Suspend as suspend:
            waiting += suspend.pending
            continue
        notes += [note] if note else []
        unknown = unknown or not known
    if waiting:
        raise Suspend(tuple(waiting)) from error
    if not notes or isinstance(error, NotRepeatable):
        return error
    text = f"{text_of_error(error)}; do not repeat it blindly, what was done is done: {'; '.join(notes)}"
    failed = NotRepeatable(text, kind="interrupted" if unknown else kind_of(error))
    failed.transient, failed.original, failed.__cause__ = is_transient(error), error, error
    return failed


async def what_came_of(intent: Intent, ctx: Context) -> tuple[str, bool]:
    """Return the outcome of a call that was started, empty if it did nothing, and whether that is known."""
    name, record = intent.name, journal_of(ctx).find(intent.path)
    assert record is not None  # it has an intent
    unknown = f"{name} was interrupted, and whether it took effect is unknown"
    # What the function returned comes first: the outcome may be an error of the layers around it, or of a hook.
    outcome = record.returned or (record.outcomes[-1] if record.outcomes else None)
    if isinstance(outcome, Failure):  # of a step, or with which a tool has ended its agent
        return (unknown, False) if kind_of(as_error(outcome.error)) == "interrupted" else ("", True)
    if outcome is not None:
        if is_tool_call(intent.path):
            result = as_type(outcome.value, ToolResult)
        else:  # of a step
            result = result_of(as_type(outcome.value, object), ToolCall("", name, "{}"))
        if result.error and (result.error != "interrupted" or record.never_began or failure_since(record, ctx)):
            return "", True
        return f"{name}: {result.text:.500}", result.error is None
    decision = None if record.decided is None else decision_of(record.decided.decision)
    if decision is None and (intent.once == "ask" or record.pending is not None):
        await decision_on_interrupted(as_type(intent.request, ToolCall), ctx)
    if isinstance(decision, Happened):
        return f"{name}: {decision.result:.500}", True
    if isinstance(decision, DidNotHappen):
        return "", True
    return unknown, False

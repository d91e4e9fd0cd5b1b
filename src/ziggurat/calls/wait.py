"""Waits: an approval, a question, an unknown outcome, a timer and an event are one thing, a pending item.

look up the record > compare > the recorded decision > too late? > record that it waits > settle it here, or suspend

Whether a decision fits what waits is checked here, too, and the form in which it is recorded.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.agent_call import AGENT_CALL, note_left, place_of
from ziggurat.core.codec import as_type, canonical, decode, digest, encode, plain
from ziggurat.core.context import AMBIENT, JOURNAL, RUN_ID, Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments, JournalCorrupt, Suspend, ToolError
from ziggurat.journal.entries import Decided, Pending, Record
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.agent import (
    Answer,
    Approve,
    Decision,
    Deny,
    DidNotHappen,
    Happened,
    Modify,
    PendingItem,
    Stage,
    decision_of,
    refuse,
)
from ziggurat.messages.arguments import canonical as canonical_arguments
from ziggurat.messages.events import ApprovalDecided, ApprovalRequested
from ziggurat.messages.message import ToolCall
from ziggurat.messages.model import ModelRequest
from ziggurat.tools.guarded_call import frozen_in

Normalize = Callable[[ToolCall], ToolCall]
"""Returns a call with the arguments that will be used, as canonical JSON; raises InvalidArguments."""


class Question(Struct, frozen=True, omit_defaults=True):
    """What is asked, as it is recorded."""

    question: str
    answer: dict[str, Any]
    default: tuple[Any, ...] = ()
    key: str = ""


def question_of(call: ToolCall) -> Question:
    return decode(call.arguments, Question)


class Awaited(Struct, frozen=True, omit_defaults=True):
    """The event that a run waits for, as it is recorded."""

    event: str
    value: dict[str, Any]
    default: tuple[Any, ...] = ()


def awaited_in(call: ToolCall) -> Awaited:
    return decode(call.arguments, Awaited)


def expired(item: PendingItem, now: float) -> Decision | None:
    """Return the decision on what has waited too long: the default of a question, or a denial; None if it may wait."""
    if item.until is None or now < item.until or item.stage == "event":
        return None
    if item.stage == "timer":
        return Answer(None)
    default = question_of(item.call).default if item.stage == "question" else ()
    until = datetime.fromtimestamp(item.until, UTC)
    return Answer(default[0]) if default else Deny(f"expired: nobody had decided by {until:%Y-%m-%d %H:%M:%S} UTC")


def fitting(item: PendingItem, decision: Decision, normalize: Normalize | None) -> Decision:
    """Return a decision as it is recorded: with changed arguments as JSON text, an answer as plain data.

    `normalize` is None for an unknown tool. Raises InvalidArguments if the decision cannot be carried out.
    """
    wrong: str | None = None
    if isinstance(decision, Deny):
        if not isinstance(decision.reason, str):
            wrong = f"the reason of a denial is text, got {decision.reason!r:.200}"
    elif item.stage in ("question", "event"):
        return _fitting_answer(item, decision)
    elif item.interrupted:
        if not isinstance(decision, (Happened, DidNotHappen)):
            wrong = _UNSETTLED
        elif isinstance(decision, Happened) and not isinstance(decision.result, str):
            wrong = f"the result of a call is text, got {decision.result!r:.200}"
    elif isinstance(decision, Modify):
        decision = Modify(decision.text)
        canonical_arguments(decision.text, item.call.name)
        if normalize is not None:
            normalize(ToolCall(item.call.id, item.call.name, decision.text))
    elif not isinstance(decision, Approve):
        wrong = f"a decision is Approve(), Deny(reason) or Modify(arguments); got {decision!r:.200}"
    if wrong is not None:
        raise InvalidArguments(wrong)
    return decision


def _fitting_answer(item: PendingItem, decision: Decision) -> Answer:
    if not isinstance(decision, Answer):
        raise InvalidArguments(f"answer with Answer(value) or Deny(reason); got {decision!r:.200}")
    schema = question_of(item.call).answer if item.stage == "question" else awaited_in(item.call).value
    try:
        answer = Answer(plain(decision.value))
    except TypeError as error:
        raise InvalidArguments(f"an answer is plain JSON data: {error}") from error
    wrong = misfit_of_schema(schema, answer.value)
    if wrong is not None:
        raise InvalidArguments(wrong)
    return answer


_UNSETTLED = (
    "the call was interrupted, and it is asked whether it took effect: decide Happened(result), DidNotHappen() to run "
    "it, or Deny(reason) to leave it at that"
)


def normalize_request(call: ToolCall) -> ToolCall:
    """Return a call of a model with the whole request as it will be sent, as canonical JSON."""
    return ToolCall(call.id, call.name, request_arguments(request_in(call), call.name))


def request_arguments(request: ModelRequest, name: str) -> str:
    return canonical_arguments(encode(request).decode(), name)


def request_in(call: ToolCall) -> ModelRequest:
    try:
        return decode(call.arguments, ModelRequest)
    except JournalCorrupt as error:
        raise InvalidArguments(f"that is not a request to {call.name}: {error}") from error


_FORMATS = {
    "date": (date, "a date such as 2026-01-31"),
    "time": (time, "a time such as 18:30:00"),
    "date-time": (datetime, "a date and time such as 2026-01-31T18:30:00+01:00"),
    "duration": (timedelta, "a duration such as P1DT12H"),
    "uuid": (UUID, "a UUID"),
    "decimal": (Decimal, "a decimal number, as text"),
}
_PLAIN = {"boolean": bool, "integer": int, "number": float, "string": str, "null": type(None)}


def misfit_of_schema(schema: dict[str, Any], value: object) -> str | None:
    if not schema:
        return None
    if schema.keys() == {"enum"}:
        choices = schema["enum"]
        fits = any(canonical(value) == canonical(each) for each in choices)
        return None if fits else f"it is one of {', '.join(map(repr, choices))}, got {value!r:.200}"
    if schema.keys() == {"type"} and schema["type"] in _PLAIN:
        kind = _PLAIN[schema["type"]]
        fits = isinstance(value, (float, int) if kind is float else kind) and (
            kind is bool or not isinstance(value, bool)
        )
        return None if fits else f"it is of the type {schema['type']}, got {value!r:.200}"
    if schema.keys() == {"type", "format"} and schema["format"] in _FORMATS:
        of_format, words = _FORMATS[schema["format"]]
        try:
            msgspec.convert(value, of_format)
        except msgspec.ValidationError:
            return f"it is {words}, got {value!r:.200}"
        return None
    from ziggurat.tools.validator import SchemaValidator

    problems = SchemaValidator(schema, "the value").problems(value)
    return "; ".join(problems) or None


Settle = Callable[[PendingItem], Awaitable[tuple[Decision, int] | None]]
"""Returns a decision as it is recorded, and the number of its item in the run's inbox, 0 for none; None to wait on."""


async def wait(item: PendingItem, ctx: Context, settle: Settle | None = None) -> Decision:
    """Return the decision on what waits at a path: the recorded one, or the one that time or `settle` makes now."""
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    is_call = item.stage in ("tool", "model")  # which runs in its frozen form on record, as its station has looked up
    try:
        if not is_call:
            if record is not None and not _is_same(item, record, journal):
                record = None  # nobody has decided: it is asked anew
            elif record is not None and record.pending is not None:
                item = replace(item, call=as_type(record.pending.request, ToolCall))
            if journal.refusing and (record is None or record.pending is None):
                refuse(item.call.name, ctx, journal)
        item = as_recorded(item, record)
        if record is None or record.decided is None:
            decision = await _decide(item, record, ctx, settle)
        else:
            decision = _decided(item, record.decided)
            if not is_call:
                return decision  # it was reported when it was made, and is used whenever the run is continued
        await report(item, decision, ctx)
        return decision
    except BaseException as error:
        if not is_call:
            note_left(AMBIENT.get(), error)
        raise


def _is_same(item: PendingItem, record: Record, journal: LocalJournal) -> bool:
    """Return whether an item is the recorded one; raise if that was decided, and is another."""
    if record.pending is None:
        return True
    recorded = as_type(record.pending.request, ToolCall)
    if recorded.arguments == item.call.arguments:
        return True
    kept = journal.screened(Pending(item.path, item.id, item.call.name, item.call))
    if _compared(recorded) == _compared(as_type(kept.request, ToolCall)):
        return True
    if journal.refusing or record.decided is not None:
        raise journal.refuse(
            f"{item.path}: on record is {_shown(recorded)}, and this code has {_shown(item.call)}: resume the run with "
            "the code as it was; a question whose text varies takes a key="
        )
    return False


def as_recorded(item: PendingItem, record: Record | None) -> PendingItem:
    pending = None if record is None else record.pending
    return item if pending is None else replace(item, id=pending.id, reason=pending.reason, until=pending.until)


def _decided(item: PendingItem, decided: Decided) -> Decision:
    if decided.id != item.id:
        raise JournalCorrupt(f"the decision at {item.path} is on another call ({decided.id})")
    decision = decision_of(decided.decision)
    if decided.digest and decided.digest != _digest_of(decision):
        raise ToolError(
            f"{item.call.name} was decided on, but the decision was not kept on record as it was made: nothing was "
            "run; ask for it again",
            kind="interrupted",
        )
    return decision


async def _decide(item: PendingItem, record: Record | None, ctx: Context, settle: Settle | None) -> Decision:
    """Return and record the decision that follows when the time is over, or that `settle` returns."""
    journal, posted = journal_of(ctx), 0
    # An approver here may take long, and what waits for it must be seen elsewhere.
    write = journal.write if settle is not None and item.needs_decision else journal.note
    decision = None if journal.refusing else expired(item, ctx.clock.now())
    if decision is None:
        if record is None or record.pending is None:
            call = replace(item.call)
            await write(Pending(item.path, item.id, call.name, call, item.reason, item.until, journal.watch.elapsed))
        if ctx.listens(ApprovalRequested) and item.needs_decision:
            await ctx.emit(ApprovalRequested(ctx.path, item))
        settled = None if settle is None or journal.refusing else await settle(item)
        if settled is None:
            raise Suspend((item,))
        decision, posted = settled
    caller = ctx.scope.get(AGENT_CALL)
    worked = None if caller is None else caller.worked()
    await write(Decided(ctx.path, item.id, decision, journal.watch.elapsed, worked, posted, _digest_of(decision)))
    return decision


def _digest_of(decision: Decision) -> str:
    return digest(decision.text) if isinstance(decision, Modify) else ""


async def report(item: PendingItem, decision: Decision, ctx: Context) -> None:
    if ctx.listens(ApprovalDecided) and item.needs_decision:
        await ctx.emit(ApprovalDecided(ctx.path, item.id, replace(item.call), decision))


# -- items -----------------------------------------------------------------------------------------------------------


def item_of(
    call: ToolCall,
    ctx: Context,
    stage: Stage = "tool",
    *,
    reason: str = "",
    until: float | None = None,
    interrupted: bool = False,
) -> PendingItem:
    """Return what is asked about a call; its id names the run, so that a decision fits no other run."""
    run_id = ctx.scope.get(RUN_ID) or ""
    marks = ("interrupted",) if interrupted else ()
    item_id = digest([run_id, ctx.path, call.name, call.arguments, *marks])
    copy = replace(call)  # that no other code can reach
    return PendingItem(item_id, ctx.path, copy, reason, stage, until, interrupted)


def _compared(call: ToolCall) -> dict[str, Any]:
    """Return what a wait is compared by: neither when it ends, nor what follows then, nor a text that has a key."""
    fields = decode(call.arguments, dict[str, Any])
    left_out = {"default", "seconds", "until", *(("question",) if "key" in fields else ())}
    return {name: value for name, value in fields.items() if name not in left_out}


def _shown(call: ToolCall) -> str:
    return f"{call.name} {canonical(_compared(call)).decode():.300}"


def waiting_call(record: Record | None, ctx: Context) -> ToolCall | None:
    """Return a copy of the call that waits here; None if none does, or the recorded one does not match its id."""
    if record is None or record.pending is None:
        return None
    call = as_type(record.pending.request, ToolCall)
    return replace(call) if item_of(call, ctx).id == record.pending.id else None


def waiting_place(name: str) -> Context:
    """Return the context of the next wait of this name, below the function that is running."""
    ambient = AMBIENT.get()
    if ambient is None or JOURNAL not in ambient.scope:
        raise ConfigurationError(f"{name}() belongs into a flow, a tool or a hook of a run; here is none")
    if ambient.charges is not None:
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

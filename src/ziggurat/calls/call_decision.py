"""The decision on a call: what is asked, whether it was decided, whether a decision fits, and when it is too late.

Calls of tools and models wait for one at the `gate`, calls that were interrupted if it is unknown whether they took
effect (`once`), and every `question`.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core.codec import as_type, canonical, decode, digest, plain
from ziggurat.core.context import RUN_ID, Context
from ziggurat.core.errors import InvalidArguments, JournalCorrupt, Suspend, ToolError
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
)
from ziggurat.messages.canonical import canonical as canonical_arguments
from ziggurat.messages.events import ApprovalDecided, ApprovalRequested
from ziggurat.messages.parts import ToolCall
from ziggurat.messages.pending import recorded_items

Normalize = Callable[[ToolCall], ToolCall]
"""Returns a call with the arguments that will be used, as canonical JSON; raises InvalidArguments."""

Settle = Callable[[PendingItem], Awaitable[Decision | tuple[Decision, int] | None]]
"""Returns a decision that fits, as an approver in this process makes it, None to wait on.

With what was sent to the run, it is a pair: the decision, and the number of the item in the run's inbox.
"""


class CallDecision:
    """The decision on the call at a path: the recorded one, one that somebody makes in this process, or none yet."""

    __slots__ = ("_ctx", "_record", "item")

    def __init__(self, item: PendingItem, record: Record | None, ctx: Context) -> None:
        pending = None if record is None else record.pending
        if pending is not None:
            item = replace(item, id=pending.id, reason=pending.reason, until=pending.until)
        self.item: PendingItem = item
        self._record = record
        self._ctx = ctx

    @property
    def recorded(self) -> Decision | None:
        """The recorded decision; None if there is none yet."""
        decided = None if self._record is None else self._record.decided
        if decided is None:
            return None
        if decided.id != self.item.id:
            raise JournalCorrupt(f"the decision at {self.item.path} is on another call ({decided.id})")
        decision = decision_of(decided.decision)
        if decided.digest and decided.digest != _digest_of(decision):
            raise ToolError(
                f"{self.item.call.name} was decided on, but the decision was not kept on record as it was made: "
                "nothing was run; ask for it again",
                kind="interrupted",
            )
        return decision

    async def reach(self, settle: Settle | None = None) -> Decision:
        """Return the decision: the recorded one, what follows when its time is over, or what `settle` returns."""
        decision, ctx, posted = self.recorded, self._ctx, 0
        if decision is None:
            journal = journal_of(ctx)
            # An approver here may take long, and what waits for it must be seen elsewhere.
            write = journal.write if settle is not None and self.item.needs_decision else journal.note
            decision = None if journal.refusing else expired(self.item, ctx.clock.now())
            if decision is None:
                await self._wait(journal, write)
                settled = None if settle is None or journal.refusing else await settle(self.item)
                decision, posted = settled if isinstance(settled, tuple) else (settled, 0)
            if decision is None:
                raise Suspend((self.item,))
            decision = recorded_form(decision)
            caller = ctx.scope.get(AGENT_CALL)
            worked = None if caller is None else caller.worked()
            elapsed, own = journal.watch.elapsed, _digest_of(decision)
            await write(Decided(ctx.path, self.item.id, decision, elapsed, worked, posted, own))
        await self.report(decision)
        return decision

    async def _wait(self, journal: LocalJournal, write: Callable[[Pending], Awaitable[None]]) -> None:
        """Record that the call waits, unless it did so before, and report it if somebody must decide."""
        item = self.item
        if self._record is None or self._record.pending is None:
            call = _copy_of(item.call)
            await write(Pending(item.path, item.id, call.name, call, item.reason, item.until, journal.watch.elapsed))
        if item.needs_decision and self._ctx.listens(ApprovalRequested):
            await self._ctx.emit(ApprovalRequested(self._ctx.path, item))

    async def report(self, decision: Decision) -> None:
        """Emit what was decided."""
        if self.item.needs_decision and self._ctx.listens(ApprovalDecided):
            await self._ctx.emit(ApprovalDecided(self._ctx.path, self.item.id, _copy_of(self.item.call), decision))


# -- what waits ------------------------------------------------------------------------------------------------------


class Question(Struct, frozen=True, omit_defaults=True):
    """What is asked, as it is recorded.

    Attributes:
        question: The text.
        answer: The JSON Schema of an answer.
        default: The answer if nobody has answered in time, as plain data; empty if there is none.
        key: Identifies it if its text varies; empty for none.
    """

    question: str
    answer: dict[str, Any]
    default: tuple[Any, ...] = ()
    key: str = ""


def question_of(call: ToolCall) -> Question:
    """Return the question in a pending item's call."""
    return decode(call.arguments, Question)


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
    return PendingItem(item_id, ctx.path, _copy_of(call), reason, stage, until, interrupted)


def is_same_wait(recorded: ToolCall, item: PendingItem, journal: LocalJournal) -> bool:
    """Return whether what is asked, or the event that is awaited, is the recorded one, as a middleware masks it."""
    if recorded.arguments == item.call.arguments:
        return True
    kept = journal.screened(Pending(item.path, item.id, item.call.name, item.call))
    return isinstance(kept, Pending) and _compared(recorded) == _compared(as_type(kept.request, ToolCall))


def _compared(call: ToolCall) -> dict[str, Any]:
    """Return what a wait is compared by: neither when it ends, nor what follows then, nor a text that has a key."""
    fields = decode(call.arguments, dict[str, Any])
    left_out = {"default", "seconds", "until", *(("question",) if "key" in fields else ())}
    return {name: value for name, value in fields.items() if name not in left_out}


def shown_wait(call: ToolCall) -> str:
    """Return what a wait is compared by, as text."""
    return f"{call.name} {canonical(_compared(call)).decode():.300}"


def is_waiting(call: ToolCall, record: Record, ctx: Context) -> bool:
    """Return whether a call is identical to the one that waits here."""
    return record.pending is not None and record.pending.id == item_of(call, ctx).id


def waiting_call(record: Record | None, ctx: Context) -> ToolCall | None:
    """Return a copy of the call that waits here; None if none does, or the recorded one does not match its id."""
    if record is None or record.pending is None:
        return None
    call = as_type(record.pending.request, ToolCall)
    return _copy_of(call) if is_waiting(call, record, ctx) else None


def _copy_of(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, call.arguments)


def refuse(name: str, ctx: Context, journal: LocalJournal) -> None:
    """Begin a call, or raise if the journal refuses live ones; in a replay, as Suspend if the call was waiting."""
    if journal.replaying:
        waiting = journal.waits.at(ctx.path)
        anywhere = journal.waits.at()
        waits = waiting or (anywhere and journal.breaks_off_at(ctx.path, "Suspended"))
        if waits and not journal.breaks_off_at(ctx.path, "Failed"):  # such as by a mistake in its approver
            raise Suspend(recorded_items(journal, waiting or anywhere))
    journal.begin_call(ctx.path, name)


# -- what is decided -------------------------------------------------------------------------------------------------


def expired(item: PendingItem, now: float) -> Decision | None:
    """Return the decision on what has waited too long: the default of a question, or a denial; None if it may wait."""
    if item.until is None or now < item.until or item.stage == "event":
        return None
    if item.stage == "timer":
        return Answer(None)
    default = question_of(item.call).default if item.stage == "question" else ()
    until = datetime.fromtimestamp(item.until, UTC)
    return Answer(default[0]) if default else Deny(f"expired: nobody had decided by {until:%Y-%m-%d %H:%M:%S} UTC")


def recorded_form(decision: Decision) -> Decision:
    """Return a decision that fits as it is recorded: with changed arguments as JSON text, an answer as plain data."""
    if isinstance(decision, Answer):
        return Answer(plain(decision.value))
    return Modify(decision.text) if isinstance(decision, Modify) else decision


def _digest_of(decision: Decision) -> str:
    return digest(decision.text) if isinstance(decision, Modify) else ""


def kept_form(entry: Decided, journal: LocalJournal) -> Decided:
    """Return a decision as it will be on record, perhaps masked by a middleware."""
    return cast("Decided", journal.screened(entry))


def is_kept(entry: Decided, journal: LocalJournal) -> bool:
    """Return whether the values in a decision will be on record as they were given, not masked by a middleware."""
    decision, recorded = decision_of(entry.decision), kept_form(entry, journal)
    return not isinstance(decision, (Modify, Answer)) or decision_of(recorded.decision) == decision


def misfit(item: PendingItem, decision: Decision, normalize: Normalize | None) -> str | None:
    """Return why a decision cannot be carried out, or None if it can; nothing is known of the tool without
    `normalize`."""
    if isinstance(decision, Deny):
        text = isinstance(decision.reason, str)
        return None if text else f"the reason of a denial is text, got {decision.reason!r:.200}"
    if item.stage == "question":
        if not isinstance(decision, Answer):
            return f"answer with Answer(value) or Deny(reason); got {decision!r:.200}"
        try:
            return misfit_of_schema(question_of(item.call).answer, plain(decision.value))
        except TypeError as error:
            return f"an answer is plain JSON data: {error}"
    if item.interrupted:
        if not isinstance(decision, (Happened, DidNotHappen)):
            return _UNSETTLED
        text = isinstance(decision, DidNotHappen) or isinstance(decision.result, str)
        return None if text else f"the result of a call is text, got {getattr(decision, 'result', None)!r:.200}"
    if not isinstance(decision, (Approve, Modify)):
        return f"a decision is Approve(), Deny(reason) or Modify(arguments); got {decision!r:.200}"
    return _misfit_of_change(item.call, decision, normalize) if isinstance(decision, Modify) else None


_UNSETTLED = (
    "the call was interrupted, and it is asked whether it took effect: decide Happened(result), DidNotHappen() to run "
    "it, or Deny(reason) to leave it at that"
)


def _misfit_of_change(call: ToolCall, change: Modify, normalize: Normalize | None) -> str | None:
    try:
        canonical_arguments(change.text, call.name)
        if normalize is not None:
            normalize(ToolCall(call.id, call.name, change.text))
    except InvalidArguments as error:
        return str(error)
    return None


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
    """Return why plain data does not fit a JSON Schema, None if it does."""
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

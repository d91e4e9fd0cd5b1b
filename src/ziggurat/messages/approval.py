"""Approval rules, and how a decision about a call is made."""

__all__ = [
    "APPROVALS",
    "Approvals",
    "Approver",
    "Judgement",
    "Predicate",
    "Rule",
    "decide",
    "decision_for",
    "expired",
    "is_waiting",
    "item_of",
    "judge",
    "pending_entry",
    "waiting_call",
    "written",
]

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from ziggurat.core.codec import as_type, digest
from ziggurat.core.context import AMBIENT, JOURNAL, Context, Journal
from ziggurat.core.entries import Decided, Entry, Pending, Record
from ziggurat.core.errors import (
    ConfigurationError,
    Denied,
    InvalidArguments,
    JournalCorrupt,
    Suspend,
    Timeout,
    described,
)
from ziggurat.core.scope import Key
from ziggurat.messages.agent import Approve, Decision, Deny, Modify, PendingItem, Stage, decision_of
from ziggurat.messages.canonical import canonical
from ziggurat.messages.events import ApprovalDecided, ApprovalRequested
from ziggurat.messages.parts import ToolCall

Approver = Callable[[PendingItem], Decision | Awaitable[Decision]]
"""Decides in this process, sync (and then quickly) or async."""

Predicate = Callable[[dict[str, Any]], bool | Awaitable[bool]]
"""Tells from the decoded arguments of a call whether a rule holds."""

Fits = Callable[[ToolCall], object] | None
"""Raises InvalidArguments for a call that cannot be made; None where nobody knows."""

Verdict = Literal["ask", "allow", "deny"]


class Rule(Struct, frozen=True):
    """What is to be done about calls of some name.

    ::

        Approvals(Rule("pay", "deny", when=lambda arguments: arguments["amount"] > 1000, reason="too much"), "pay")

    Attributes:
        pattern: Names of tools (or models), with ``*`` and ``?``.
        verdict: ``"ask"`` somebody, ``"allow"`` without asking, or ``"deny"``.
        when: Called with the arguments; the rule holds if it answers True. If it raises, or answers with anything but
            True or False, somebody is asked.
        reason: Shown to who decides; where it denies, to the model.
        stage: Whether it speaks of calls of tools or of models; the arguments of a model call are its request.

    Raises:
        ConfigurationError: one of these makes no sense.
    """

    pattern: str
    verdict: Verdict = "ask"
    when: Predicate | None = None
    reason: str = ""
    stage: Stage = "tool"

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or not self.pattern:
            raise ConfigurationError(f"a rule takes patterns of tools' names, as 'delete_*'; got {self.pattern!r}")
        if self.verdict not in get_args(Verdict):
            raise ConfigurationError(f"a rule's verdict is 'ask', 'allow' or 'deny', got {self.verdict!r}")
        if self.when is not None and not callable(self.when):
            raise ConfigurationError(f"a rule's when is a function of the arguments, got {self.when!r}")
        if self.stage not in get_args(Stage):
            raise ConfigurationError(f"a rule's stage is 'tool' or 'model', got {self.stage!r}")

    def concerns(self, name: str, stage: Stage) -> bool:
        """Return whether it speaks of calls of this name."""
        return self.stage == stage and fnmatchcase(name, self.pattern)


class Judgement(Struct, frozen=True):
    """What the rules say of a call: allow it, deny it, or ask `desk`; None for nobody in this process."""

    verdict: Verdict
    reason: str = ""
    desk: "Approvals | None" = None


class Approvals:
    """Which calls need a decision, beside the tools that always do, and who makes it.

    ::

        Agent(model, tools=[...], approvals=Approvals("delete_*", "send_mail"))

    Of its rules any that denies wins; of the others the first that holds. Calls that none speaks of are let through.
    They hold for all agents below too, whose own can add to them and take nothing away.

    Args:
        rules: Rules, or patterns of tools' names, which ask.
        approver: Asked in this process; None suspends the run until somebody resumes it with a decision.
        timeout: Seconds after which a call that the approver has not decided on is denied.
        expires: Seconds after which a call that made its run wait is denied, whoever asked for the decision and
            whatever it is; the shortest of all that hold counts.

    Raises:
        ConfigurationError: one of these makes no sense.
    """

    def __init__(
        self,
        *rules: str | Rule,
        approver: Approver | None = None,
        timeout: float | None = None,
        expires: float | None = None,
    ) -> None:
        if approver is not None and not callable(approver):
            raise ConfigurationError(f"the approver must be callable with a PendingItem, got {approver!r}")
        _check_seconds("the timeout of an approver", timeout)
        _check_seconds("the time after which what waits expires", expires)
        self.rules = tuple(rule if isinstance(rule, Rule) else Rule(rule) for rule in rules)
        self.approver = approver
        self.timeout = timeout
        self.expires = expires

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of its rules."""
        return tuple(rule.pattern for rule in self.rules)

    def concern(self, name: str, stage: Stage = "tool") -> bool:
        """Return whether a rule speaks of calls of this name."""
        return any(rule.concerns(name, stage) for rule in self.rules)

    async def judge(self, name: str, arguments: str, ctx: Context, stage: Stage) -> tuple[Verdict, str] | None:
        """Return what the rules say of a call, and why; None if none of them holds."""
        concerned = [rule for rule in self.rules if rule.concerns(name, stage)]
        unsure: str | None = None
        for rule in sorted(concerned, key=lambda rule: rule.verdict != "deny"):  # a stable sort
            if rule.verdict != "deny" and unsure is not None:
                break
            holds = await _holds(rule, arguments, ctx)
            if holds is True:
                return rule.verdict, rule.reason
            if holds is not False:
                unsure = unsure or f"a rule on {rule.pattern!r} could not be judged: {holds}"
        return None if unsure is None else ("ask", unsure)

    def __repr__(self) -> str:
        shown = [repr(rule.pattern if rule == Rule(rule.pattern) else rule) for rule in self.rules]
        return f"Approvals({', '.join(shown)})"


def _check_seconds(what: str, seconds: float | None) -> None:
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (number and 0 < seconds < float("inf")):
        raise ConfigurationError(f"{what} is a positive number of seconds, got {seconds!r}")


APPROVALS: Key[tuple[Approvals, ...]] = Key("approvals")
"""All that hold here, those of the outermost agent first; where it is there, even empty, no call goes unguarded."""


async def _holds(rule: Rule, arguments: str, ctx: Context) -> bool | str:
    """Return whether a rule holds, or why nobody knows."""
    if rule.when is None:
        return True
    token = AMBIENT.set(ctx.at("approval"))
    try:
        answer = rule.when(msgspec.json.decode(arguments))  # its own copy: what it does to it touches nothing
        if isinstance(answer, Awaitable):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - whatever it is, somebody is asked
        return described(error)
    finally:
        AMBIENT.reset(token)
    return answer if isinstance(answer, bool) else f"it answered {answer!r:.80}, not True or False"


async def judge(name: str, arguments: str, ctx: Context, stage: Stage, *, always: bool = False) -> Judgement:
    """Return what all rules together say of a call: one that denies wins, then one that asks.

    Of those who ask, the outermost is the desk; if it has no approver, the next further out that has. Where only the
    tool itself asks (`always`), it is the outermost approver of all.
    """
    gates = ctx.scope.get(APPROVALS) or ()
    asking: int | None = None
    why = ""
    for number, gate in enumerate(gates):
        said = await gate.judge(name, arguments, ctx, stage)
        if said is not None and said[0] == "deny":
            return Judgement("deny", said[1] or "the rules forbid it")
        if said is not None and said[0] == "ask" and asking is None:
            asking, why = number, said[1]
    if asking is not None:
        return Judgement("ask", why, next((gate for gate in reversed(gates[: asking + 1]) if gate.approver), None))
    if always:
        return Judgement("ask", "", next((gate for gate in gates if gate.approver), None))
    return Judgement("allow")


def item_of(
    call: ToolCall, ctx: Context, reason: str = "", stage: Stage = "tool", until: float | None = None
) -> PendingItem:
    """Return what is waited for when this frozen call needs a decision; it holds a copy of the call."""
    copy = ToolCall(call.id, call.name, call.arguments)
    return PendingItem(digest([ctx.path, call.name, call.arguments]), ctx.path, copy, reason, stage, until)


def pending_entry(item: PendingItem) -> Pending:
    """Return the entry that records what is waited for."""
    return Pending(item.path, item.id, item.call.name, _copied(item.call), item.reason, item.until)


def expired(pending: Pending, now: float) -> Deny | None:
    """Return the decision on what has waited too long, None while it may wait.

    Args:
        pending: What waits.
        now: The time, in POSIX seconds of the run's clock.
    """
    if pending.until is None or now < pending.until:
        return None
    until = datetime.fromtimestamp(pending.until, UTC)
    return Deny(f"expired: nobody had decided by {until:%Y-%m-%d %H:%M:%S} UTC")


def _until(ctx: Context) -> float | None:
    """Return when a call that begins to wait here is denied."""
    given = [gate.expires for gate in ctx.scope.get(APPROVALS) or () if gate.expires is not None]
    return ctx.clock.now() + min(given) if given else None


def _copied(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, call.arguments)


async def decision_for(
    call: ToolCall, judgement: Judgement, record: Record | None, ctx: Context, stage: Stage, fits: Fits
) -> tuple[PendingItem, Decision]:
    """Return the decision on a frozen call: the one on record, or a new one, which is recorded first.

    Raises:
        Suspend: nobody in this process decides.
        ConfigurationError: what the approver in this process answered cannot be done; then nothing is decided.
    """
    journal = ctx.scope[JOURNAL]
    pending = None if record is None else record.pending
    if pending is None:
        item = item_of(call, ctx, judgement.reason, stage, _until(ctx))
    else:
        item = item_of(call, ctx, pending.reason, stage, pending.until)
    if record is not None and record.decided is not None:
        decision = decision_of(record.decided.decision)
        if record.decided.id != item.id:
            raise JournalCorrupt(f"the decision at {ctx.path} is on another call ({record.decided.id})")
    else:
        if pending is None:
            await written(journal, pending_entry(item))
        shown = item_of(call, ctx, item.reason, stage, item.until)  # who decides may do with it what he likes
        late = None if pending is None else expired(pending, ctx.clock.now())
        decision = await decide(shown, judgement.desk, ctx) if late is None else late
        _check_answer(decision, call, fits)
        await written(journal, Decided(ctx.path, item.id, decision))
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item.id, _copied(call), decision))
    return item, decision


def _check_answer(decision: Decision, call: ToolCall, fits: Fits) -> None:
    """Refuse what could only fail once it was decided: it is a mistake of the approver's, not the model's."""
    if isinstance(decision, Deny) and not isinstance(decision.reason, str):
        raise ConfigurationError(f"the approver must return Deny(reason) with a string, got {decision!r:.200}")
    if not isinstance(decision, Modify):
        return
    if not isinstance(decision.arguments, str):
        raise ConfigurationError(
            f"the approver must return Modify(arguments) with a JSON object as text, got {decision!r:.200}"
        )
    try:
        canonical(decision.arguments, call.name)
        if fits is not None:
            fits(ToolCall(call.id, call.name, decision.arguments))
    except InvalidArguments as error:
        raise ConfigurationError(
            f"the approver changed the call of {call.name} to arguments that do not fit: {error}; nothing was decided "
            "or run: let it return Modify(arguments) that do, or Deny(reason)"
        ) from error


def waiting_call(record: Record, ctx: Context) -> ToolCall | None:
    """Return a copy of the frozen call that waits here; None if it is not on record as it was shown."""
    assert record.pending is not None
    call = as_type(record.pending.request, ToolCall)
    return _copied(call) if is_waiting(call, record, ctx) else None


def is_waiting(call: ToolCall, record: Record, ctx: Context) -> bool:
    """Return whether a call is the one that waits here for a decision, to the byte."""
    return record.pending is not None and item_of(call, ctx).id == record.pending.id


async def written(journal: Journal, entry: Entry) -> None:
    """Record something, and wait until it is safe."""
    waiting = journal.append(entry)
    if waiting is not None:
        await waiting


async def decide(item: PendingItem, desk: Approvals | None, ctx: Context) -> Decision:
    """Get a decision on a frozen call.

    Raises:
        Suspend: nobody in this process decides.
        Denied: who should have decided did not in time, or gave up.
        ConfigurationError: the approver answered with something else.
    """
    if ctx.listens(ApprovalRequested):
        await ctx.emit(ApprovalRequested(ctx.path, item))
    if desk is None or desk.approver is None:
        raise Suspend((item,))
    token = AMBIENT.set(ctx.at("approval"))  # an agent that the approver asks is a part of this run
    try:
        answer = desk.approver(item)
        task = asyncio.ensure_future(answer) if isinstance(answer, Awaitable) else None
    finally:
        AMBIENT.reset(token)
    decision = answer if task is None else await _awaited(task, desk, ctx)
    if not isinstance(decision, (Approve, Deny, Modify)):
        raise ConfigurationError(
            f"the approver must return Approve(), Deny(reason) or Modify(arguments), got {decision!r}"
        )
    return decision


async def _awaited(task: "asyncio.Future[Decision]", desk: Approvals, ctx: Context) -> Decision:
    """Await an approver in a task of its own: one that will not stop decides nothing any more."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        if desk.timeout is None:
            await asyncio.wait([task])
        else:
            async with ctx.limit(desk.timeout):
                await asyncio.wait([task])
    except Timeout as error:
        raise Denied(f"denied: nobody decided within {desk.timeout:g} s") from error
    finally:
        task.cancel()
    if task.cancelled():
        raise Denied("denied: the approver gave up")
    return task.result()

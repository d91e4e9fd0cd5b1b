"""Approval rules, and functions that get and record decisions about calls."""

__all__ = [
    "APPROVALS",
    "Approvals",
    "Approver",
    "Judgement",
    "Normalize",
    "Predicate",
    "Rule",
    "decide",
    "decision_for",
    "expired",
    "is_named",
    "is_waiting",
    "item_id",
    "item_of",
    "judge",
    "pending_entry",
    "waiting_call",
    "written",
]

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.codec import as_type, digest
from ziggurat.core.containment import as_failure, contained
from ziggurat.core.context import AMBIENT, JOURNAL, RUN_ID, Context, Journal
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
"""Decides on a pending call in this process; sync (it must be quick then) or async."""

Predicate = Callable[[dict[str, Any]], bool | Awaitable[bool]]
"""Returns whether a rule applies, from the arguments that the tool will receive, as plain JSON values."""

Normalize = Callable[[ToolCall], ToolCall]
"""Returns a call with the arguments that will be used, as canonical JSON; raises InvalidArguments."""

Verdict = Literal["ask", "allow", "deny"]


class Rule(Struct, frozen=True):
    """A rule for calls of certain names.

    ::

        Approvals(Rule("pay", "deny", when=lambda arguments: arguments["amount"] > 1000, reason="too much"), "pay")

    Attributes:
        pattern: Names of tools (or models), with ``*`` and ``?``.
        verdict: ``"ask"`` for a decision, ``"allow"`` without asking, or ``"deny"``.
        when: Called with the arguments that the tool will receive, as plain JSON values: converted to the declared
            types (``"5"`` is 5 for an int; dates, decimals and enums as JSON has them), with all defaults. The rule
            applies if it returns True. If it raises, or returns anything but True or False, a decision is asked for.
        reason: Shown to the person who decides; for ``"deny"``, to the model.
        stage: Whether it applies to tool calls or to model calls; the arguments of a model call are its request.

    Raises:
        ConfigurationError: one of these is not valid.
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
        """Return whether the rule is for calls of this name."""
        return self.stage == stage and fnmatchcase(name, self.pattern)


class Judgement(Struct, frozen=True):
    """The verdict of all rules on a call: allow, deny, or ask `desk` (None: no approver in this process)."""

    verdict: Verdict
    reason: str = ""
    desk: "Approvals | None" = None


class Approvals:
    """Rules for the calls that need a decision, in addition to tools that always do, and who decides.

    ::

        Agent(model, tools=[...], approvals=Approvals("delete_*", "send_mail"))

    A rule that denies wins over all others; of the others the first that applies is used. Calls without a rule are
    allowed. The rules apply to all agents below too; those can add rules, but not remove any.

    Args:
        rules: Rules, or patterns of tool names, which ask.
        approver: Decides in this process; None suspends the run until it is resumed with a decision.
        timeout: Seconds after which a call is denied if the approver has not decided.
        expires: Seconds after which a call that suspended its run is denied, whichever rule or tool asked for the
            decision; with several `Approvals` in effect, the shortest is used.

    Raises:
        ConfigurationError: one of these is not valid.
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
        """Return whether there is a rule for calls of this name."""
        return any(rule.concerns(name, stage) for rule in self.rules)

    async def judge(self, name: str, arguments: str, ctx: Context, stage: Stage) -> tuple[Verdict, str] | None:
        """Return the verdict of these rules on a call, and the reason; None if no rule applies."""
        concerned = [rule for rule in self.rules if rule.concerns(name, stage)]
        unsure: str | None = None
        for rule in sorted(concerned, key=lambda rule: rule.verdict != "deny"):  # a stable sort
            if rule.verdict != "deny" and unsure is not None:
                break
            holds = await _applies(rule, arguments, ctx)
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
"""All `Approvals` in effect, those of the outermost agent first; if set, even empty, every call is checked."""


async def _applies(rule: Rule, arguments: str, ctx: Context) -> bool | str:
    """Return whether a rule applies, or a text that says why that cannot be determined."""
    if rule.when is None:
        return True
    token = AMBIENT.set(ctx.at("approval"))
    try:
        answer = rule.when(json.loads(arguments))  # a copy, so the predicate cannot change the call
        if isinstance(answer, Awaitable):
            answer = await answer
    except BaseException as error:  # noqa: BLE001 - on any error a decision is asked for
        return described(as_failure(error))
    finally:
        AMBIENT.reset(token)
    return answer if isinstance(answer, bool) else f"it answered {answer!r:.80}, not True or False"


async def judge(name: str, arguments: str, ctx: Context, stage: Stage, *, always: bool = False) -> Judgement:
    """Return the verdict of all rules together on a call: deny wins, then ask.

    The outermost `Approvals` that asks is the desk; if it has no approver, the next one further out that has. If only
    the tool itself asks (`always`), the desk is the outermost one with an approver.
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
    """Return the pending item for a frozen call that needs a decision; it holds a copy of the call."""
    copy = ToolCall(call.id, call.name, call.arguments)
    return PendingItem(item_id(call, ctx), ctx.path, copy, reason, stage, until)


def item_id(call: ToolCall, ctx: Context, *marks: str) -> str:
    """Return the id of a call that waits: it names the run, so that a decision for one run fits no other."""
    return digest([ctx.scope.get(RUN_ID) or "", ctx.path, call.name, call.arguments, *marks])


def is_named(recorded: str, call: ToolCall, ctx: Context, *marks: str) -> bool:
    """Return whether a recorded id is that of this call; records of earlier versions have ids without the run."""
    return recorded in (item_id(call, ctx, *marks), digest([ctx.path, call.name, call.arguments, *marks]))


def pending_entry(item: PendingItem) -> Pending:
    """Return the journal entry for a pending item."""
    return Pending(item.path, item.id, item.call.name, _copy_of(item.call), item.reason, item.until)


def expired(pending: Pending, now: float) -> Deny | None:
    """Return a denial if a pending call has expired, else None.

    Args:
        pending: The entry of the pending call.
        now: The time of the run's clock, in POSIX seconds.
    """
    if pending.until is None or now < pending.until:
        return None
    until = datetime.fromtimestamp(pending.until, UTC)
    return Deny(f"expired: nobody had decided by {until:%Y-%m-%d %H:%M:%S} UTC")


def _expiry(ctx: Context) -> float | None:
    """Return when a call that starts to wait now will expire, in POSIX seconds; None for never."""
    given = [gate.expires for gate in ctx.scope.get(APPROVALS) or () if gate.expires is not None]
    return ctx.clock.now() + min(given) if given else None


def _copy_of(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, call.arguments)


async def decision_for(
    call: ToolCall, judgement: Judgement, record: Record | None, ctx: Context, stage: Stage, normalize: Normalize
) -> tuple[PendingItem, Decision]:
    """Return the decision on a frozen call: the recorded one, or a new one, which is recorded first.

    Raises:
        Suspend: there is no approver in this process.
        ConfigurationError: the approver returned a decision that cannot be carried out; nothing is recorded then.
    """
    journal = ctx.scope[JOURNAL]
    pending = None if record is None else record.pending
    if pending is None:
        item = item_of(call, ctx, judgement.reason, stage, _expiry(ctx))
    else:
        item = replace(item_of(call, ctx, pending.reason, stage, pending.until), id=pending.id)
    if record is not None and record.decided is not None:
        decision = decision_of(record.decided.decision)
        if record.decided.id != item.id:
            raise JournalCorrupt(f"the decision at {ctx.path} is on another call ({record.decided.id})")
    else:
        if pending is None:
            await written(journal, pending_entry(item))
        shown = replace(item, call=_copy_of(call))  # a copy, so the approver cannot change the call
        late = None if pending is None else expired(pending, ctx.clock.now())
        decision = await decide(shown, judgement.desk, ctx) if late is None else late
        _check_answer(decision, call, normalize)
        await written(journal, Decided(ctx.path, item.id, decision))
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item.id, _copy_of(call), decision))
    return item, decision


def _check_answer(decision: Decision, call: ToolCall, normalize: Normalize) -> None:
    """Raise for a decision that would fail when carried out: that is the approver's mistake, not the model's."""
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
        normalize(ToolCall(call.id, call.name, decision.arguments))
    except InvalidArguments as error:
        raise ConfigurationError(
            f"the approver changed the call of {call.name} to arguments that do not fit: {error}; nothing was decided "
            "or run: let it return Modify(arguments) that do, or Deny(reason)"
        ) from error


def waiting_call(record: Record, ctx: Context) -> ToolCall | None:
    """Return a copy of the frozen call that waits here; None if the recorded call does not match its id."""
    assert record.pending is not None
    call = as_type(record.pending.request, ToolCall)
    return _copy_of(call) if is_waiting(call, record, ctx) else None


def is_waiting(call: ToolCall, record: Record, ctx: Context) -> bool:
    """Return whether a call is identical to the one that waits here for a decision."""
    return record.pending is not None and is_named(record.pending.id, call, ctx)


async def written(journal: Journal, entry: Entry) -> None:
    """Record an entry, and wait until it is durable."""
    waiting = journal.append(entry)
    if waiting is not None:
        await waiting


async def decide(item: PendingItem, desk: Approvals | None, ctx: Context) -> Decision:
    """Get a decision on a frozen call from an approver.

    Raises:
        Suspend: there is no approver in this process.
        Denied: the approver did not decide in time, or was cancelled.
        ConfigurationError: the approver returned something else.
    """
    if ctx.listens(ApprovalRequested):
        await ctx.emit(ApprovalRequested(ctx.path, item))
    if desk is None or desk.approver is None:
        raise Suspend((item,))
    token = AMBIENT.set(ctx.at("approval"))  # an agent that the approver runs becomes part of this run
    try:
        answer = desk.approver(item)
        task = asyncio.ensure_future(_contained(answer)) if isinstance(answer, Awaitable) else None
    finally:
        AMBIENT.reset(token)
    decision = answer if task is None else await _await_approver(task, desk, ctx)
    if not isinstance(decision, (Approve, Deny, Modify)):
        raise ConfigurationError(
            f"the approver must return Approve(), Deny(reason) or Modify(arguments), got {decision!r}"
        )
    return decision


async def _contained(answer: Awaitable[Decision]) -> Decision:
    """Await an approver; SystemExit, raised out of its task, would end the event loop."""
    try:
        return await answer
    except (KeyboardInterrupt, SystemExit) as error:
        raise contained(error)  # noqa: B904 - it has its cause already


async def _await_approver(task: "asyncio.Future[Decision]", desk: Approvals, ctx: Context) -> Decision:
    """Await an approver in a separate task, so that one that ignores its cancellation cannot delay the timeout."""
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

"""Make a tool call: every tool call of every agent goes through `act`, in this order.

look up the journal > decode > before_tool > decode > freeze > permissions > approval > budgets > intent
> wrap_tool > the tool's own layers > the guarded call of the function > error becomes a result > after_tool > record
"""

from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls import admission, gate, hooks, once, wait
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core import errors
from ziggurat.core.codec import as_type
from ziggurat.core.context import Context
from ziggurat.core.path import escaped
from ziggurat.core.service import must_be
from ziggurat.core.tasks import as_failure
from ziggurat.journal import entries
from ziggurat.journal.journal import journal_of
from ziggurat.messages import events
from ziggurat.messages.agent import Deny, recorded_items, refuse
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.tools import guarded_call, results
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.entry import ToolEntry
from ziggurat.tools.fork_effects import FORK_EFFECTS
from ziggurat.tools.permissions import check as check_permissions
from ziggurat.tools.toolbox import Toolbox


async def act(box: Toolbox, call: ToolCall, ctx: Context) -> ToolResult:
    """Make one tool call and return its result; each failure of the tool, a denial too, becomes an error result."""
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.outcomes and (recorded := await _recorded_result(record, call, ctx)) is not None:
        return recorded
    chain = ctx.scope.get(hooks.MIDDLEWARE) or hooks.NO_CHAIN
    monotonic = ctx.clock.monotonic
    started = monotonic()
    alone = journal.writer is None and ctx.watch is journal.watch  # nothing else is made or written at the same time
    if ctx.listens(events.ToolStarted):
        await ctx.emit(events.ToolStarted(ctx.path, call))
    entry = box.entries.get(call.name)
    if journal.refusing:
        await _replay_agents(entry, call, record, ctx)
        refuse(call.name, ctx, journal)
    try:
        if entry is None:
            raise _missing(box, call, record, ctx)
        result = await _LiveCall(entry, call, record, ctx, chain, alone).make()
        must_be(result, ToolResult, call.name, ctx)  # layers and hooks around it may return anything
    except errors.JournalError:
        raise
    except BaseException as raised:  # noqa: BLE001 - the model is told of any failure of a tool
        error = await once.after_acts(as_failure(raised), ctx)
        result = await _failed(error, f"the tool {call.name}", call, ctx, chain)
    if chain.hooks["after_tool"] or result.id != call.id or result.name != call.name:
        result = await _apply_after_tool(result, call, ctx, chain)
    result = results.in_bounds(result)
    elapsed = 0.0 if alone else journal.watch.elapsed  # the next entry of the model has the time
    stored = journal.append(entries.PlainResult(ctx.path, call.name, call, result, (), elapsed))
    if (agent := ctx.scope.get(AGENT_CALL)) is not None:
        agent.add_tool_call(ctx.path)  # it is on record, also if the wait for that is cancelled
    if stored is not None:
        await stored
    seconds = monotonic() - started
    if entry is not None:
        entry.statistics.add(seconds, result)
    cause = None if result.error is None else hooks.cause_at(ctx, keep=box.on_error == "raise")
    if ctx.listens(events.ToolEnded):
        await ctx.emit(events.ToolEnded(ctx.path, call, result, seconds, cause=cause))
    return result


async def _recorded_result(record: entries.Record, call: ToolCall, ctx: Context) -> ToolResult | None:
    journal = journal_of(ctx)
    recorded = record.made if journal.mode == "replay" else record.result
    if record.result is None and record.cursor < len(record.outcomes):
        # It has ended its agent with a failure, and is made again after the result was used once more.
        record.cursor, recorded = len(record.outcomes), record.made
    if recorded is None:
        return None
    result = await journal.answer(ctx, recorded, call.name, call, ToolResult)
    if ctx.listens(events.ToolEnded):
        await ctx.emit(events.ToolEnded(ctx.path, call, result, 0.0, True))
    return result if result.id == call.id else replace(result, id=call.id)


async def _replay_agents(entry: ToolEntry | None, call: ToolCall, record: entries.Record | None, ctx: Context) -> None:
    """Replay the agents that a call without a recorded result has entered, to where they broke off."""
    journal = journal_of(ctx)
    if not journal.replaying or entry is None or not entry.composite or not journal.index.is_entered(ctx.path):
        return
    try:
        intent = None if record is None else record.intent
        frozen = entry.normalize(call) if intent is None else as_type(intent.request, ToolCall)
        approved = guarded_call.Frozen(frozen, entry.spec.effect, ctx.path)
        await entry.service(frozen, ctx.within(guarded_call.APPROVED_CALL, approved))
    except errors.JournalError:
        raise
    except Exception:  # noqa: BLE001 - as they failed when this was recorded
        return


def _missing(
    box: Toolbox, call: ToolCall, record: entries.Record | None, ctx: Context
) -> errors.ToolError | errors.Denied | errors.Suspend | errors.JournalMismatch:
    """Return the error of a call whose tool the agent does not have, or not any more; what waits in it still waits."""
    journal = journal_of(ctx)
    waiting = recorded_items(journal, ctx.path)
    if waiting:
        return errors.Suspend(waiting)
    decision = wait.recorded_decision(record)
    if isinstance(decision, Deny):
        return errors.Denied(f"denied: {decision.reason}")
    if record is not None or journal.index.is_entered(ctx.path):
        return errors.JournalMismatch(
            f"{ctx.path}: the run has begun this call of {call.name}, and the agent has no such tool any more: resume "
            "the run with the tool"
        )
    return box.unknown_tool(call.name, ctx)


async def _failed(raised: BaseException, what: str, call: ToolCall, ctx: Context, chain: hooks.HookChain) -> ToolResult:
    error = as_failure(raised)
    await hooks.tell(chain, error, ctx)
    hooks.note_failure(error, what, ctx)
    return results.error_result(error, call)


async def _apply_after_tool(result: ToolResult, call: ToolCall, ctx: Context, chain: hooks.HookChain) -> ToolResult:
    # A hook that fails must not hide that the tool was executed, or the model makes the call again.
    done = f" ({call.name} was executed; only its result is lost)" if result.error is None else ""
    for middleware in reversed(chain.hooks["after_tool"]):
        try:
            result = await hooks.hooked(middleware, "after_tool", result, ctx)
        except BaseException as raised:  # noqa: BLE001 - as above; a result the hook did not pass must not be used
            failed = await _failed(raised, f"the hook {middleware.name}.after_tool", call, ctx, chain)
            result = replace(failed, content=failed.text + done)
    fits = result.id == call.id and result.name == call.name
    return result if fits else replace(result, id=call.id, name=call.name)


class _LiveCall(Struct, eq=False):
    """A call that the record does not answer: it is checked, admitted, recorded as begun, and run."""

    entry: ToolEntry
    call: ToolCall
    record: entries.Record | None
    ctx: Context
    chain: hooks.HookChain
    alone: bool
    returned: ToolResult | None = None  # what its function has returned before the process was lost

    async def make(self) -> ToolResult:
        """Make the call in its wraps and layers; the guard below them refuses all but the approved one."""
        ctx, spec, journal = self.ctx, self.entry.spec, journal_of(self.ctx)
        passed = await self._check()
        if isinstance(passed, ToolResult):
            return passed
        if admission.ADMISSION in ctx.scope:
            admission.admit_tool(passed.call.name, ctx)
        intent = self._intent(passed)
        own = replace(passed.call)  # a copy that nothing below can reach
        approved = guarded_call.Frozen(own, spec.effect, ctx.path, returned=self.returned)
        if spec.effect == "once" and self.returned is None:
            begun = self.record is not None and self.record.intent is not None and not self.record.never_began
            await once.settle_equal(own, None if begun else intent, ctx)
        if journal.calm and not self.entry.composite:
            journal.begin_call(ctx.path, self.call.name)
        try:
            if intent is not None:
                await journal.write(intent)
            if passed.id and ctx.listens(events.ApprovalExecuted):
                await ctx.emit(events.ApprovalExecuted(ctx.path, passed.id, own))
            chain, service = self.chain, self.entry.service
            if chain.hooks["on_tool_delta"]:
                ctx = ctx.within(
                    guarded_call.TOOL_DELTAS, lambda text, ctx: hooks.run_hooks(chain, "on_tool_delta", text, ctx)
                )
            if chain.hooks["wrap_tool"]:
                service = hooks.wrap(service, chain, "wrap_tool")
            if spec.effect == "once":
                return await once.make_once(service, spec, approved, ctx)
            ctx = ctx.within(guarded_call.APPROVED_CALL, approved) if self.entry.composite else ctx.freezing(approved)
            return await service(passed.call, ctx)
        except BaseException as raised:
            if intent is not None:
                once.note_never_began(raised, approved, self.ctx)
            raise

    # -- checks --------------------------------------------------------------------------------------------------

    async def _check(self) -> gate.ApprovedCall | ToolResult:
        """Return the call as it may be made, which hooks, permissions, rules and people have seen; or its result."""
        record, spec, ctx = self.record, self.entry.spec, self.ctx
        if record is not None and record.intent is not None:
            admission.admit_tool(self.call.name, ctx, begun=True)
            return await self._resume_begun(record)
        if FORK_EFFECTS in ctx.scope and (original := self._result_before_fork()) is not None:
            if original.error is None:
                admission.admit_tool(self.call.name, ctx, begun=True)
            elif (agent := ctx.scope.get(AGENT_CALL)) is not None:
                agent.recall(original)
            return original
        frozen = await (self._pass_hooks() if record is None else self._freeze_again(record))
        check_permissions(spec, ctx)
        if record is None and not (spec.approval or APPROVALS in ctx.scope or gate.WAITING_CALLS in ctx.scope):
            return gate.ApprovedCall(frozen)
        return await gate.pass_gate(frozen, record, ctx, self.entry.normalize, spec)

    async def _resume_begun(self, record: entries.Record) -> gate.ApprovedCall | ToolResult:
        """Return the frozen call of an intent without a result, or the result if a person knows it."""
        intent = record.intent
        assert intent is not None
        spec, frozen = self.entry.spec, as_type(intent.request, ToolCall)
        if record.returned is not None:
            self.returned = as_type(record.returned.value, ToolResult)
            if self.entry.composite:  # it was a function, and nothing below would answer for it
                return self.returned
        else:
            if spec.effect == "once":
                happened = await once.settle_unknown(spec, frozen, record, self.ctx)
                if happened is not None:
                    return happened
            check_permissions(spec, self.ctx)
            # What was lost before the decision is no answer.
            journal_of(self.ctx).skip(self.ctx, record.decided or intent)
        if frozen.fingerprint() != intent.digest:
            frozen = await self._pass_hooks()
            if frozen.fingerprint() != intent.digest:
                raise self._not_kept_error()
        return gate.ApprovedCall(frozen)

    def _result_before_fork(self) -> ToolResult | None:
        """Return the original run's result of a call with effects; None if the call is to be made."""
        if self.entry.composite:
            return None
        spec, ctx = self.entry.spec, self.ctx
        effects = ctx.scope[FORK_EFFECTS]
        original = effects.instead(spec.effect, spec.name, self.call.fingerprint(), ctx.path, ToolResult)
        return None if original is None else original[0]

    async def _freeze_again(self, record: entries.Record) -> ToolCall:
        """Return the call that waits for a decision, or as the hooks leave the model's; as `_pass_hooks` does."""
        ctx = self.ctx
        if (waiting := wait.waiting_call(record, ctx)) is not None:
            journal_of(ctx).skip(ctx, record.pending)
            try:
                return self.entry.normalize(waiting)
            except errors.InvalidArguments as error:  # the tool was changed: no result of a call that waits
                if record.decided is None:
                    raise errors.Suspend(recorded_items(journal_of(ctx), ctx.path)) from None
                raise errors.JournalMismatch(
                    f"{ctx.path}: the arguments on record do not fit {self.call.name} any more: {error}; resume the "
                    "run with the tool as it was"
                ) from error
        frozen = await self._pass_hooks()
        waits = record.pending
        if waits is not None and not any(wait.item_of(each, ctx).id == waits.id for each in (frozen, self.call)):
            raise self._not_kept_error()
        return frozen

    async def _pass_hooks(self) -> ToolCall:
        """Return the call in its normal form, as the hooks leave it."""
        call, normalize = self.entry.normalize(self.call), self.entry.normalize
        if not self.chain.hooks["before_tool"]:
            return call
        changed = await hooks.run_hooks(self.chain, "before_tool", call, self.ctx)
        if changed is call:
            return call
        if changed.name != call.name:
            raise errors.ToolError(
                f"a middleware turned the call of {call.name} into one of {changed.name}; it was not run"
            )
        return normalize(changed)

    def _not_kept_error(self) -> errors.ToolError:
        return errors.ToolError(
            f"{self.call.name} was not run: not all of its arguments were kept on record, and the hooks before it did "
            "not make the same call again; ask for it again",
            kind="interrupted",
        )

    # -- the run -------------------------------------------------------------------------------------------------

    def _intent(self, passed: gate.ApprovedCall) -> entries.Intent | None:
        """Return the entry that says that the call begins; None if it need not be on record before the result is."""
        call, scope, acts_once = passed.call, self.ctx.scope, self.entry.spec.effect == "once"
        if self.record is not None and self.record.intent is not None:
            begins = self.record.decided is not None  # that a call which was started before did not happen
        else:
            changed = passed.id != "" or self.chain.hooks["before_tool"] != ()
            begins = (
                changed or acts_once or gate.WAITING_CALLS in scope or admission.ADMISSION in scope or not self.alone
            )
        unknown = self.entry.spec.interrupted if acts_once else ""
        return entries.Intent(self.ctx.path, call.name, call, call.fingerprint(), unknown) if begins else None


async def call_tools(
    box: Toolbox, calls: tuple[ToolCall, ...], ctx: Context, step: str, unwanted: str = ""
) -> tuple[ToolResult, ...]:
    contexts = [ctx.at(f"{step}/tool-{number}:{escaped(call.name)}") for number, call in enumerate(calls, 1)]
    results: tuple[ToolResult, ...]
    if len(calls) == 1 and not unwanted:  # in this task, as nothing runs beside it
        results = (await act(box, calls[0], contexts[0]),)
    else:
        results = await _call_together(box, calls, contexts, ctx, unwanted)
    if box.on_error == "raise":
        await _raise_failures(box, results, contexts)
    return results


async def _call_together(
    box: Toolbox, calls: tuple[ToolCall, ...], contexts: list[Context], ctx: Context, unwanted: str
) -> tuple[ToolResult, ...]:
    results: list[ToolResult] = []

    def enough(outcome: ToolResult | errors.Suspend) -> str:
        if isinstance(outcome, errors.Suspend):
            return ""
        results.append(outcome)
        return box.enough(results, outcome)

    # Under a deadline it is longer than the grace in `guarded_call`, so that a tool is not abandoned and counted twice.
    grace = guarded_call.GRACE if ctx.deadline is None else 1.25 * guarded_call.GRACE
    group = guarded_call.fan_out(
        [(partial(act, box, call), at) for call, at in zip(calls, contexts, strict=True)],
        ctx,
        name="a batch of tool calls",
        limit=box.concurrency,
        enough=None if box.join == "join_all" else enough,
        grace=grace,
    )
    why = unwanted or await group.run()
    outcomes = [
        await _settled(box, outcome, call, at, why)
        for outcome, call, at in zip(group.outcomes(None), calls, contexts, strict=True)
    ]
    errors.raise_suspended(outcomes)
    return tuple(outcome for outcome in outcomes if isinstance(outcome, ToolResult))


REDIRECTED = "the run was redirected"  # why calls are not wanted any more when the model gets another task

_NO_FAILURE = (None, "interrupted", "retry")


async def _settled(
    box: Toolbox, outcome: ToolResult | errors.Suspend | None, call: ToolCall, ctx: Context, why: str
) -> ToolResult | errors.Suspend:
    """Return the outcome of a call; record a cancellation, because it depended on timing."""
    if outcome is not None and (isinstance(outcome, ToolResult) or not why):
        return outcome  # else it waits for a decision that is no longer needed
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.result is not None:
        return await act(box, call, ctx)  # it has a recorded result, from this process or an earlier one
    intent = None if record is None or record.never_began else record.intent
    if intent is not None and intent.once in ("ask", "report"):
        try:
            return await act(box, call, ctx)  # it may have taken effect, and is settled as after a crash
        except errors.Suspend as suspend:
            return suspend
    result = not_executed((call,), why)[0]
    if not why:
        result = ToolResult(call.id, call.name, guarded_call.CANCELLED_ITSELF, "permanent", call.name)
    elif intent is not None:
        text = f"interrupted: {why} while this one ran; whether it took effect is unknown"
        result = ToolResult(call.id, call.name, text, "interrupted", call.name)
    stored = journal.write(entries.PlainResult(ctx.path, call.name, call, result))
    if (agent := ctx.scope.get(AGENT_CALL)) is not None:
        agent.add_tool_call(ctx.path)
    await stored
    if ctx.listens(events.ToolEnded):
        await ctx.emit(events.ToolEnded(ctx.path, call, result, 0.0))
    return result


async def _raise_failures(box: Toolbox, results: tuple[ToolResult, ...], contexts: list[Context]) -> None:
    """Raise if a call failed; its failure is recorded after its result, so that the call is made again on resume."""
    failed = [(result, ctx) for result, ctx in zip(results, contexts, strict=True) if result.error not in _NO_FAILURE]
    if not failed or (box.join != "fail_fast" and box.enough(results, results[0])):
        return
    texts = [f"{result.name}: {result.text}" for result, _ in failed]
    causes = [None if (known := hooks.cause_at(ctx)) is None else known.error for _, ctx in failed]
    for (result, ctx), text, cause in zip(failed, texts, causes, strict=True):
        error = errors.ToolError(text, kind=result.error or "permanent")
        error.__cause__ = cause
        record = journal_of(ctx).find(ctx.path)
        if record is None or record.result is not None:  # else the failure is on record, from a process that was lost
            await journal_of(ctx).write_failure(ctx, result.name, result.name, error)
    kind = failed[0][0].error or "permanent"
    if box.join == "fail_fast" or len(failed) == 1:
        raise errors.ToolError(texts[0], kind=kind) from causes[0]
    first = next(filter(None, causes), None)
    raise errors.ToolError(f"one or more tools failed: {'; '.join(texts)}", kind=kind) from first


def not_executed(calls: tuple[ToolCall, ...], why: str) -> tuple[ToolResult, ...]:
    return tuple(ToolResult(call.id, call.name, f"not executed: {why}", "interrupted", call.name) for call in calls)

"""Enter an agent: the order in which record, hooks and layers apply, the same at any depth.

look up the record > before_agent > record the entry > wrap_agent > the agent's layers > its loop > after_agent > record
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls import agent_call, hooks
from ziggurat.calls.deltas import emit_deltas
from ziggurat.calls.once import after_acts
from ziggurat.core import errors, service
from ziggurat.core.codec import as_type
from ziggurat.core.context import JOURNAL, Context, Key
from ziggurat.core.event import NotRecorded
from ziggurat.core.failures import mistake_in
from ziggurat.core.path import REUSED, parent_of
from ziggurat.core.tasks import contained
from ziggurat.journal import entries
from ziggurat.journal.journal import journal_of
from ziggurat.messages import events, middleware
from ziggurat.messages.agent import AgentRequest, AgentRun, refuse
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.recorded import first_difference
from ziggurat.tools import guarded_call
from ziggurat.tools.permissions import GRANTS

AgentService = service.Service[AgentRequest, AgentRun]

MAX_DEPTH = 8  # how deep agents may be nested, unless the scope has `MAX_DEPTH_KEY`

MAX_DEPTH_KEY: Key[int] = Key("max depth")


class AgentParts(Struct, frozen=True, eq=False):
    """The facts about an agent that `enter` needs, reachable through its layers."""

    name: str
    prepare: Callable[[Context], Context] | None
    setup: Callable[[], dict[str, str]] = dict
    description: str = ""
    permissions: frozenset[str] = frozenset()
    grants: frozenset[str] | None = None
    read: Callable[[AgentRun], AgentRun] | None = None
    keep: Callable[[AgentRun], AgentRun] | None = None
    chain: hooks.HookChain | None = None
    parse: middleware.AnswerIn = middleware.answer_in_text
    debug: bool = False


AGENT: service.Fact[AgentParts | None] = service.Fact("agent", None)


GATE: service.Fact[Callable[[AgentService], AgentService] | None] = service.Fact("gate", None)
"""A layer around each run of the agent, before anything is opened, and around its calls in other runs. A run that it
refuses does nothing, and leaves no record; one that is continued stays as it was."""

ALONE: service.Fact[Callable[[AgentService, AgentRequest, Context], Awaitable[AgentRun]] | None] = service.Fact(
    "alone", None
)
"""Answers a call of the agent that is part of no run, such as ``agent(request, root())``, with a run of its own."""


def parts_of(agent: AgentService) -> AgentParts:
    return service.fact(agent, AGENT) or AgentParts("agent", None)


async def enter(
    agent: AgentService, request: AgentRequest, ctx: Context, *, again: bool = False, ends: bool = False
) -> AgentRun:
    """Run an agent at this context's path, or return its recorded run if it ended there before."""
    # `again`: it is entered once more, at another path than its own. `ends`: its failure ends the agent around it, too,
    # so that nothing is called in its place.
    if JOURNAL not in ctx.scope and (alone := service.fact(agent, ALONE)) is not None:
        return await alone(agent, request, ctx)
    parts = parts_of(agent)
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and (recorded := await _recorded_run(record, parts, request, ctx)) is not None:
        return recorded
    ctx, chain = _make_frame(ctx, parts, again=again)
    frame = ctx.scope[agent_call.AGENT_CALL]
    try:
        changes = record is not None or chain.hooks["before_agent"]
        request = await _apply_before_agent(parts, record, request, ctx, chain) if changes else request
        if record is None or record.entered is None:
            frame.begin(ctx, journal.watch.elapsed)
            entered = entries.Entered(ctx.path, parts.name, request, parts.setup(), frame.began)
            await (journal.write(entered) if frame.outer is None else journal.note(entered))
        if ctx.listens(events.AgentStarted):
            await ctx.emit(events.AgentStarted(ctx.path, parts.name, ctx.run_id))
        wrapped = _wrapped(agent, ctx, chain, gated=frame.outer is not None and not again)
        try:
            run = await wrapped(request, ctx)
        except NotRecorded:  # by one of several alternatives that was given up, such as when another had answered
            if wrapped is agent or record is None or record.result is None or not _had_alternatives(ctx):
                raise
            return await _answer(record.result, parts, request, ctx)
        service.must_be(run, AgentRun, parts.name, ctx)
        if record is not None and record.result is not None:
            return _replayed(run, record, record.result, parts, ctx, chain)
        run = frame.counted(run, ctx)
        if chain.hooks["after_agent"]:
            run = await _apply_after_agent(run, ctx, chain)
        if journal.reopened:
            run = frame.counted(run, ctx, tries_before=True)
        kept = run if parts.keep is None or run._output is None else parts.keep(run)
        run = replace(kept, output=run._output) if kept._output is kept._accepted else kept
    except BaseException as raised:  # noqa: BLE001 - raised again
        error = await _failed(contained(raised), parts.name, frame, request, ctx, chain, ends)
        raise _with_run(error, frame, request, ctx)  # noqa: B904 - it has its cause already
    await journal.write(entries.Result(ctx.path, parts.name, request, kept))
    if ctx.listens(events.AgentEnded):
        await ctx.emit(events.AgentEnded(ctx.path, run))
    return run


async def _compare_request(parts: AgentParts, entered: entries.Entered, request: AgentRequest, ctx: Context) -> None:
    """Report another request than an agent was entered with, which no hook has changed since; refuse that of a flow."""
    journal, recorded = journal_of(ctx), as_type(entered.request, AgentRequest)
    chains = (ctx.scope.get(hooks.MIDDLEWARE) or hooks.NO_CHAIN, parts.chain or hooks.NO_CHAIN)
    live = journal.mode == "replay" and not journal.replaying  # models or tools, whose answers may be others
    if recorded == request or live or any(chain.hooks["before_agent"] for chain in chains):
        return
    hooks.screened(journal, chains[1], ctx.path)
    screened = (journal.screened(entries.Entered(ctx.path, parts.name, each)) for each in (recorded, request))
    before, now = (as_type(each.request, AgentRequest) for each in screened)
    if before.fingerprint() == now.fingerprint():
        return
    if "flow" in as_type(entered.setup, dict[str, str]) and not journal.replaying:
        raise journal.refuse(f"{ctx.path}: the flow has begun with another input: resume with the code as it was")
    await _report(ctx, *first_difference(before.messages, now.messages))


def _wrapped(agent: AgentService, ctx: Context, chain: hooks.HookChain, *, gated: bool) -> AgentService:
    """Return an agent within the wraps of middleware, and its gate; that of a run was asked before it was opened."""
    wrapped = hooks.wrap(_Alternatives(agent, ctx), chain, "wrap_agent") if chain.hooks["wrap_agent"] else agent
    gate = service.fact(agent, GATE) if gated else None
    return wrapped if gate is None else gate(wrapped)


async def _failed(
    error: BaseException,
    name: str,
    frame: agent_call.AgentCall,
    request: AgentRequest,
    ctx: Context,
    chain: hooks.HookChain,
    ends: bool,
) -> BaseException:
    """Return the error of an agent that failed, after recording and reporting it, or what broke that off."""
    journal = journal_of(ctx)
    mistake = mistake_in(error)
    try:
        if isinstance(error, Exception):
            if frame.outer is not None and not ends:
                error = await after_acts(error, ctx)
            if not journal.is_known(mistake or error):
                so_far = None
                if frame.outer is not None:  # without what it was asked, which whoever calls it again knows
                    run = frame.until(error, request, ctx)
                    so_far = replace(run, messages=Transcript.of(*run.history[run.start :]), start=0, past=None)
                await journal.write_failure(ctx, name, request, mistake or error, run=so_far)
            if frame.outer is None:  # nothing is left that could repeat anything
                error = errors.original_of(error) if mistake is None else mistake
            await hooks.tell(chain, error, ctx)
    except BaseException as raised:  # noqa: BLE001 - raised by the caller
        if frame.outer is None:
            raised.__cause__ = _with_run(error, frame, request, ctx)  # the end of the run, if it is on record by now
        return raised
    return error


class _Alternatives:
    """An agent inside its wraps, which may await it several times: at other paths than its own it is entered again."""

    def __init__(self, inner: AgentService, ctx: Context) -> None:
        self.inner = inner
        self._ctx = ctx
        self._running: set[str] = set()
        self._failed: tuple[str, Exception] | None = None

    async def __call__(self, request: AgentRequest, ctx: Context, /) -> AgentRun:
        if self._failed is not None and ctx.path != self._failed[0]:
            error = await after_acts(self._failed[1], self._ctx)
            if isinstance(error, errors.NotRepeatable):
                error.original = None  # it ends here because of what was done
                raise error
        if ctx.path in self._running:
            raise errors.ConfigurationError(
                f"{ctx.path}: a wrap_agent awaits the agent twice at the same time with one context, so what it calls "
                "has one place in the record; give each its own: agent(request, ctx.under('alt-1'))"
            )
        self._running.add(ctx.path)
        try:
            if ctx.is_entered:
                return await self.inner(request, ctx)
            return await enter(self.inner, request, ctx, again=True)
        except Exception as error:
            self._failed = ctx.path, error
            raise
        finally:
            self._running.discard(ctx.path)


def _with_run(error: BaseException, frame: agent_call.AgentCall, request: AgentRequest, ctx: Context) -> BaseException:
    errors.attach(error, "partial", frame.until(error, request, ctx))
    return error


async def _apply_before_agent(
    parts: AgentParts, record: entries.Record | None, request: AgentRequest, ctx: Context, chain: hooks.HookChain
) -> AgentRequest:
    """Return the request after the ``before_agent`` hooks, or as recorded when the agent was first entered."""
    journal = journal_of(ctx)
    if record is not None and record.entered is not None:
        entered, frame = record.entered, ctx.scope[agent_call.AGENT_CALL]
        journal.skip(ctx, entered)
        await report_changes(parts, entered, ctx)
        if journal.replaying:
            frame.began = journal.watch.elapsed  # its time was spent when it was recorded
        elif frame.outer is None:
            frame.began = entered.elapsed
        else:  # it may have waited while others worked
            frame.begin(ctx, journal.watch.elapsed, journal.durations.of(ctx.path))
        return as_type(entered.request, AgentRequest)
    if journal.replaying:
        refuse(parts.name, ctx, journal)
    return await hooks.run_hooks(chain, "before_agent", request, ctx)


async def _apply_after_agent(run: AgentRun, ctx: Context, chain: hooks.HookChain) -> AgentRun:
    frame, journal = ctx.scope[agent_call.AGENT_CALL], journal_of(ctx)
    if journal.replaying:
        refuse(frame.agent, ctx, journal)
    for each in reversed(chain.hooks["after_agent"]):
        run = frame.counted(await hooks.hooked(each, "after_agent", run, ctx), ctx)
    return run


async def _recorded_run(
    record: entries.Record, parts: AgentParts, request: AgentRequest, ctx: Context
) -> AgentRun | None:
    journal = journal_of(ctx)
    if record.entered is not None and parent_of(ctx.path):
        await _compare_request(parts, record.entered, request, ctx)
    outcome = record.answer()
    failed = isinstance(outcome, entries.Failure)
    # A replay runs the loop again, to find differences; one that was answered from a cache has none to go through, and
    # what has been entered there is an agent of this name. So does a run whose failure was not its end.
    reused = journal.find(ctx.at(REUSED).path) if journal.replaying else None
    compared = journal.replaying and not failed and (reused is None or reused.entered is not None)
    if outcome is None or compared or (failed and not parent_of(ctx.path)):
        return None
    return await _answer(outcome, parts, request, ctx)


async def _answer(outcome: entries.Outcome, parts: AgentParts, request: AgentRequest, ctx: Context) -> AgentRun:
    try:
        run = _read_run(outcome, await journal_of(ctx).answer(ctx, outcome, parts.name, None, AgentRun), parts)
    except Exception as error:
        if isinstance(outcome, entries.Failure) and outcome.run is not None:
            turn, asked = as_type(outcome.run, AgentRun), request.messages
            whole = replace(turn, messages=Transcript.of(*asked, *turn.messages), start=len(asked))
            errors.attach(error, "partial", whole)
        raise
    await emit_recorded(run, ctx)
    return run


def _had_alternatives(ctx: Context) -> bool:
    entered = (entry.path for entry in journal_of(ctx).entries if isinstance(entry, entries.Entered))
    return any(parent_of(path) == ctx.path for path in entered)


def recorded_answer(agent: AgentService, record: entries.Record | None) -> AgentRun | None:
    result = None if record is None else record.result
    return None if result is None else _read_run(result, as_type(result.value, AgentRun), parts_of(agent))


def _read_run(outcome: entries.Outcome, run: AgentRun, parts: AgentParts) -> AgentRun:
    by_reference = isinstance(outcome, entries.Result) and outcome.value is run and run._output is not run._accepted
    return run if by_reference else read_output(run, parts.read)


def read_output(run: AgentRun, read: Callable[[AgentRun], AgentRun] | None) -> AgentRun:
    """Return a run as recorded with its output in the type that its agent gives; `read` is that of `AgentParts`."""
    if read is None:
        return run
    try:
        return read(run)
    except errors.JournalCorrupt as error:
        raise errors.RunExists(
            f"the run {run.id!r} exists with another type of output: {error}; choose another id"
        ) from error


async def emit_recorded(run: AgentRun, ctx: Context) -> None:
    """Emit the replies and the end of a run that is answered from the record, so that listeners get all events."""
    if ctx.listens(events.Delta):
        replies = (message for message in run.history[run.start :] if message.role == "assistant")
        for number, message in enumerate(replies, 1):
            await emit_deltas(message, ctx.at(f"step-{number}").at("model"))
    if ctx.listens(events.AgentEnded):
        await ctx.emit(events.AgentEnded(ctx.path, run))


def _replayed(
    run: AgentRun,
    record: entries.Record,
    result: entries.Result,
    parts: AgentParts,
    ctx: Context,
    chain: hooks.HookChain,
) -> AgentRun:
    """Return the recorded run in a replay, after comparing it with the new one unless hooks may have changed it."""
    record.counted = record.number(result)
    recorded = _read_run(result, as_type(result.value, AgentRun), parts)
    if not chain.has("after_agent", "wrap_agent"):
        journal = journal_of(ctx)
        journal.diverged(ctx.path, "stop", repr(recorded.stop), repr(run.stop))
        journal.diverged(ctx.path, "conversation", recorded.messages.fingerprint(), run.messages.fingerprint())
    return recorded


def _make_frame(ctx: Context, parts: AgentParts, *, again: bool) -> tuple[Context, hooks.HookChain]:
    if parts.prepare is not None and not again:
        ctx = parts.prepare(ctx)
    frame = agent_call.AgentCall(parts, ctx)
    scope = ctx.scope.with_value(agent_call.AGENT_CALL, frame)
    if frame.outer is not None or ctx.frozen is not None or guarded_call.APPROVED_CALL in scope:
        _check_stands(frame, ctx)
        scope = scope.with_value(guarded_call.APPROVED_CALL, None)
    if parts.grants is not None:  # an empty set counts too: agents below get none
        outer = scope.get(GRANTS)
        scope = scope.with_value(GRANTS, parts.grants if outer is None else outer & parts.grants)
    return ctx.entered(scope), hooks.NO_CHAIN if again else scope.get(hooks.MIDDLEWARE) or hooks.NO_CHAIN


def _check_stands(frame: agent_call.AgentCall, ctx: Context) -> None:
    limit = ctx.scope.get(MAX_DEPTH_KEY) or MAX_DEPTH
    if frame.depth > limit:
        why = f"agents may stand {limit} levels deep; {frame.agent} is one too deep"
        raise errors.LimitExceeded("depth", limit, frame.depth, why)
    frozen = guarded_call.frozen_in(ctx)
    if frozen is not None and frozen.effect == "once":
        raise errors.ConfigurationError(
            f"the tool {frozen.call.name} calls the agent {frame.agent}, so it is made of other calls and cannot act "
            "once only: declare effect='once' on the tools below instead"
        )


async def report_changes(parts: AgentParts, entered: entries.Entered, ctx: Context) -> None:
    """Emit `Diverged` for each part of an agent that has changed since it was entered."""
    journal = journal_of(ctx)
    before = as_type(entered.setup, dict[str, str])
    screened = journal.screened(entries.Entered(ctx.path, parts.name, None, parts.setup()))
    after = as_type(screened.setup, dict[str, str])
    for what in before | after:
        await _report(ctx, what, before.get(what, ""), after.get(what, ""))


async def _report(ctx: Context, what: str, recorded: str, current: str) -> None:
    diverged = journal_of(ctx).diverged(ctx.path, what, recorded, current)
    if diverged is not None and ctx.listens(type(diverged)):
        await ctx.emit(diverged)

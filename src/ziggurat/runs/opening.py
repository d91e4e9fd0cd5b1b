"""Opening: a run that is open, until it is left."""

from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct

from ziggurat.calls.agent_call import INBOX
from ziggurat.calls.inbox import Inbox
from ziggurat.core.context import JOURNAL, RUN_ID, Context, Scope
from ziggurat.core.errors import ProcessLost, RecordEnds
from ziggurat.core.event import Emit, Listeners
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import AgentRequest
from ziggurat.runs.control import STEERING, EventBroadcast, RunControl
from ziggurat.runs.options import RunOptions
from ziggurat.runs.runs import Runs
from ziggurat.runs.session_writer import SessionWriter
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.fork_effects import FORK_EFFECTS, ForkEffects
from ziggurat.tools.permissions import GRANTS, limit_grants
from ziggurat.tools.threads import rules_hold, run_ended


class Opening(Struct, eq=False):
    """A run that is open: what it takes to drive it."""

    run_id: str
    request: AgentRequest
    path: str
    emit: Emit
    ctx: Context | None
    journal: LocalJournal
    runs: Runs | None = None
    writer: SessionWriter | None = None
    control: RunControl | None = None
    ended: bool = False  # whether it is answered from its record
    over: BaseException | None = None  # with which it ends before its agent is entered
    mistaken: bool = False
    again: Callable[[], Awaitable["Opening"]] | None = None  # opens the run to continue it

    @classmethod
    def of(
        cls,
        run_id: str,
        request: AgentRequest,
        path: str,
        journal: LocalJournal,
        options: RunOptions,
        control: RunControl | None,
        *,
        runs: Runs | None = None,
        grants: Iterable[str] | None = None,
        writer: SessionWriter | None = None,
        effects: ForkEffects | None = None,
        lost: ProcessLost | None = None,
        ended: bool = False,
        again: Callable[[], Awaitable["Opening"]] | None = None,
    ) -> "Opening":
        """Return an open run of the agent at a path; without `runs`, nothing is recorded, and nobody can reach it."""
        scope = options.scope()
        scope[JOURNAL], scope[RUN_ID] = journal, run_id
        if grants is not None:
            limit_grants(scope, grants)
        if effects is not None:
            scope[FORK_EFFECTS] = effects
        emit = Listeners(options.emit, options.listeners) if options.listeners else options.emit
        if runs is not None and writer is not None:
            writer.join(scope, journal, path, runs, options.environment.clock)
        if runs is not None and control is None:  # it has neither a store nor a handle nor an id that others know
            scope[INBOX] = lambda run_id, journal: Inbox(runs, run_id, journal)
        elif runs is not None and control is not None:
            from ziggurat.runs.recorded_events import RECORDED_EVENTS

            scope[INBOX], scope[STEERING] = control.inbox, control
            known = options.run_id is not None or journal.reopened  # someone may subscribe
            emit = broadcast = EventBroadcast(journal, emit, pieces=known, recorded=RECORDED_EVENTS)
            control.follow(broadcast)
            runs.announce(control)
        if control is not None:
            control.recorded.set()
        journal.watch.outer = options.around
        ctx = Context(path, emit, journal.watch, Scope(scope))
        if not ended and (APPROVALS in scope or GRANTS in scope):
            rules_hold(ctx)
        over = RecordEnds("Cancelled") if control is not None and control.stopped else lost
        if over is not None and (record := journal.find(path)) is not None and record.result is not None:
            over = None  # it has its answer
        return cls(run_id, request, path, emit, ctx, journal, runs, writer, control, ended, over, again=again)

    def take_context(self) -> Context:
        """Return the first context of the run, to be used once, or raise that the run is over before."""
        if self.over is not None:  # what stands before a call could kill each process in turn, or be a mistake
            raise self.over
        ctx, self.ctx = self.ctx, None  # it is not held here, so that it is freed
        assert ctx is not None
        return ctx

    async def leave(self) -> None:
        run_ended(self.run_id)
        if self.control is not None:
            self.control.end()
        try:
            try:
                if self.control is not None and self.journal.reopened:
                    # While its lease holds: whoever drives the run next would use decisions that came to nothing here.
                    await self.control.inbox(self.run_id, self.journal).withdraw()
            finally:
                if self.writer is not None:
                    await self.writer.leave()
        finally:
            if self.runs is not None:
                await self.runs.leave(self.run_id, self.journal, mistaken=self.mistaken)
            self.journal.close()

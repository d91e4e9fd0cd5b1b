"""Open a run: a new one, one to continue, or one that has ended and is answered from its record."""

import asyncio
from collections.abc import AsyncGenerator

from ziggurat.calls import enter
from ziggurat.calls.decisions import decision_entries
from ziggurat.calls.hooks import screened
from ziggurat.core import codec, errors
from ziggurat.core.path import escaped
from ziggurat.journal import entries, store
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, empty_run
from ziggurat.messages.prompts import Prompt
from ziggurat.runs import session_writer
from ziggurat.runs.control import RunControl, SubscribedItem
from ziggurat.runs.deciding import Deciding
from ziggurat.runs.opening import Opening
from ziggurat.runs.options import Live, RunOptions
from ziggurat.runs.recovering import Recovering
from ziggurat.runs.runs import Runs, conditions_of
from ziggurat.stores.session_log import RunConditions


class Opener:
    def __init__(
        self,
        agent: enter.AgentService,
        parts: enter.AgentParts,
        name: str,
        runs: Runs,
        steerable: frozenset[str] | None = None,
    ) -> None:
        self.runs = runs
        self.steerable = steerable
        self.name = name
        self.path: str = escaped(name)
        self.deciding: Deciding = Deciding(runs, agent, self._prepare)
        self._agent = agent
        self._parts = parts

    def control(self, run_id: str, depth: int = 0) -> RunControl:
        """Return the control of a run; at a depth below the agent at its root, if that is steered."""
        return RunControl(run_id, self.runs, depth, self.steerable)

    async def open(self, request: AgentRequest | None, options: RunOptions) -> Opening:
        """Open a new run, or the one that has the id in the options; without a request that must exist."""
        if request is None:
            assert options.run_id is not None
            return await self.reopen(options.run_id, options)
        if options.run_id is None and options.session is None:
            return await self._open_new(request, options, options.fresh_id(), "")
        return await self._open_once(request, options)

    async def _open_once(self, request: AgentRequest, options: RunOptions) -> Opening:
        """Open a run that has an id or a session, unless there is one with this id, which is opened then."""
        session, run_id = options.session, options.run_id
        # In a session without its earlier turns: the same call again must find its run, though it has more by then.
        fingerprint = codec.digest(request if session is None else [request.messages, session.id])
        while True:
            known = None if run_id is None else await self.runs.find(run_id)
            if known is not None:
                self._check_same(known, fingerprint)
                interrupted = known.status in store.OPEN
                return await (self._continue if interrupted else self._open_ended)(known.id, options)
            new_id = options.fresh_id()
            # The session first: its lease orders the turns, and the run's request contains the turns before it.
            writer = None if session is None else await session_writer.open_session(session, new_id, request)
            try:
                return await self._open_new(request, options, new_id, fingerprint, writer)
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError):
                    errors.attach(error, "partial", empty_run(self.name, request, stops.Cancelled(), new_id))
                if writer is not None:
                    await writer.leave()
                if not isinstance(error, errors.RunExists) or run_id is None or await self.runs.find(run_id) is None:
                    raise
            # it was begun elsewhere since we looked, perhaps while we waited for the session

    async def _open_new(
        self,
        request: AgentRequest,
        options: RunOptions,
        run_id: str,
        fingerprint: str,
        writer: session_writer.SessionWriter | None = None,
    ) -> Opening:
        request = request if writer is None else writer.request
        opened = self._first_entry(request, options, run_id, writer)
        control = options.control
        if control is None and (self.runs.keeps_ended or options.run_id is not None):
            # Others can reach only a run that is kept, or whose id they know; the rest are spared the cost.
            control = self.control(run_id)
        begins = self.runs.open(opened, fingerprint, self._screen, options.environment, control)
        journal = await self.runs.begin(run_id, begins)
        again = lambda: self._continue(run_id, options.undecided())  # noqa: E731
        return Opening.of(
            run_id, request, self.path, journal, options, control, runs=self.runs, writer=writer, again=again
        )

    def _first_entry(
        self,
        request: AgentRequest,
        options: RunOptions,
        run_id: str,
        writer: session_writer.SessionWriter | None = None,
    ) -> entries.Opened:
        conditions = None if options.grants is None else RunConditions(tuple(sorted(options.grants)))
        if writer is not None:
            conditions = writer.conditions(conditions, self.runs.store)
        version, at = codec.SHAPE_VERSION, options.environment.clock.now()
        return entries.Opened("", run_id, version, at, request, None, options.labels, conditions, agent=self.name)

    def _check_same(self, info: store.LogInfo, fingerprint: str) -> None:
        if info.agent and info.agent != self.name:
            raise errors.RunExists(f"the run {info.id!r} exists with another agent, {info.agent!r}; choose another id")
        if info.request != fingerprint:
            raise errors.RunExists(f"the run {info.id!r} exists with another request or session; choose another id")

    async def submit(self, request: AgentRequest, options: RunOptions, due: float, priority: int) -> str:
        """Store a run that nobody drives yet, unless it exists; return its id."""
        run_id, fingerprint = options.fresh_id(), codec.digest(request)
        opened = self.screened_entry(self._first_entry(request, options, run_id))
        try:
            await self.runs.plant(run_id, self.name, [opened], fingerprint=fingerprint, due=due, priority=priority)
        except errors.RunExists:
            info = await self.runs.find(run_id)
            if info is None:
                raise
            self._check_same(info, fingerprint)
        return run_id

    async def reopen(
        self, run_id: str, options: RunOptions, *, recovering: Recovering | None = None, forked: bool = False
    ) -> Opening:
        """Open a run to continue it; one that has ended for good is answered from its record."""
        # A worker has claimed the run: it holds the lease, under which `attempt` looks at how the run stands.
        info = None if recovering else await self.runs.known(run_id)
        if info is not None and info.status not in store.UNFINISHED:
            return await self._open_ended(run_id, options)
        return await self._continue(run_id, options, recovering, forked)

    async def _continue(
        self, run_id: str, options: RunOptions, recovering: Recovering | None = None, forked: bool = False
    ) -> Opening:
        # The lease first: what is read before it, another process may still change.
        epoch = None if recovering is None else recovering.claim.epoch
        journal = await self.runs.begin(run_id, self.runs.take(run_id, options.environment, epoch))
        writer: session_writer.SessionWriter | None = None
        try:
            losses, lost, alone = (0, None, False) if recovering is None else await recovering.attempt(journal)
            journal.strict, journal.is_new = options.strict, forked
            request = self._prepare(journal, run_id)
            conditions = conditions_of(journal.entries[0])
            clock = options.environment.clock
            control = options.control or self.control(run_id)
            if conditions.session:
                writer = await session_writer.reopen_session(
                    options.session, conditions, run_id, request, self.runs.store
                )
            opened, effects = journal.entries[0], None
            if isinstance(opened, entries.Opened) and opened.forked is not None:
                from ziggurat.runs.fork import effects_of

                effects = await effects_of(self.runs, opened.forked)
            # Decisions that others posted were made before those of this call, and the first one stands.
            inbox = control.inbox(run_id, journal)
            decided = await inbox.decide(options.decisions or {}, clock.now(), self._agent)
            journal.reopen(run_id, clock.now(), decided, losses, alone)
            if recovering is not None:
                recorded = journal.settled(flush=True)  # so that this attempt counts, whatever becomes of it
                if recorded is not None:
                    await recorded
            return Opening.of(
                run_id,
                request,
                self.path,
                journal,
                options,
                control,
                runs=self.runs,
                grants=conditions.grants,
                writer=writer,
                effects=effects,
                lost=lost,
                again=lambda: self._continue(run_id, options.undecided()),
            )
        except BaseException as error:
            if writer is not None:
                await writer.leave()
            await self.runs.leave(run_id, journal, mistaken=isinstance(error, errors.CallerError))
            raise

    async def has_ended(self, run_id: str | None) -> bool:
        info = None if run_id is None else await self.runs.find(run_id)
        return info is not None and info.status not in store.UNFINISHED

    async def answer(self, run_id: str) -> Opening:
        """Open a run that has ended, or waits for decisions, to be answered from its record, as soon as it does."""
        while (journal := await self.runs.read_ended(run_id)) is None:
            # Reading its items to the last one waits for its end; a run that has gone on by then is awaited again.
            async for _ in self.runs.subscribe(run_id, 0, live=False):
                pass
        return self._answered(run_id, journal, RunOptions())

    async def _open_ended(self, run_id: str, options: RunOptions) -> Opening:
        """Open a copy of the record of a run that has ended, unless it goes on since."""
        journal = await self.runs.read_ended(run_id, options.environment.clock)
        if journal is None:
            return await self._continue(run_id, options)
        return self._answered(run_id, journal, options)

    def _answered(self, run_id: str, journal: LocalJournal, options: RunOptions) -> Opening:
        """Open a run as its record has it; nothing is called and nothing is written."""
        journal.strict = options.strict
        request = self._prepare(journal, run_id)
        # For its errors only: nothing waits any more, so a decision that is not on record already is a mistake.
        decision_entries(journal, options.decisions or {}, 0.0, self._agent)
        return Opening.of(run_id, request, self.path, journal, options, options.control, ended=True)

    async def replay(self, run_id: str, live: Live, options: RunOptions) -> Opening:
        """Open a copy of a run's record whose calls are answered from it, all or in part; nothing is recorded."""
        from ziggurat.runs.fork import replay_journal

        journal = replay_journal((await self.runs.read(run_id)).entries, live, strict=options.strict)
        request = self._prepare(journal, run_id)
        journal.reopen(run_id, 0.0)
        grants = conditions_of(journal.entries[0]).grants
        return Opening.of(run_id, request, self.path, journal, options, options.control, grants=grants)

    async def fork(self, origin: entries.Origin, prompt: Prompt | None, options: RunOptions) -> Opening:
        """Create a run with the first steps of another, and open it to continue it."""
        from ziggurat.runs.fork import fork_entries

        before = await self.runs.read(origin.run_id)
        self._prepare(before, origin.run_id)
        forked, at = options.fresh_id("new_id"), options.environment.clock.now()
        first = fork_entries(before, self.path, forked, origin, prompt, options.labels, at)
        await self.runs.plant(forked, self.name, [before.screened(entry) for entry in first])
        return await self.reopen(forked, options, forked=True)

    def subscribe(
        self, run_id: str, after: int, items: AsyncGenerator[SubscribedItem, None] | None = None
    ) -> AsyncGenerator[SubscribedItem, None]:
        from ziggurat.runs.recorded_events import subscribe

        return subscribe(self.runs.subscribe, run_id, self.path, after, read=self._parts.read, items=items)

    async def check_own(self, run_id: str) -> None:
        """Raise RunNotFound if there is a run of this id, and it is of another agent."""
        info = await self.runs.find(run_id)
        if info is not None and info.agent not in ("", self.name):
            raise self._not_own(run_id, escaped(info.agent))

    # -- within --------------------------------------------------------------------------------------------------

    def _screen(self, journal: LocalJournal) -> None:
        """Set the agent's middleware to screen entries of the run as a whole, before the agent is entered."""
        chain = self._parts.chain
        if chain is not None and chain.hooks["on_record"]:
            screened(journal, chain, "")

    def screened_entry(self, entry: entries.JournalEntry) -> entries.JournalEntry:
        screens = LocalJournal()
        self._screen(screens)
        return screens.screened(entry)

    def _not_own(self, run_id: str, owner: str) -> errors.RunNotFound:
        by = "" if owner == self.path else f", but by {owner!r}"
        return errors.RunNotFound(f"the run {run_id!r} was not started by an agent named {self.name!r}{by}")

    def _prepare(self, journal: LocalJournal, run_id: str) -> AgentRequest:
        """Return the request of a recorded run, after checking that it is of this agent."""
        # Before anything is held: decisions are redacted as they are recorded, and compared in this form.
        self._screen(journal)
        opened = journal.entries[0] if journal.entries else None
        if isinstance(opened, entries.Opened) and opened.agent:
            owner = escaped(opened.agent)
        else:  # the record of an older version; the agent was entered first, or another by a hook of it
            entered = (entry.path for entry in journal.entries if isinstance(entry, entries.Entered))
            owner = next(entered, self.path).partition("/")[0]
        if not isinstance(opened, entries.Opened) or opened.request is None or owner != self.path:
            raise self._not_own(run_id, owner)
        return codec.as_type(opened.request, AgentRequest)

"""OnRecord: resume, replay, fork and subscribe to recorded runs."""

__all__ = ["OnRecord", "with_listeners"]

from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from ziggurat.calls.decisions import decision_entries
from ziggurat.calls.enter import AGENT, AgentParts, AgentService, Setup, enter
from ziggurat.calls.hooks import screened
from ziggurat.core.broadcast import Broadcast, Heard, subscribe
from ziggurat.core.clock import CLOCK, IDS, SYSTEM_CLOCK
from ziggurat.core.clock import new_id as fresh_id
from ziggurat.core.codec import as_type
from ziggurat.core.context import JOURNAL, RUN_ID, Context
from ziggurat.core.entries import LABELS, Entered, Opened, Origin
from ziggurat.core.errors import ConfigurationError, JournalCorrupt, RunNotFound
from ziggurat.core.event import SILENCE, Listener
from ziggurat.core.facts import COMPOSITE, NAME, Fact, fact
from ziggurat.core.ids import check_new_name
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.path import escaped
from ziggurat.core.scope import Scope
from ziggurat.core.store import UNFINISHED, Store
from ziggurat.messages.agent import AgentRequest, AgentRun, Decision
from ziggurat.runs.conditions import RunConditions, conditions_in, limit_grants
from ziggurat.runs.drive import drive
from ziggurat.runs.fork import fork_entries
from ziggurat.runs.options import Deps, check_id, check_options
from ziggurat.runs.prompt import Prompt
from ziggurat.runs.replay import Live, replay_journal
from ziggurat.runs.session_writer import SESSION_WRITER, SessionWriter, reopen_session
from ziggurat.runs.stored import StoredRuns, effects_of, is_finished, plant, record_of, runs_in
from ziggurat.stores.connect import connect
from ziggurat.stores.memory import InMemoryRunStore
from ziggurat.stores.running import Running
from ziggurat.stores.session import Session
from ziggurat.tools.fork_effects import Effects

J = TypeVar("J", bound=MemoryJournal)


class OnRecord:
    """The part of a Runnable that works with recorded runs, by their ids.

    Args:
        service: An agent loop, a team, or any function `(request, ctx)` that returns an AgentRun.
        name: Its name in paths.
        store: Where runs are kept.
    """

    def __init__(
        self, service: AgentService, *, name: str | None = None, store: str | InMemoryRunStore | Store | None = None
    ) -> None:
        if not callable(service) or isinstance(service, type):
            what = f"the class {service.__name__}" if isinstance(service, type) else type(service).__name__
            raise ConfigurationError(f"Runnable() needs a service (request, ctx), got {what}")
        if name is not None:
            check_new_name(name, "the name of a Runnable")
        self.inner = service
        self._used_as_root = False  # whether it was run outside of all other runs
        self.store = InMemoryRunStore(finished=False) if store is None else connect(store)
        self._runs = runs_in(self.store)
        parts = fact(service, AGENT)
        if parts is None:
            given = name or str(getattr(service, "__name__", "agent"))
            parts = AgentParts(given, None, Setup(dict))
        self.name = name or parts.name
        self._parts = parts
        self._path = escaped(self.name)
        self.facts: dict[Fact[Any], Any] = {AGENT: parts, COMPOSITE: True, NAME: self.name}

    def __call__(self, request: AgentRequest, ctx: Context, /) -> Coroutine[Any, Any, AgentRun]:
        """Answer as a service, at this context's path."""
        return self.inner(request, ctx) if ctx._entered else enter(self, request, ctx)

    async def resume(
        self,
        run_id: str,
        decisions: Mapping[str, Decision] | None = None,
        *,
        strict: bool = False,
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
        session: Session | None = None,
    ) -> AgentRun:
        """Continue a run that was suspended, cancelled or failed; recorded calls are not made again.

        Args:
            run_id: The id of the run.
            decisions: By the id of each pending item, ``Approve()``, ``Deny(reason)`` or ``Modify(arguments)``.
            strict: Raise where this agent differs from the record (its model, instructions, tools, requests). Otherwise
                it emits `Diverged`, and the record wins.
            deps: As for `run`; they are not recorded.
            listeners: As for `run`.
            session: The run's session, only if it is kept in another store than the run.

        Raises:
            RunNotFound: the store has no such run.
            LeaseHeld: another process drives the run, or another run writes its session.
            ConfigurationError: a decision names no pending item (the message lists those there are), or changes a call
                to arguments that do not fit. None of the decisions is recorded then.
            JournalMismatch: with `strict`, the agent differs; the message shows where, with a diff.
        """
        check_options(deps, listeners)
        check_id(run_id)
        if session is not None and not isinstance(session, Session):
            raise ConfigurationError(
                f"session takes a Session, where it is in another store than the run; got {session!r}"
            )
        runs = self._runs
        if isinstance(runs, InMemoryRunStore):
            known = runs.open(run_id)
            runs.check_idle(run_id)
            known.strict = strict
            ctx, journal, request = await self._reopen(known, run_id, deps, decisions or {}, session)
            return await self._drive(request, with_listeners(ctx, listeners), journal, named=True)
        info = await runs.find(run_id)
        if info is not None and is_finished(info):
            return await self._answer_from_record(run_id, deps, listeners, decisions)
        stored = await runs.take(run_id, deps or {})
        stored.strict = strict
        try:
            ctx, journal, request = await self._reopen(stored, run_id, deps, decisions or {}, session)
        except BaseException:
            await runs.let_go(run_id, stored)
            raise
        return await self._drive(request, with_listeners(ctx, listeners), journal, named=True)

    def subscribe(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Heard, None]:
        """Follow a run by its id, from its start or after a given entry, also while it is in progress::

            async for heard in agent.subscribe("r-17", after=12):
                print(heard.number, heard.what)

        Recorded entries come complete and in order, whenever the reader joins; pieces of a reply come as they pass.
        There can be any number of readers; none slows the run.

        Raises:
            RunNotFound: no such run is in progress or in the store.
            ConfigurationError: `after` is not the number of an entry.
        """
        check_id(run_id)
        if not isinstance(after, int) or isinstance(after, bool) or after < 0:
            raise ConfigurationError(f"after is the number of an entry, 0 for the beginning; got {after!r}")
        if isinstance(self._runs, StoredRuns):
            return self._runs.subscribe(run_id, after)
        return subscribe(self._runs.open(run_id), self._runs.broadcast(run_id), after=after)

    async def record(self, run_id: str) -> bytes:
        """Return the record of a run as JSON lines.

        Raises:
            RunNotFound: the store has no such run.
            JournalCorrupt: an entry is damaged; the message names it.
        """
        check_id(run_id)
        return await record_of(self._runs, run_id)

    async def replay(
        self,
        run_id: str,
        *,
        live: Live = "nothing",
        strict: bool = True,
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
    ) -> AgentRun:
        """Run a recorded run again, answering calls from its record; nothing is recorded.

        Args:
            run_id: The id of the run.
            live: What is called again: ``"nothing"``, its ``"tools"`` (with their side effects), or its ``"models"``.
            strict: Raise where something differs. Otherwise it emits `Diverged` and continues as long as the record has
                answers.
            deps: As for `run`; they are not recorded.
            listeners: As for `run`.

        Raises:
            JournalMismatch: this agent would have done something else; the message shows where, with a diff.
        """
        check_options(deps, listeners)
        journal = replay_journal(await self.record(run_id), live, strict=strict)
        request = self._recorded_request(journal, run_id)
        journal.reopen(run_id, 0.0)
        ctx = with_listeners(self._root(journal, run_id, deps, conditions_in(journal)), listeners)
        return await drive(self, self.name, request, ctx, journal, InMemoryRunStore())

    async def fork(
        self,
        run_id: str,
        at: int,
        prompt: Prompt | None = None,
        *,
        effects: Effects = "refuse",
        new_id: str | None = None,
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
    ) -> AgentRun:
        """Start a new run with the steps of a recorded run before a given step, and continue differently from there::

            other = Agent("openai:gpt-5", tools=[...], store=agent.store)
            run = await other.fork("r-17", at=3, prompt="In one sentence, please.")

        The steps before it are kept whole and cost nothing; the original run does not change. The fork records its
        origin.

        Args:
            run_id: The run to fork, of an agent of this name.
            at: The first step that is run again, from 1.
            prompt: A message added at that step; at step 1 it replaces the question.
            effects: What happens to calls of tools with side effects (all but ``effect="none"``): ``"refuse"`` them,
                return the original run's result for each call it made too (``"recorded"``), or run them (``"live"``).
            new_id: The id of the new run.
            deps: As for `run`; they are not recorded.
            listeners: As for `run`.

        Raises:
            RunNotFound: the store has no such run.
            RunExists: `new_id` belongs to a run.
            ConfigurationError: the run has no such step or cannot be forked there; the message says where it can.
        """
        check_options(deps, listeners, new_id)
        given_deps = deps or {}
        before = MemoryJournal.load(await self.record(run_id))
        self._recorded_request(before, run_id)
        new_id = new_id or given_deps.get(IDS, fresh_id)()
        at_time = given_deps.get(CLOCK, SYSTEM_CLOCK).now()
        entries = fork_entries(before.entries, self._path, new_id, Origin(run_id, at, effects), prompt, at_time)
        if LABELS in given_deps:
            entries[0] = replace(entries[0], labels=given_deps[LABELS])
        screens = MemoryJournal()
        self._screen(screens)
        await plant(self._runs, new_id, self.name, [screens.screened(entry) for entry in entries])
        return await self.resume(new_id, deps=deps, listeners=listeners)

    async def _reopen(
        self,
        journal: J,
        run_id: str,
        deps: Deps | None,
        decisions: Mapping[str, Decision],
        session: Session | None = None,
    ) -> tuple[Context, J, AgentRequest]:
        """Reopen a record to continue its run; decisions are recorded before they are acted on."""
        request, conditions = self._recorded_request(journal, run_id), conditions_in(journal)
        self._screen(journal)
        clock = (deps or {}).get(CLOCK, SYSTEM_CLOCK)
        entries = decision_entries(journal, decisions, clock.now(), self)
        writer = await reopen_session(session, conditions, run_id, request, self.store) if conditions.session else None
        try:
            for entry in entries:
                waiting = journal.append(entry)
                if waiting is not None:
                    await waiting
            reopened = journal.reopen(run_id, clock.now(), clock)
            if reopened is not None:
                await reopened
            deps = await effects_of(self._runs, journal, deps)
        except BaseException:
            if writer is not None:
                await writer.leave()
            raise
        return self._root(journal, run_id, deps, conditions, writer), journal, request

    async def _open_copy(self, run_id: str, deps: Deps | None) -> "tuple[Context, MemoryJournal, Running]":
        """Open a copy of the record of a run that has ended; all is answered from it and nothing is written.

        Raises:
            JournalCorrupt: it does not end as a run that has ended does, so it cannot answer everything.
        """
        assert isinstance(self._runs, StoredRuns)
        clock = (deps or {}).get(CLOCK, SYSTEM_CLOCK)
        journal = await self._runs.read(run_id, clock=clock)
        if journal.ended is None or journal.ended.stop in UNFINISHED:
            raise JournalCorrupt(
                f"the run {run_id!r} has ended by its status, but not by its entries: its status was changed, or its "
                "last entries are lost; restore the store from a backup"
            )
        self._recorded_request(journal, run_id)
        journal.reopen(run_id, clock.now(), clock)
        return self._root(journal, run_id, deps), journal, InMemoryRunStore()

    async def _answer_from_record(
        self, run_id: str, deps: Deps | None, listeners: Sequence[Listener], decisions: Mapping[str, Decision] | None
    ) -> AgentRun:
        ctx, journal, runs = await self._open_copy(run_id, deps)
        decision_entries(journal, decisions or {}, 0.0, self)  # nothing is pending, so each is refused
        request = self._recorded_request(journal, run_id)
        return await self._drive(request, with_listeners(ctx, listeners), journal, runs, named=True)

    def _root(
        self,
        journal: MemoryJournal,
        run_id: str,
        deps: Deps | None,
        conditions: RunConditions | None = None,
        writer: SessionWriter | None = None,
    ) -> Context:
        values: dict[Any, Any] = {**(deps or {}), JOURNAL: journal, RUN_ID: run_id}
        if conditions is not None:
            limit_grants(values, conditions)
        if writer is not None:
            values[SESSION_WRITER] = writer
            writer.journal, writer.path = journal, self._path
        return Context(self._path, SILENCE, None, Scope(values))

    def _drive(
        self,
        request: AgentRequest,
        ctx: Context,
        journal: MemoryJournal,
        runs: Running | None = None,
        *,
        named: bool,
    ) -> Coroutine[Any, Any, AgentRun]:
        home = runs or self._runs
        if named or self._runs.finished:  # its id may be known, so someone may subscribe
            broadcast = Broadcast(journal, ctx.emit)
            home.announce(ctx.run_id, broadcast)
            ctx = ctx.emitting(broadcast)
        run = drive(self, self.name, request, ctx, journal, home)
        writer = ctx.scope.get(SESSION_WRITER)
        return run if writer is None else writer.until(run)

    def _screen(self, journal: MemoryJournal) -> None:
        """Set this agent's middleware to screen entries of the run as a whole, before the agent is entered."""
        if self._parts.chain is not None:
            screened(journal, self._parts.chain, "")

    def _recorded_request(self, journal: MemoryJournal, run_id: str) -> AgentRequest:
        opened = journal.entries[0] if journal.entries else None
        record = journal.find(self._path)
        begun = any(isinstance(entry, Entered) for entry in journal.entries)  # False if cancelled in a hook
        if not isinstance(opened, Opened) or opened.request is None or (begun and (not record or not record.entered)):
            raise RunNotFound(f"the run {run_id!r} was not begun by an agent named {self.name!r}")
        return as_type(opened.request, AgentRequest)

    def __repr__(self) -> str:
        return repr(self.inner)


def with_listeners(ctx: Context, listeners: Sequence[Listener]) -> Context:
    """Return a context whose events also go to `listeners`."""
    return ctx.heard_by(*listeners) if listeners else ctx

"""`Runnable`: run, stream and start for anything that answers an AgentRequest: agents, teams, layered agents."""

__all__ = ["Runnable"]

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar, Unpack

from ziggurat.agents.as_tool import AgentTool
from ziggurat.agents.blocking import blocking, loop_elsewhere
from ziggurat.agents.concurrent import ConcurrentAgents
from ziggurat.agents.handle import RunHandle
from ziggurat.agents.on_record import OnRecord, with_listeners
from ziggurat.agents.steering import STEERABLE, STEERING, Mailbox
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.enter import AgentService, enter
from ziggurat.core.clock import CLOCK, IDS, SYSTEM_CLOCK, Clock
from ziggurat.core.clock import new_id as fresh_id
from ziggurat.core.codec import SHAPE_VERSION, digest
from ziggurat.core.context import AMBIENT, Context
from ziggurat.core.entries import Opened
from ziggurat.core.errors import ConfigurationError, RunExists
from ziggurat.core.event import SILENCE, Listener
from ziggurat.core.facts import fact
from ziggurat.core.ids import check_new_id
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.layer import stack
from ziggurat.core.stored_journal import StoredJournal
from ziggurat.core.stream import EventStream, StreamBlock, open_stream
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.events import Warned
from ziggurat.messages.message import Message
from ziggurat.runs.conditions import RunConditions, conditions_in, conditions_of
from ziggurat.runs.drive import empty_run
from ziggurat.runs.options import Deps, RunOptions, check_options, with_deps
from ziggurat.runs.prompt import Prompt, request_of
from ziggurat.runs.session_writer import (
    SESSION_WRITER,
    SessionWriter,
    is_same_request,
    open_session,
    request_digest,
    request_in,
    session_for,
)
from ziggurat.runs.stored import StoredRuns, is_finished
from ziggurat.stores.memory import InMemoryRunStore
from ziggurat.stores.running import Running
from ziggurat.stores.session import Session
from ziggurat.tools.thread_guard import check_thread, trust_thread
from ziggurat.tools.threads import POOL

J = TypeVar("J", bound=MemoryJournal)


Opening = tuple[Context, MemoryJournal, Running]
"""The context of a run, its journal, and the registry of running runs it is driven in."""


class Runnable(OnRecord):
    """Runs a service from AgentRequest to AgentRun, and is such a service itself.

    Args:
        service: An agent loop, a team, or any function `(request, ctx)` that returns an AgentRun.
        name: Its name in paths.
        store: Where runs are kept so that they can be resumed; without one, unfinished runs are kept in this process.
    """

    # -- running -------------------------------------------------------------------------------------------------

    def run(
        self,
        prompt: Prompt,
        *,
        history: Sequence[Message] = (),
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
        run_id: str | None = None,
        session: str | Session | None = None,
        detached: bool = False,
    ) -> Coroutine[Any, Any, AgentRun]:
        """Run to the end and return the run; why it stopped is in ``run.stop``, not an exception.

        Inside a tool or a hook of another run it joins that run, and shares its budget, grants, approvals and record.

        Args:
            prompt: The question or task.
            history: Earlier messages, such as ``earlier.messages``.
            deps: Dependencies that tools read with ``ctx.scope[KEY]``.
            listeners: Called with every event.
            run_id: An id of your own; with a store, the same id and request give the same run.
            session: The conversation to continue, which is saved: an id in this agent's store, or a `Session` with
                settings.
            detached: Start a separate run even inside another.

        Raises:
            ConfigurationError: something was used wrongly; the message says what and how to fix it.
            RunExists: the id belongs to a run with another request.
            LeaseHeld: another run writes the session, and waiting for it was not allowed or took too long.
        """
        request = request_of(prompt, history)
        if deps is not None or listeners != () or run_id is not None:
            check_options(deps, listeners, run_id)
        ambient = self._surroundings(detached=detached)
        if ambient is not None and not detached:
            return self._join(ambient, request, deps, listeners, run_id, session)
        run: Coroutine[Any, Any, AgentRun]
        if session is not None:
            chat = session_for(session, self.store, history)
            run = self._open_and_drive(request, deps, listeners, run_id, chat)
        elif run_id is None and not listeners and isinstance(self._runs, InMemoryRunStore):
            run = self._drive(request, *self._open(request, deps), named=False)
        else:  # the record is opened when the coroutine starts: a run with this id may exist by then
            run = self._open_and_drive(request, deps, listeners, run_id)
        return run if ambient is None else self._run_detached(ambient, run)

    def run_sync(self, prompt: Prompt, **options: Unpack[RunOptions]) -> AgentRun:
        """Run from code that is not async, also in notebooks and threads of tools; takes the arguments of `run`."""
        self._surroundings(detached=options.get("detached", False))
        return blocking(lambda: self.run(prompt, **options))

    def stream(
        self,
        prompt: Prompt,
        *,
        history: Sequence[Message] = (),
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
        run_id: str | None = None,
        session: str | Session | None = None,
        detached: bool = False,
        buffer: int = 64,
    ) -> AbstractAsyncContextManager[EventStream[AgentRun]]:
        """Run, and read the events while it happens::

            async with agent.stream("...") as events:
                async for event in events:
                    ...
            run = events.response

        The whole run is streamed, not only its first answer. Leaving the block early cancels the run.
        """
        request = request_of(prompt, history)
        check_options(deps, listeners, run_id)
        ambient = self._surroundings(detached=detached)
        if ambient is not None and not detached:  # listeners of the outer run get these events too
            _check_joins(run_id, session)
            _check_on_loop()
            joined = _Heard(self, (*listeners, *(() if ambient.emit is SILENCE else (ambient.emit,))))
            return open_stream(joined, request, with_deps(ambient.under(self.name), deps), buffer=buffer)
        chat = None if session is None else session_for(session, self.store, history)
        return StreamBlock(self._stream_events(request, deps, listeners, run_id, chat, buffer, ambient))

    @asynccontextmanager
    async def _stream_events(
        self,
        request: AgentRequest,
        deps: Deps | None,
        listeners: Sequence[Listener],
        run_id: str | None,
        session: Session | None,
        buffer: int,
        ambient: Context | None,
    ) -> AsyncGenerator[EventStream[AgentRun], None]:
        if ambient is not None:
            await self._report_detached(ambient)
        ctx, journal, *runs = await self._open_record(request, deps, run_id, session)
        driven = False

        async def service(request: AgentRequest, ctx: Context) -> AgentRun:
            nonlocal driven
            driven = True
            heard = ctx.heard_by(*listeners) if listeners else ctx
            return await self._drive(request, heard, journal, *runs, named=run_id is not None)

        writer = ctx.scope.get(SESSION_WRITER)
        try:
            async with open_stream(service, request_in(ctx, request), ctx, buffer=buffer) as events:
                yield events
        finally:  # also if the block ended before the run began
            if writer is not None:
                await writer.leave()
            if not driven and isinstance(journal, StoredJournal) and isinstance(self._runs, StoredRuns):
                await self._runs.let_go(ctx.run_id, journal)

    def start(self, prompt: Prompt, **options: Unpack[RunOptions]) -> RunHandle:
        """Start a run in the background of this event loop and return its handle; takes the arguments of `run`."""
        request = request_of(prompt, options.get("history", ()))
        deps, listeners, run_id = options.get("deps"), options.get("listeners", ()), options.get("run_id")
        check_options(deps, listeners, run_id)

        def begin(mailbox: Mailbox, heard: Sequence[Listener]) -> Coroutine[Any, Any, AgentRun]:
            more = options.copy()
            more["deps"] = dict[Any, Any](deps or {}) | {STEERING: mailbox}
            more["listeners"] = [*listeners, *heard]
            return self.run(prompt, **more)

        detached = options.get("detached", False)
        around = self._surroundings(detached=detached)
        around = None if detached else around
        frame = None if around is None else around.scope.get(AGENT_CALL)
        nothing = empty_run(self.name, request, stops.Cancelled(), run_id or "")
        return RunHandle(begin, nothing, fact(self, STEERABLE), 0 if frame is None else frame.depth + 1)

    # -- wrapping ------------------------------------------------------------------------------------------------

    def layered(self, *layers: Callable[[AgentService], AgentService]) -> "Runnable":
        """Return a Runnable with layers around this one; the first listed meets the request first."""
        return Runnable(stack(self, *layers), name=self.name, store=self.store)

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> AgentTool:
        """Return this as a tool; agents in ``tools=[...]`` become tools automatically."""
        return AgentTool(self, name=name, description=description)

    # -- within --------------------------------------------------------------------------------------------------

    async def _join(
        self,
        ambient: Context,
        request: AgentRequest,
        deps: Deps | None,
        listeners: Sequence[Listener],
        run_id: str | None,
        session: str | Session | None,
    ) -> AgentRun:
        _check_joins(run_id, session)
        loop = loop_elsewhere()
        if loop is not None:  # called from a thread with an event loop of its own
            return POOL.run_on(loop, lambda: self._join(ambient, request, deps, listeners, run_id, session))
        ctx = with_deps(ambient.under(self.name), deps)
        beside = ambient.state(ConcurrentAgents, ConcurrentAgents)
        return await beside.run(enter(self, request, ctx.heard_by(*listeners) if listeners else ctx))

    async def _open_and_drive(
        self,
        request: AgentRequest,
        deps: Deps | None,
        listeners: Sequence[Listener],
        run_id: str | None,
        session: Session | None = None,
    ) -> AgentRun:
        ctx, journal, *runs = await self._open_record(request, deps, run_id, session)
        asked = request_in(ctx, request)
        return await self._drive(asked, with_listeners(ctx, listeners), journal, *runs, named=run_id is not None)

    async def _open_record(
        self, request: AgentRequest, deps: Deps | None, run_id: str | None, session: Session | None = None
    ) -> Opening:
        """Open the record of a new run, or of the run with this id."""
        if session is not None:
            return await self._open_in_session(session, request, deps, run_id)
        runs, given_deps = self._runs, {} if deps is None else deps
        if isinstance(runs, InMemoryRunStore):
            here = None if run_id is None else self._reopen_here(runs, request, deps, run_id)
            return *(here or self._open(request, deps, run_id)), runs
        known = None if run_id is None else await self._reopen_stored(runs, run_id, digest(request), deps)
        if known is not None:
            return known
        new_id = run_id or given_deps.get(IDS, fresh_id)()
        try:
            journal = await runs.create(new_id, self.name, request, given_deps, self._screen, conditions_of(deps))
        except RunExists:  # another process has begun it since we looked
            known = None if run_id is None else await self._reopen_stored(runs, run_id, digest(request), deps)
            if known is None:
                raise
            return known
        return self._root(journal, new_id, deps), journal, runs

    async def _reopen_stored(
        self, runs: StoredRuns, run_id: str, asked: str, deps: Deps | None, session: Session | None = None
    ) -> Opening | None:
        """Open the record of the run with this id and check that its request is the same; None if there is none."""
        info = await runs.find(run_id)
        if info is None:
            return None
        if info.request != asked:
            raise RunExists(f"the run {run_id!r} exists with another request; choose another id")
        if is_finished(info):
            return await self._open_copy(run_id, deps)
        stored = await runs.take(run_id, deps or {})
        try:
            ctx, known, _ = await self._reopen(stored, run_id, deps, {}, session)
        except BaseException:
            await runs.let_go(run_id, stored)
            raise
        return ctx, known, runs

    async def _open_in_session(
        self, session: Session, request: AgentRequest, deps: Deps | None, run_id: str | None
    ) -> Opening:
        """Open the record of a run that holds a session until it ends; the session's messages come first."""
        runs, asked = self._runs, request_digest(request, session)
        while True:
            if run_id is not None:
                if isinstance(runs, InMemoryRunStore):
                    known = await self._reopen_in_session(runs, run_id, request, deps, session)
                else:
                    known = await self._reopen_stored(runs, run_id, asked, deps, session)
                if known is not None:
                    return known
            new_id = run_id or (deps or {}).get(IDS, fresh_id)()
            check_new_id(new_id, "run_id")
            writer = await open_session(session, new_id, request)
            try:
                conditions = writer.conditions(conditions_of(deps), self.store)
                if isinstance(runs, InMemoryRunStore):
                    if runs.find(writer.run_id) is not None:
                        raise RunExists(f"the run {writer.run_id!r} exists; choose another id")
                    runs.check_idle(writer.run_id)
                    return *self._open(writer.request, deps, writer.run_id, conditions, writer), runs
                journal = await runs.create(
                    writer.run_id, self.name, writer.request, deps or {}, self._screen, conditions, asked
                )
                return self._root(journal, writer.run_id, deps, None, writer), journal, runs
            except BaseException as error:
                await writer.leave()
                if not isinstance(error, RunExists) or run_id is None:  # it was begun while we waited
                    raise

    async def _reopen_in_session(
        self, runs: InMemoryRunStore, run_id: str, request: AgentRequest, deps: Deps | None, session: Session
    ) -> Opening | None:
        runs.check_idle(run_id)
        known = runs.find(run_id)
        if known is None:
            return None
        if not is_same_request(self._recorded_request(known, run_id), conditions_in(known), request, session):
            raise RunExists(f"the run {run_id!r} exists with another request or session; choose another id")
        ctx, journal, _ = await self._reopen(known, run_id, deps, {}, session)
        return ctx, journal, runs

    def _reopen_here(
        self, runs: InMemoryRunStore, request: AgentRequest, deps: Deps | None, run_id: str
    ) -> tuple[Context, MemoryJournal] | None:
        """Open the record of the run with this id in this process; None if there is none."""
        runs.check_idle(run_id)
        known = runs.find(run_id)
        if known is None:
            return None
        conditions = conditions_in(known)
        self._screen(known)
        kept = known.screened(Opened("", run_id, SHAPE_VERSION, 0.0, request))
        asked = kept.request if isinstance(kept, Opened) else request
        was = digest(self._recorded_request(known, run_id))
        if was not in (digest(request), digest(asked)) or conditions.session:
            raise RunExists(f"the run {run_id!r} exists with another request; choose another id")
        clock = (deps or {}).get(CLOCK, SYSTEM_CLOCK)
        known.reopen(run_id, clock.now(), clock)
        return self._root(known, run_id, deps, conditions), known

    def _open(
        self,
        request: AgentRequest,
        deps: Deps | None,
        run_id: str | None = None,
        conditions: RunConditions | None = None,
        writer: SessionWriter | None = None,
    ) -> tuple[Context, MemoryJournal]:
        """Open the record of a new run in this process."""
        clock: Clock = SYSTEM_CLOCK
        if deps is not None:
            clock = deps.get(CLOCK, SYSTEM_CLOCK)
            run_id = run_id or deps.get(IDS, fresh_id)()
            conditions = conditions or conditions_of(deps)
        if run_id is not None:
            check_new_id(run_id, "run_id")
        run_id = run_id or fresh_id()
        journal = MemoryJournal(clock=clock)
        if self._parts.chain is not None:
            self._screen(journal)
        journal.append(Opened("", run_id, SHAPE_VERSION, clock.now(), request, None, None, conditions))
        return self._root(journal, run_id, deps, None, writer), journal

    async def _run_detached(self, ambient: Context, run: Coroutine[Any, Any, AgentRun]) -> AgentRun:
        await self._report_detached(ambient)
        return await run

    async def _report_detached(self, ambient: Context) -> None:
        if ambient.listens(Warned):
            await ambient.emit(Warned(ambient.path, f"{self.name} was started as a run of its own (detached)"))

    def _surroundings(self, *, detached: bool) -> Context | None:
        """Return the context of the user function that calls, None outside of runs; refuse where that is unknown."""
        ambient = AMBIENT.get()
        if ambient is None:
            if not (self._used_as_root or detached):
                check_thread(self.name)
            self._used_as_root = True
            trust_thread()
        return ambient


def _check_joins(run_id: str | None, session: str | Session | None) -> None:
    if run_id is not None or session is not None:
        raise ConfigurationError(
            f"a run inside another has no {'id' if session is None else 'session'} of its own; "
            "give one with run(..., detached=True)"
        )


def _check_on_loop() -> None:
    if loop_elsewhere() is not None:
        raise ConfigurationError(
            "a tool that is not async cannot stream: call run_sync(..., listeners=[...]), or make the tool async"
        )


class _Heard:
    """A service whose events also go to listeners."""

    def __init__(self, inner: AgentService, listeners: Sequence[Listener]) -> None:
        self.inner = inner
        self.listeners = listeners

    def __call__(self, request: AgentRequest, ctx: Context, /) -> Coroutine[Any, Any, AgentRun]:
        return self.inner(request, ctx.heard_by(*self.listeners) if self.listeners else ctx)

"""The front of everything that answers an AgentRequest: agents, teams, and whatever stands around them."""

__all__ = ["Runnable"]

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar, Unpack

from ziggurat.agents.as_tool import AgentTool
from ziggurat.agents.blocking import blocking
from ziggurat.agents.doors import Deps, RunOptions, check_options, decided, given, guarded
from ziggurat.agents.drive import Prompt, drive, request_of, unbegun
from ziggurat.agents.enter import AGENT, AgentParts, AgentService, Setup, enter
from ziggurat.agents.frame import FRAME
from ziggurat.agents.handle import RunHandle
from ziggurat.agents.steering import STEERABLE, STEERING, Mailbox
from ziggurat.agents.stored import StoredRuns, is_finished, runs_in
from ziggurat.core.broadcast import Broadcast, Heard, subscribe
from ziggurat.core.clock import CLOCK, IDS, SYSTEM_CLOCK, new_id
from ziggurat.core.codec import SHAPE_VERSION, as_type, digest
from ziggurat.core.context import AMBIENT, JOURNAL, RUN_ID, Context
from ziggurat.core.entries import Entered, Opened
from ziggurat.core.errors import ConfigurationError, RunExists, RunNotFound
from ziggurat.core.event import SILENCE, Listener
from ziggurat.core.facts import COMPOSITE, NAME, Fact, fact
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.layer import stack
from ziggurat.core.path import escaped
from ziggurat.core.scope import Key, Scope
from ziggurat.core.store import Store
from ziggurat.core.stream import EventStream, open_stream
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, Decision
from ziggurat.messages.events import Warned
from ziggurat.messages.message import Message
from ziggurat.messages.middleware import screened
from ziggurat.stores.connect import connect
from ziggurat.stores.memory import MemoryStore
from ziggurat.stores.running import Running
from ziggurat.tools.threads import POOL, loop_of_this_thread

J = TypeVar("J", bound=MemoryJournal)


class Runnable:
    """Runs a service from AgentRequest to AgentRun, and is one itself.

    Args:
        service: An agent loop, a team, or any function `(request, ctx)` that answers with an AgentRun.
        name: What it is called in paths.
        store: Where runs are kept so that they can be resumed; unfinished ones are kept in this process anyway.
    """

    def __init__(
        self, service: AgentService, *, name: str | None = None, store: str | MemoryStore | Store | None = None
    ) -> None:
        if not callable(service):
            raise ConfigurationError(f"Runnable() needs a service (request, ctx), got {type(service).__name__}")
        self.inner = service
        self.store = MemoryStore(finished=False) if store is None else connect(store)
        self._runs = runs_in(self.store)
        parts = fact(service, AGENT)
        if parts is None:
            given = name or str(getattr(service, "__name__", "agent"))
            parts = AgentParts(given, None, Setup(dict))
        self.name = name or parts.name
        self.facts: dict[Fact[Any], Any] = {AGENT: parts, COMPOSITE: True, NAME: self.name}

    def __call__(self, request: AgentRequest, ctx: Context, /) -> Awaitable[AgentRun]:
        """Answer as a service, at this context's path."""
        return self.inner(request, ctx) if ctx._entered else enter(self, request, ctx)

    # -- running -------------------------------------------------------------------------------------------------

    def run(
        self,
        prompt: Prompt,
        *,
        history: Sequence[Message] = (),
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
        run_id: str | None = None,
        detached: bool = False,
    ) -> Coroutine[Any, Any, AgentRun]:
        """Run to the end and return how it went; how it stopped is in ``run.stop``, not an exception.

        Inside a tool or a hook of another run this one joins it, and shares its budget, grants, approvals and record.

        Args:
            prompt: The question or task.
            history: What was said before, such as ``earlier.messages``.
            deps: What tools may ask for through ``ctx.scope[KEY]``.
            listeners: Called with every event.
            run_id: An id of your own; with a store the same id and request give the same run.
            detached: Start a run of its own even inside another.

        Raises:
            ConfigurationError: something was used wrongly; the text says what and how to mend it.
            RunExists: the id belongs to a run with another request.
        """
        request = request_of(prompt, history)
        if deps is not None or listeners != () or run_id is not None:
            check_options(deps, listeners, run_id)
        ambient = AMBIENT.get()
        if ambient is not None and not detached:
            return self._joined(ambient, request, deps, listeners, run_id)
        run: Coroutine[Any, Any, AgentRun]
        if run_id is None and not listeners and isinstance(self._runs, MemoryStore):
            run = self._drive(request, *self._open(self._runs, request, deps, None), named=False)
        else:  # with an id it is opened when it begins: another may have begun under it by then
            run = self._begun(request, deps, listeners, run_id)
        return run if ambient is None else self._detached(ambient, run)

    def run_sync(self, prompt: Prompt, **options: Unpack[RunOptions]) -> AgentRun:
        """Run from code that is not async; takes what `run` takes. Works in notebooks and in tools' threads too."""
        return blocking(lambda: self.run(prompt, **options))

    def stream(
        self,
        prompt: Prompt,
        *,
        history: Sequence[Message] = (),
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
        run_id: str | None = None,
        buffer: int = 64,
    ) -> AbstractAsyncContextManager[EventStream[AgentRun]]:
        """Run, and read what happens meanwhile::

            async with agent.stream("...") as events:
                async for event in events:
                    ...
            run = events.response

        The whole run is streamed, not only its first answer. Leaving the block early cancels the run.
        """
        request = request_of(prompt, history)
        check_options(deps, listeners, run_id)
        ambient = AMBIENT.get()
        if ambient is not None:  # who listens to the run around hears this one too
            _check_joins(run_id)
            _check_on_loop()
            joined = _Heard(self, (*listeners, *(() if ambient.emit is SILENCE else (ambient.emit,))))
            return open_stream(joined, request, given(ambient.under(self.name), deps), buffer=buffer)
        return self._streamed(request, deps, listeners, run_id, buffer)

    @asynccontextmanager
    async def _streamed(
        self, request: AgentRequest, deps: Deps | None, listeners: Sequence[Listener], run_id: str | None, buffer: int
    ) -> AsyncGenerator[EventStream[AgentRun], None]:
        ctx, journal, *runs = await self._opened(request, deps, run_id)

        async def service(request: AgentRequest, ctx: Context) -> AgentRun:
            heard = ctx.heard_by(*listeners) if listeners else ctx
            return await self._drive(request, heard, journal, *runs, named=run_id is not None)

        async with open_stream(service, request, ctx, buffer=buffer) as events:
            yield events

    def start(self, prompt: Prompt, **options: Unpack[RunOptions]) -> RunHandle:
        """Start a run in the background of this event loop; takes what `run` takes."""
        request = request_of(prompt, options.get("history", ()))
        deps, listeners, run_id = options.get("deps"), options.get("listeners", ()), options.get("run_id")
        check_options(deps, listeners, run_id)

        def begin(mailbox: Mailbox, heard: Sequence[Listener]) -> Coroutine[Any, Any, AgentRun]:
            more = options.copy()
            more["deps"] = {**(deps or {}), STEERING: mailbox}
            more["listeners"] = [*listeners, *heard]
            return self.run(prompt, **more)

        around = None if options.get("detached") else AMBIENT.get()
        frame = None if around is None else around.scope.get(FRAME)
        nothing = unbegun(self.name, request, stops.Cancelled(), run_id or "")
        return RunHandle(begin, nothing, fact(self, STEERABLE), 0 if frame is None else frame.depth + 1)

    async def resume(
        self,
        run_id: str,
        decisions: Mapping[str, Decision] | None = None,
        *,
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
    ) -> AgentRun:
        """Go on with a run that was suspended, cancelled or failed; what was done is not done again.

        Args:
            run_id: Its id.
            decisions: For each pending item's id, ``Approve()``, ``Deny(reason)`` or ``Modify(arguments)``.
            deps: As for `run`; they are not kept.
            listeners: As for `run`.

        Raises:
            RunNotFound: no such run is kept here.
            ConfigurationError: a decision names nothing that is pending; the text lists what is.
        """
        check_options(deps, listeners)
        runs = self._runs
        if isinstance(runs, MemoryStore):
            known = runs.open(run_id)
            runs.check_idle(run_id)
            ctx, journal, request = await self._again(known, run_id, deps, decisions or {})
            return await self._drive(request, _heard(ctx, listeners), journal, named=True)
        info = await runs.find(run_id)
        if info is not None and is_finished(info):
            return await self._answered(run_id, deps, listeners, decisions)
        stored = await runs.take(run_id, deps or {})
        try:
            ctx, journal, request = await self._again(stored, run_id, deps, decisions or {})
        except BaseException:
            await runs.let_go(run_id, stored)
            raise
        return await self._drive(request, _heard(ctx, listeners), journal, named=True)

    def subscribe(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Heard, None]:
        """Follow a run by its id, from its beginning or after an entry's number, also while it goes on::

            async for heard in agent.subscribe("r-17", after=12):
                print(heard.number, heard.what)

        What is on record comes complete and in order, whenever one joins; pieces of a reply come while they pass.
        Any number of readers may follow; none makes the run wait.

        Raises:
            RunNotFound: no such run goes on or is kept here.
        """
        if isinstance(self._runs, StoredRuns):
            return self._runs.subscribe(run_id, after)
        return subscribe(self._runs.open(run_id), self._runs.broadcast(run_id), after=after)

    async def replay(self, run_id: str) -> AgentRun:
        """Go through a recorded run again without calling anything.

        Raises:
            JournalMismatch: this agent would have gone another way; the text shows where.
        """
        if isinstance(self._runs, StoredRuns):
            journal = await self._runs.read(run_id, "replay")
        else:
            journal = MemoryJournal.load(self._runs.dump(run_id), "replay")
        request = self._recorded_request(journal, run_id)
        journal.reopen(run_id, 0.0)
        return await drive(self, self.name, request, self._root(journal, run_id, None), journal, MemoryStore())

    # -- wrapping ------------------------------------------------------------------------------------------------

    def layered(self, *layers: Callable[[AgentService], AgentService]) -> "Runnable":
        """Return this with layers around it; the first listed meets the request first."""
        return Runnable(stack(self, *layers), name=self.name, store=self.store)

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> AgentTool:
        """Return this as a tool; agents in ``tools=[...]`` become tools by themselves."""
        return AgentTool(self, name=name, description=description)

    # -- within --------------------------------------------------------------------------------------------------

    async def _joined(
        self,
        ambient: Context,
        request: AgentRequest,
        deps: Deps | None,
        listeners: Sequence[Listener],
        run_id: str | None,
    ) -> AgentRun:
        _check_joins(run_id)
        loop = loop_of_this_thread()
        if loop is not None and loop is not asyncio.get_running_loop():  # a tool's thread made a loop of its own
            return POOL.run_on(loop, lambda: self._joined(ambient, request, deps, listeners, run_id))
        ctx = given(ambient.under(self.name), deps)
        return await enter(self, request, ctx.heard_by(*listeners) if listeners else ctx)

    async def _begun(
        self, request: AgentRequest, deps: Deps | None, listeners: Sequence[Listener], run_id: str | None
    ) -> AgentRun:
        opened = await self._opened(request, deps, run_id)
        ctx, journal, *runs = opened
        return await self._drive(request, _heard(ctx, listeners), journal, *runs, named=run_id is not None)

    async def _opened(
        self, request: AgentRequest, deps: Deps | None, run_id: str | None
    ) -> "tuple[Context, MemoryJournal, Running]":
        """Open the record of a new run, or that of the run with this id, and say where it is driven."""
        runs, given_deps = self._runs, {} if deps is None else deps
        if isinstance(runs, MemoryStore):
            return *self._open(runs, request, deps, run_id), runs
        info = None if run_id is None else await runs.find(run_id)
        if info is None or run_id is None:
            run_id = run_id or given_deps.get(IDS, new_id)()
            journal = await runs.create(run_id, self.name, request, given_deps, self._screen)
            return self._root(journal, run_id, deps), journal, runs
        if info.request != digest(request):
            raise RunExists(f"the run {run_id!r} exists with another request; choose another id")
        if is_finished(info):
            return await self._copied(run_id, deps)
        stored = await runs.take(run_id, given_deps)
        try:
            ctx, known, _ = await self._again(stored, run_id, deps, {})
        except BaseException:
            await runs.let_go(run_id, stored)
            raise
        return ctx, known, runs

    async def _again(
        self, journal: J, run_id: str, deps: Deps | None, decisions: Mapping[str, Decision]
    ) -> tuple[Context, J, AgentRequest]:
        """Go on with a record: decisions are on it before they are acted upon."""
        request = self._recorded_request(journal, run_id)
        self._screen(journal)
        for entry in decided(journal, decisions):
            waiting = journal.append(entry)
            if waiting is not None:
                await waiting
        clock = (deps or {}).get(CLOCK, SYSTEM_CLOCK)
        reopened = journal.reopen(run_id, clock.now(), clock)
        if reopened is not None:
            await reopened
        return self._root(journal, run_id, deps), journal, request

    async def _copied(self, run_id: str, deps: Deps | None) -> "tuple[Context, MemoryJournal, Running]":
        """Open a copy of the record of a run that has ended: it answers, and nothing is written."""
        assert isinstance(self._runs, StoredRuns)
        clock = (deps or {}).get(CLOCK, SYSTEM_CLOCK)
        journal = await self._runs.read(run_id, clock=clock)
        self._recorded_request(journal, run_id)
        journal.reopen(run_id, clock.now(), clock)
        return self._root(journal, run_id, deps), journal, MemoryStore()

    async def _answered(
        self, run_id: str, deps: Deps | None, listeners: Sequence[Listener], decisions: Mapping[str, Decision] | None
    ) -> AgentRun:
        ctx, journal, runs = await self._copied(run_id, deps)
        decided(journal, decisions or {})  # nothing waits: each is refused
        request = self._recorded_request(journal, run_id)
        return await self._drive(request, _heard(ctx, listeners), journal, runs, named=True)

    def _open(
        self, runs: MemoryStore, request: AgentRequest, deps: Deps | None, run_id: str | None
    ) -> tuple[Context, MemoryJournal]:
        if run_id is not None:
            runs.check_idle(run_id)
            known = runs.find(run_id)
            if known is not None:
                self._screen(known)
                kept = known.screened(Opened("", run_id, SHAPE_VERSION, 0.0, request))
                asked = kept.request if isinstance(kept, Opened) else request
                if digest(self._recorded_request(known, run_id)) not in (digest(request), digest(asked)):
                    raise RunExists(f"the run {run_id!r} exists with another request; choose another id")
                clock = (deps or {}).get(CLOCK, SYSTEM_CLOCK)
                known.reopen(run_id, clock.now(), clock)
                return self._root(known, run_id, deps), known
        clock = SYSTEM_CLOCK if deps is None else deps.get(CLOCK, SYSTEM_CLOCK)
        journal = runs.create(run_id or "", clock)
        self._screen(journal)
        ctx = self._root(journal, run_id, deps)
        journal.append(Opened("", ctx.run_id, SHAPE_VERSION, clock.now(), request))
        return ctx, journal

    def _root(self, journal: MemoryJournal, run_id: str | None, deps: Deps | None) -> Context:
        values: dict[Key[Any], Any] = {JOURNAL: journal}
        if deps is not None:
            values.update(deps)
        values[RUN_ID] = run_id or values.get(IDS, new_id)()
        ctx = Context(escaped(self.name), SILENCE, None, Scope(values))
        return ctx if deps is None else guarded(ctx)

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
        if named or self._runs.finished:  # somebody may know its id, and subscribe
            broadcast = Broadcast(journal, ctx.emit)
            home.announce(ctx.run_id, broadcast)
            ctx = ctx.emitting(broadcast)
        return drive(self, self.name, request, ctx, journal, home)

    async def _detached(self, ambient: Context, run: Coroutine[Any, Any, AgentRun]) -> AgentRun:
        if ambient.listens(Warned):
            await ambient.emit(Warned(ambient.path, f"{self.name} was started as a run of its own (detached)"))
        return await run

    def _screen(self, journal: MemoryJournal) -> None:
        """Let this agent's middleware go over what is recorded of the run as a whole, before its path is known."""
        parts = fact(self, AGENT)
        if parts is not None and parts.chain is not None:
            screened(journal, parts.chain, "")

    def _recorded_request(self, journal: MemoryJournal, run_id: str) -> AgentRequest:
        opened = journal.entries[0] if journal.entries else None
        record = journal.find(escaped(self.name))
        begun = any(isinstance(entry, Entered) for entry in journal.entries)  # not yet, if cancelled in a hook
        if not isinstance(opened, Opened) or opened.request is None or (begun and (not record or not record.entered)):
            raise RunNotFound(f"the run {run_id!r} was not begun by an agent named {self.name!r}")
        return as_type(opened.request, AgentRequest)

    def __repr__(self) -> str:
        return repr(self.inner)


def _heard(ctx: Context, listeners: Sequence[Listener]) -> Context:
    return ctx.heard_by(*listeners) if listeners else ctx


def _check_joins(run_id: str | None) -> None:
    if run_id is not None:
        raise ConfigurationError("a run inside another has no id of its own; give one with run(..., detached=True)")


def _check_on_loop() -> None:
    if loop_of_this_thread() is not None:
        raise ConfigurationError(
            "a tool that is not async cannot stream: call run_sync(..., listeners=[...]), or make the tool async"
        )


class _Heard:
    """A service whose events also go to listeners."""

    def __init__(self, inner: AgentService, listeners: Sequence[Listener]) -> None:
        self.inner = inner
        self.listeners = listeners

    def __call__(self, request: AgentRequest, ctx: Context, /) -> Awaitable[AgentRun]:
        return self.inner(request, ctx.heard_by(*self.listeners) if self.listeners else ctx)

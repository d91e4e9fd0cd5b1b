"""Starter: starts runs of one agent, outside of all others, or as a part of the run around."""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.blocking import loop_elsewhere
from ziggurat.agents.loop import AgentLoop
from ziggurat.agents.steering import STEERABLE
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.enter import GATE, AgentService, enter
from ziggurat.core.clock import Clock
from ziggurat.core.context import AMBIENT, JOURNAL, Context, Scope
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import SILENCE
from ziggurat.core.path import is_beneath
from ziggurat.core.service import fact, innermost
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, empty_run
from ziggurat.messages.events import Warned
from ziggurat.messages.prompts import Prompt, request_of
from ziggurat.runs.control import STEERING, RunControl
from ziggurat.runs.drive import drive, drive_gated
from ziggurat.runs.opener import Opener
from ziggurat.runs.opening import Opening
from ziggurat.runs.options import NO_OPTIONS, RunArguments, RunOptions, joined_context
from ziggurat.runs.session_writer import session_for
from ziggurat.tools.threads import POOL, check_thread, trust_thread

if TYPE_CHECKING:
    from ziggurat.agents.handle import RunHandle
    from ziggurat.core.stream import EventStream


class Driving(Struct, frozen=True):
    begin: Callable[[RunControl, bool], Coroutine[Any, Any, AgentRun]]  # makes the run, or goes on with it
    control: RunControl  # the first one
    unbegun: AgentRun  # the result if it is cancelled before it has begun
    joined: bool  # whether it is a part of the run around, whose id it has then
    clock: Clock  # of its timers


class Starter:
    def __init__(self, agent: AgentService, name: str, opener: Opener) -> None:
        self.agent = agent
        self.name = name
        self.opener = opener
        self._used_as_root = False  # whether it was run outside of all other runs

    def read(
        self, prompt: Prompt | None, **arguments: Unpack[RunArguments]
    ) -> tuple[AgentRequest | None, RunOptions, bool]:
        if not arguments and prompt is not None:
            return request_of(prompt, ()), NO_OPTIONS, False
        options: dict[str, Any] = {**arguments}
        history, detached = options.pop("history", ()), options.pop("detached", False)
        if prompt is None and not len(history) and options.get("run_id") is not None:
            if options.get("labels") is not None:
                raise ConfigurationError(
                    "a run that is continued keeps the labels that it began with: leave labels out"
                )
            if options.get("session") is not None:
                options["session"] = session_for(options["session"], self.opener.runs.store, history)
            run_id = options.pop("run_id")  # it is looked up; the rules are for new ones
            return None, replace(RunOptions.of(**options), run_id=run_id), True
        if options.get("decisions") is not None or options.get("strict"):
            raise ConfigurationError(
                "decisions and strict are for a run that is continued: give its run_id, and neither prompt nor history"
            )
        request = request_of(prompt, history)
        if options.get("session") is not None:
            if prompt is None:
                raise ConfigurationError("a run in a session needs a prompt, which is saved in the session")
            options["session"] = session_for(options["session"], self.opener.runs.store, history)
        return request, RunOptions.of(**options), detached

    def run(self, request: AgentRequest | None, options: RunOptions, detached: bool) -> Coroutine[Any, Any, AgentRun]:
        ambient = self.surroundings(detached=detached)
        if ambient is None:
            outside = None if detached else AMBIENT.get()
            if outside is not None:  # of a tool that was itself called outside of all runs
                options = options.beneath(outside.under(self.name))
            return self._drive(partial(self.opener.open, request, options), request, options)
        if detached or request is None:
            return self._run_as_root(ambient, request, options)
        return self._join(self.agent, ambient, request, options)

    def stream(
        self, request: AgentRequest | None, options: RunOptions, detached: bool, buffer: int
    ) -> "AbstractAsyncContextManager[EventStream[AgentRun]]":
        from ziggurat.core.stream import open_stream

        ambient = self.surroundings(detached=detached)
        if ambient is None or detached:
            start = Context(self.opener.path, scope=Scope(options.environment.values()))
        else:
            _check_joins(options)
            if loop_elsewhere() is not None:
                raise ConfigurationError(
                    "a tool that is not async cannot stream: call run_sync(..., listeners=[...]), or make it async"
                )
            start = ambient.under(self.name)
            if ambient.emit is not SILENCE:  # listeners of the outer run get these events too
                options = options.heard_by((ambient.emit,))

        async def service(request: AgentRequest | None, ctx: Context) -> AgentRun:
            if ambient is not None and request is not None and not detached:
                return await enter(self.agent, request, joined_context(ctx, options))
            return await self._run_as_root(ambient, request, replace(options, emit=ctx.emit))

        return open_stream(service, request, start, buffer=buffer)

    def start(self, request: AgentRequest | None, options: RunOptions, detached: bool) -> "RunHandle[Any]":
        from ziggurat.agents.handle import RunHandle

        ambient = self.surroundings(detached=detached)
        around = None if ambient is None or detached or request is None else ambient
        outer = None if ambient is None or detached else ambient.scope.get(AGENT_CALL)
        run_id = options.run_id or (options.environment.ids() if around is None else around.run_id)
        control = self.opener.control(run_id, 0 if outer is None else outer.depth + 1)
        if around is not None:
            control.recorded.set()  # it becomes a part of that run

        def begin(control: RunControl, again: bool) -> Coroutine[Any, Any, AgentRun]:
            steered = replace(options, values={STEERING: control}, control=control)
            if again:
                return self.run(None, replace(steered, run_id=control.run_id, labels=None, decisions=None), True)
            return self.run(request, steered, detached)

        nothing = empty_run(self.name, request or AgentRequest(()), stops.Cancelled(), run_id)
        return RunHandle(run_id, self, Driving(begin, control, nothing, around is not None, options.environment.clock))

    async def _run_as_root(
        self, ambient: Context | None, request: AgentRequest | None, options: RunOptions
    ) -> AgentRun:
        how = "started as a run of its own (detached)" if request is not None else "resumed, which is a run of its own"
        await self._report_separate(ambient, how)
        return await self._drive(partial(self.opener.open, request, options), request, options)

    async def drive_apart(
        self, reopen: Callable[[], Awaitable[Opening]], how: str, options: RunOptions | None = None
    ) -> AgentRun:
        await self._report_separate(AMBIENT.get(), f"{how}, which is a run of its own")
        return await (drive(self.agent, self.name, reopen) if options is None else self._drive(reopen, None, options))

    def _drive(
        self,
        begin: Callable[[], Awaitable[Opening]],
        request: AgentRequest | None,
        options: RunOptions,
        *,
        agent: AgentService | None = None,
        raises: bool = False,
    ) -> Coroutine[Any, Any, AgentRun]:
        gate = fact(self.agent, GATE)
        driving = partial(drive, agent or self.agent, self.name, begin, raises=raises)
        return driving() if gate is None else drive_gated(gate, driving, self.opener, request, options, raises=raises)

    async def _report_separate(self, ambient: Context | None, how: str) -> None:
        """Warn in the run of a user function that it starts another run, for which the rules of its own do not hold."""
        if ambient is not None and ambient.listens(Warned):
            await ambient.emit(Warned(ambient.path, f"{self.name} was {how}"))

    async def call_alone(self, agent: AgentService, request: AgentRequest, ctx: Context) -> AgentRun:
        ambient = self.surroundings(detached=False)
        if ambient is not None:
            return await self._join(agent, ambient, request, NO_OPTIONS)
        begin = partial(self.opener.open, request, NO_OPTIONS.beneath(ctx))
        return await self._drive(begin, request, NO_OPTIONS, agent=agent, raises=True)

    async def _join(
        self, agent: AgentService, ambient: Context, request: AgentRequest, options: RunOptions
    ) -> AgentRun:
        from ziggurat.agents.program import ConcurrentAgents

        _check_joins(options)
        awaited_in = AMBIENT.get()
        if awaited_in is not None and is_beneath(awaited_in.path, ambient.path):  # a part of a gather
            ambient = awaited_in
        loop = loop_elsewhere()
        if loop is not None:  # called from a thread with an event loop of its own
            return POOL.run_on(loop, lambda: self._join(agent, ambient, request, options))
        beside = ambient.state(ConcurrentAgents, ConcurrentAgents)
        with joined_context(ambient.under(self.name), options).branch() as ctx:
            return await beside.run(enter(agent, request, ctx))

    def surroundings(self, *, detached: bool) -> Context | None:
        ambient = AMBIENT.get()
        if ambient is None or JOURNAL not in ambient.scope:
            ambient = None
            if not (self._used_as_root or detached):
                check_thread(self.name)
            self._used_as_root = True
            trust_thread()
        return ambient


def verbs_of(agent: object) -> frozenset[str] | None:
    """Return the verbs by which an agent may be steered; None if it has no loop of its own, as a race of agents."""
    return fact(agent, STEERABLE) if isinstance(innermost(agent), AgentLoop) else None


def _check_joins(options: RunOptions) -> None:
    for what, value in (("session", options.session), ("id", options.run_id), ("labels", options.labels)):
        if value is not None:
            raise ConfigurationError(
                f"a run inside another has no {what} of its own; give one with run(..., detached=True)"
            )

"""`Runnable`: the verbs of anything that answers an AgentRequest: agents, teams, layered agents."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Unpack

from ziggurat.agents.as_tool import AgentTool
from ziggurat.agents.blocking import blocking
from ziggurat.agents.queue import RunQueue
from ziggurat.agents.starter import Starter, verbs_of
from ziggurat.calls.enter import AGENT, ALONE, AgentParts, AgentService, enter
from ziggurat.core import path
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.core.service import COMPOSITE, NAME, Fact, Service, as_service, fact, name_of, returned_instead, stack
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.core.verbs import verb
from ziggurat.journal.entries import Origin
from ziggurat.journal.store import Store
from ziggurat.messages.agent import AgentRequest, AgentRun, Decisions, Out
from ziggurat.messages.model import AS_TOOL
from ziggurat.messages.prompts import Prompt
from ziggurat.runs.opener import Opener
from ziggurat.runs.options import Deps, ForkArguments, Live, ResumeArguments, RunArguments, RunId, RunOptions
from ziggurat.runs.runs import runs_of
from ziggurat.tools.approval import Approvals
from ziggurat.tools.fork_effects import Effects

if TYPE_CHECKING:
    from ziggurat.agents.handle import RunHandle
    from ziggurat.core.stream import EventStream

_ABSENT: Any = object()


class Runnable(RunQueue[Out]):
    """Runs a service from AgentRequest to AgentRun, and is such a service itself; ``Out`` is the type of its output.

    Without a store, unfinished runs are kept in this process.
    """

    # A slot is set once. Subclasses of yours have a __dict__, and may add attributes of their own.
    __slots__ = ("__weakref__", "_opener", "_runs", "_starter", "facts", "inner", "name")

    @checked
    def __init__(
        self,
        service: Service[AgentRequest, AgentRun[Out]],
        *,
        name: str | None = None,
        store: str | Store | None = None,
    ) -> None:
        if name is not None:
            path.check_new_name(name, "the name of an agent")
            if path.is_alternative(name):
                raise ConfigurationError(f"{name!r} is the name of an alternative in records: choose another one")
        self.inner: Service[AgentRequest, AgentRun[Out]] = as_service(service)
        parts = fact(service, AGENT)
        if parts is None:
            if returned := returned_instead(service, AgentRun):
                raise ConfigurationError(
                    f"what a Runnable runs answers with an AgentRun, but {name_of(service)} returns {returned}"
                )
            parts = AgentParts(name or str(getattr(service, "__name__", "agent")), None)
        self.name: str = name or parts.name
        runs = runs_of(store)
        self._runs = runs
        self._opener = Opener(self, parts, self.name, runs, verbs_of(service))
        self._starter = Starter(self, self.name, self._opener)
        self.facts: dict[Fact[Any], Any] = {
            AGENT: parts,
            ALONE: self._starter.call_alone,
            COMPOSITE: True,
            NAME: self.name,
            AS_TOOL: AgentTool,
        }

    @property
    def store(self) -> Store:
        """The store of its sessions and, if one was given, of its runs."""
        return self._runs.store

    def __setattr__(self, name: str, value: object) -> None:
        slot = getattr(type(self), name, None)
        if not (hasattr(slot, "__objclass__") and hasattr(self, name)):
            try:
                return super().__setattr__(name, value)
            except AttributeError:  # there is no such slot, or it is a property
                pass
        raise AttributeError(
            f"cannot set {name}: this {type(self).__name__} stays as it was made; make another one, or pass to run() "
            "what is for one run"
        )

    def __call__(
        self, request: AgentRequest = _ABSENT, ctx: Context = _ABSENT, /, **named: Any
    ) -> Coroutine[Any, Any, AgentRun[Out]]:
        """Answer as a service, at this context's path.

        Outside of all runs, with ``root()``, this opens a run of its own, which is kept as those of `run` are. As for
        any service, a failure is raised; the run is its `partial`.

        Raises:
            ConfigurationError: it was called like a function, as in ``await agent("...")``.
        """
        if not isinstance(ctx, Context) or named:
            raise ConfigurationError(
                f"{self.name} cannot be called like a function: write await {self.name}.run(...), or, in code that is "
                f"not async, {self.name}.run_sync(...)"
            )
        if ctx.is_entered:
            return self.inner(request, ctx)
        if not isinstance(request, AgentRequest):
            raise ConfigurationError(
                f"{self.name} called as a service takes an AgentRequest, such as AgentRequest((user('...'),)), got "
                f"{request!r:.100}; run(...) takes text"
            )
        return enter(self, request, ctx)

    # -- a new run -----------------------------------------------------------------------------------------------

    @verb
    def run(
        self, prompt: Prompt | None = None, **arguments: Unpack[RunArguments]
    ) -> Coroutine[Any, Any, AgentRun[Out]]:
        """Run to the end and return the run; why it stopped is in ``run.stop``, not an exception.

        Inside a tool or a hook of another run it joins that run, and shares its budget, grants, approvals and record.

        With a `run_id` and neither prompt nor history, the run of that id is continued, as by `resume`.

        Args:
            prompt: The question or task. None to answer the end of `history`: a question, or the results of tools.
            history: Earlier messages, such as ``earlier.messages``.
            deps: Dependencies that tools read with ``ctx.scope[KEY]``.
            listeners: Called with every event.
            run_id: An id of your own; with a store, the same id and request give the same run: one that has ended is
                answered from its record, one that was interrupted or waits for a decision is continued.
            session: The conversation to continue, which is saved: an id in this agent's store, or a `Session` with
                settings.
            grants: The permissions of the run; its agents get the intersection with their own. Tools that declare no
                permissions are denied then. They are stored with the run.
            approvals: Which calls a person must approve, in addition to the agents' own rules.
            labels: Plain values to store with the run from its start.
            environment: Its clock, ids and chance, such as for a test.
            detached: Start a separate run even inside another.
            decisions, strict: For a run that is continued; see `resume`.

        Raises:
            RunNotFound: a run is to be continued that the store does not have.
            ConfigurationError: something was used wrongly; the message says what and how to fix it. It is not recorded.
            RunExists: the id belongs to a run with another request, agent or type of output.
            LeaseHeld: another process drives that run, or another run writes the session and waiting for it was not
                allowed or took too long.
        """
        return self._starter.run(*self._starter.read(prompt, **arguments))

    @checked
    def run_sync(self, prompt: Prompt | None = None, **arguments: Unpack[RunArguments]) -> AgentRun[Out]:
        """Run from code that is not async, also in threads of tools; takes the arguments of `run`.

        In a notebook, or wherever an event loop is running, it works too, but blocks that loop until the run has ended:
        write ``run = await agent.run(...)`` there.
        """
        self._starter.surroundings(detached=arguments.get("detached", False))
        return blocking(lambda: self.run(prompt, **arguments))

    @checked
    def stream(
        self, prompt: Prompt | None = None, *, buffer: PositiveInt = 64, **arguments: Unpack[RunArguments]
    ) -> "AbstractAsyncContextManager[EventStream[AgentRun[Out]]]":
        """Run, and read the events while it happens; takes the arguments of `run`::

            async with agent.stream("...") as events:
                async for event in events:
                    ...
            run = events.response

        The whole run is streamed, not only its first answer. Leaving the block early cancels the run. It waits for its
        reader when `buffer` events are unread.
        """
        request, options, detached = self._starter.read(prompt, **arguments)
        return self._starter.stream(request, options, detached, buffer)

    @checked
    def start(self, prompt: Prompt | None = None, **arguments: Unpack[RunArguments]) -> "RunHandle[Out]":
        """Start a run in the background of this event loop and return its handle; takes the arguments of `run`."""
        return self._starter.start(*self._starter.read(prompt, **arguments))

    # -- a recorded run ------------------------------------------------------------------------------------------

    @verb
    def resume(
        self,
        run_id: RunId,
        decisions: Decisions | None = None,
        **arguments: Unpack[ResumeArguments],
    ) -> Coroutine[Any, Any, AgentRun[Out]]:
        """Continue a run that was suspended, interrupted, cancelled or denied, that failed or ran out of its budget.

        Recorded calls are not made again, except those whose failure ended the run. A run that ended otherwise is
        answered from its record.

        This is ``run(run_id=..., decisions=...)`` without a prompt. `stream`, `start` and `run_sync` continue a run in
        the same way, to read its events, to steer it, or from code that is not async.

        Args:
            run_id: The id of the run.
            decisions: By the id of each pending item, ``Approve()``, ``Deny(reason)`` or ``Modify(arguments)``.
                Deciding again in the same way has no effect.
            strict: Raise where this agent differs from the record (its model, instructions, tools, requests). Otherwise
                it emits `Diverged`, and the record wins.
            session: The run's session, only if it is kept in another store than the run.
            grants: Limits the recorded grants further.

        The others are those of `run`; they are not recorded.

        Raises:
            RunNotFound: the store has no such run.
            LeaseHeld: another process drives the run, or another run writes its session.
            AlreadyDecided: a call was decided in another way before.
            ConfigurationError: a decision names no pending item (the message lists those there are), or changes a call
                to arguments that do not fit. None of the decisions is recorded then, and the run waits as before.
            JournalMismatch: with `strict`, the agent differs; the message shows where, with a diff.
        """
        return self._starter.run(*self._starter.read(None, run_id=run_id, decisions=decisions, **arguments))

    @verb
    async def replay(
        self,
        run_id: RunId,
        *,
        live: Live = "nothing",
        strict: bool = True,
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
        approvals: Approvals | None = None,
    ) -> AgentRun[Out]:
        """Run a recorded run again, answering calls from its record; nothing is recorded.

        A run without an end on record, as its process was lost or is still at work, is replayed as far as it is
        recorded; its stop is `Cancelled` then.

        Args:
            run_id: The id of the run.
            live: What is called again: ``"nothing"``, its ``"tools"`` (with their side effects), or its ``"models"``.
            strict: Raise where something differs. Otherwise it emits `Diverged` and continues as long as the record has
                answers.

        The others are those of `run`.

        Raises:
            JournalMismatch: this agent would have done something else; the message shows where, with a diff.
        """
        options = RunOptions.of(strict=strict, deps=deps, listeners=listeners, approvals=approvals)
        return await self._starter.drive_apart(lambda: self._opener.replay(run_id, live, options), "replayed")

    @verb
    async def fork(
        self,
        run_id: RunId,
        at: PositiveInt,
        prompt: Prompt | None = None,
        *,
        effects: Effects = "refuse",
        new_id: str | None = None,
        **arguments: Unpack[ForkArguments],
    ) -> AgentRun[Out]:
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
            grants: Limits the grants of the original run further.

        The others are those of `run`.

        Raises:
            RunNotFound: the store has no such run.
            RunExists: `new_id` belongs to a run.
            ConfigurationError: the run has no such step or cannot be forked there; the message says where it can.
        """
        options = RunOptions.of(run_id=new_id, **arguments)
        origin = Origin(run_id, at, effects)
        return await self._starter.drive_apart(lambda: self._opener.fork(origin, prompt, options), "forked", options)

    # -- wrapping ------------------------------------------------------------------------------------------------

    def layered(self, *layers: Callable[[AgentService], AgentService]) -> "Runnable[Out]":
        """Return a Runnable with layers around this one; the first listed meets the request first."""
        return Runnable(stack(self, *layers), name=self.name, store=self.store)

    def with_store(self, store: str | Store) -> "Runnable[Out]":
        """Return the same, whose runs are kept in another store."""
        return Runnable(self, name=self.name, store=store)

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        input_type: Any = None,
        keep_conversation: bool = False,
    ) -> AgentTool:
        """Return this as a tool, see `AgentTool`; agents in ``tools=[...]`` become tools automatically."""
        return AgentTool(
            self, name=name, description=description, input_type=input_type, keep_conversation=keep_conversation
        )

    def mermaid(self) -> str:
        """Return a picture of what it is made of, as a Mermaid flowchart: its tools, or the members of a team."""
        from ziggurat.agents.drawing import drawn
        from ziggurat.messages.diagram import Diagram

        return Diagram((drawn(self),)).mermaid()

    def __repr__(self) -> str:
        return repr(self.inner)

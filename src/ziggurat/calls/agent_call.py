"""The agent that is running, with the usage of it and all below, and the function whose calls get numbered places."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from ziggurat.calls.admission import ADMISSION, Spending
from ziggurat.core import errors
from ziggurat.core.clock import Stopwatch
from ziggurat.core.context import METER, RUN_ID, Context, Key, running
from ziggurat.core.failures import Cause
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, empty_run, pending_of
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.message import Message
from ziggurat.messages.middleware import AnswerIn, Middleware
from ziggurat.messages.usage import Tally

if TYPE_CHECKING:
    from ziggurat.calls.enter import AgentParts
    from ziggurat.calls.inbox import Inbox


class Places:
    """The task whose calls get numbered places below one context, and how many steps it has called there."""

    def __init__(self) -> None:
        self.task: asyncio.Task[object] | None = asyncio.current_task()
        self.steps = 0
        self.left: BaseException | None = None


def program_at(ctx: Context) -> running:
    """Return a block for code whose calls take their places below a context; only the current task may call steps."""
    ctx.state(Places, Places)
    return running(ctx)


def counted_steps(ctx: Context) -> int:
    return ctx.state(Places, Places).steps


def place_of(ctx: Context, name: str) -> Context:
    """Return the context of the next call of `name` below the function that is running: ``name``, ``name#2`` ..."""
    places = ctx.state(Places, Places)
    if places.task is not asyncio.current_task():
        raise errors.ConfigurationError(
            f"{name} is awaited at {ctx.path} in a task of its own, so its place in the record would depend on timing: "
            "start concurrent work with gather() of ziggurat.flows, and limit its time with a timeout layer"
        )
    check_left(ctx)
    # Not when the run itself is cancelled, and this cleans up.
    if places.left is not None and places.task is not None and not places.task.cancelling():
        raise errors.ConfigurationError(
            f"{name} at {ctx.path} comes after a call that was cancelled, which is not on record, so it would be made "
            "again when the run is resumed: limit the time of a call with a timeout layer, not with asyncio.timeout or "
            "wait_for"
        )
    places.steps += 1
    return ctx.under(name)


def note_left(ctx: Context | None, error: BaseException) -> None:
    """Note that a call below a context waits or was cancelled: its function must not make another one."""
    if ctx is not None and isinstance(error, (errors.Suspend, asyncio.CancelledError)):
        ctx.state(Places, Places).left = error


def check_left(ctx: Context) -> None:
    """Raise what ends the function at a context, such as a Suspend, and what it has caught or dropped."""
    left = ctx.state(Places, Places).left
    if left is not None and not isinstance(left, asyncio.CancelledError):
        raise left


def place_at(ctx: Context, name: str) -> Context:
    """Return the context of a call below a program that numbers its calls itself, so that any task may make them."""
    ctx.state(Places, Places).steps += 1
    return ctx.at(name)


class AgentCall(Tally):
    """One entry into an agent: counts the usage of it and all agents below, and holds its conversation."""

    outer: "AgentCall | None"

    def __init__(self, parts: "AgentParts", ctx: Context) -> None:
        outer = ctx.scope.get(AGENT_CALL)
        super().__init__(outer)
        self.agent: str = parts.name
        self.conversation: Conversation | None = None  # None until its loop begins, or if it has none
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.budgets: tuple[Spending, ...] = ctx.scope.get(ADMISSION) or ()  # all that are in effect
        if self.budgets:
            self.ended: Sequence[set[str]] = [spending.so_far for spending in self.budgets]
        # The whole run uses this event loop, whichever thread calls into it.
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.own: tuple[Middleware, ...] = () if parts.chain is None else parts.chain.middlewares
        self.answer_in: AnswerIn = parts.parse
        self.debug: bool = parts.debug or (outer is not None and outer.debug)  # raise unexpected errors at once
        self.causes: dict[str, Cause] = {}  # by path, the errors of tools that became results
        self._reported: dict[int, BaseException] = {}
        self.inbox: Inbox | None = None  # of the run, in the outermost call, once something has waited for an event
        self.run: AgentRun | None = None  # as its loop and its hooks have left it
        self.so_far: Callable[[], AgentRun] | None = None  # returns the run of a program, as far as it has come
        self.began: float = 0.0  # seconds of the run's time used up when its own time began
        self._measured: tuple[str, Stopwatch, float] | None = None  # its path and stopwatch, if nested, less this

    def begin(self, ctx: Context, elapsed: float, worked: float = 0.0) -> None:
        self.began = elapsed - worked
        if self.outer is not None and ctx.watch is not None:
            self._measured = (ctx.path, ctx.watch, ctx.watch.elapsed - worked)

    def worked(self) -> dict[str, float]:
        """Return the seconds that this agent and each around it have worked, in all processes, by path."""
        seconds: dict[str, float] = {}
        call: AgentCall | None = self
        while call is not None:
            if call._measured is not None:
                path, watch, before = call._measured
                seconds[path] = watch.elapsed - before
            call = call.outer
        return seconds

    def recall(self, result: object) -> None:
        """Tell the budgets in effect of the recorded result of a tool call."""
        for spending in self.budgets:
            spending.recall_refusal(result)

    def counted(self, run: AgentRun, ctx: Context, *, tries_before: bool = False) -> AgentRun:
        """Return a run with the usage of all that was called for it, in `tries_before` too, and the id of this run."""
        if tries_before:
            journal_of(ctx).skip(ctx, count_only=True)
        run_id, models, tools = ctx.scope.get(RUN_ID) or run.id, self.model_calls, self.tool_calls
        if run.id != run_id or run.model_calls != models or run.tool_calls != tools:
            run = replace(run, usage=self.usage, model_calls=models, tool_calls=tools, usage_by_model=self.by_model)
        if run.id != run_id:  # a cache has answered with another run
            session = "" if self.outer is not None else ctx.scope.get(SESSION_ID) or ""
            run = replace(run, id=run_id, session=session, seconds=journal_of(ctx).watch.elapsed - self.began)
        self.run = run
        return run

    def until(self, error: BaseException, request: AgentRequest, ctx: Context) -> AgentRun:
        """Return the run that an error ended: as far as its loop came, or with its answer if a hook failed."""
        stop, journal = stops.stop_of(error), journal_of(ctx)
        run = self.run or (None if self.so_far is None else self.so_far())
        if run is None:
            run = replace(empty_run(self.agent, request, stop), seconds=journal.watch.elapsed - self.began)
        pending = pending_of(error) if isinstance(error, errors.Suspend) else ()
        run = replace(run, stop=stop, output=None, pending=pending)
        return self.counted(run, ctx, tries_before=journal.reopened)

    @property
    def outermost(self) -> "AgentCall":
        call = self
        while call.outer is not None:
            call = call.outer
        return call

    def budget_reached(self, journal: LocalJournal, next_call: str) -> stops.BudgetExceeded | None:
        """Return the stop for a limit on tool calls, of this agent or one around it, that is reached."""
        # Agents that work at the same time reach it in any order, so what is on record is not decided again: the agent
        # went on if there is a next call of its model, and in a replay it stopped otherwise.
        reached = (spending.reached(on_record=journal.replaying) for spending in reversed(self.budgets))
        stop = next((stop for stop in reached if stop is not None), None)
        return None if stop is None or journal.find(next_call) is not None else stop

    def report(self, error: BaseException) -> bool:
        if id(error) in self._reported:
            return False
        self._reported[id(error)] = error  # kept, so that its id is not reused
        return True

    def said(self) -> Sequence[Message]:
        return () if self.conversation is None else self.conversation.log


SESSION_ID: Key[str] = Key("session id")  # the id of the session of the run, if it has one

AGENT_CALL: Key[AgentCall] = cast("Key[AgentCall]", METER)
"""The agent that is running; `METER` and `CALLER` are this key, with the types that lower rooms know."""

INBOX: Key[Callable[[str, LocalJournal], "Inbox"]] = Key("inbox")  # returns the inbox of the run of an id with a record


def inbox_of(ctx: Context) -> "Inbox":
    run = ctx.scope[AGENT_CALL].outermost
    if run.inbox is None:
        run.inbox = ctx.scope[INBOX](ctx.run_id, journal_of(ctx))
    return run.inbox


def give_back_events(ctx: Context) -> None:
    """Leave the events to later waits that the other parts of a group have taken, once it is on record which won."""
    call = ctx.scope.get(AGENT_CALL)
    if call is not None and call.outermost.inbox is not None:
        call.outermost.inbox.find_taken()

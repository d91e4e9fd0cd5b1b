"""AgentCall: the agent that is running, its depth, and the usage of it and all agents below."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from ziggurat.calls.admission import Spending
from ziggurat.core.clock import Stopwatch
from ziggurat.core.context import METER, RUN_ID, Context, Key
from ziggurat.core.errors import Suspend
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.agent import AgentRequest, AgentRun, empty_run, pending_of
from ziggurat.messages.caller import ParsedAnswer, answer_in_text
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.message import Message
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.stops import BudgetExceeded, stop_of
from ziggurat.messages.usage import Tally

if TYPE_CHECKING:
    from ziggurat.calls.inbox import Inbox


class AgentCall(Tally):
    """One entry into an agent: counts the usage of it and all agents below, and holds its conversation."""

    __slots__ = (
        "__weakref__",
        "_measured",
        "_parse",
        "_reported",
        "agent",
        "began",
        "budgets",
        "conversation",
        "debug",
        "depth",
        "failures",
        "inbox",
        "loop",
        "own",
        "run",
        "so_far",
    )

    outer: "AgentCall | None"

    def __init__(
        self,
        agent: str,
        outer: "AgentCall | None",
        own: Sequence[Middleware] = (),
        parse: Callable[[ModelResponse], ParsedAnswer | None] = answer_in_text,
        debug: bool = False,
        budgets: tuple[Spending, ...] = (),
    ) -> None:
        super().__init__(outer)
        self.agent: str = agent
        self.conversation: Conversation | None = None  # None until its loop begins, or if it has none
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.budgets: tuple[Spending, ...] = budgets  # all that are in effect
        if budgets:
            self.ended: Sequence[set[str]] = [spending.so_far for spending in budgets]
        self.loop: asyncio.AbstractEventLoop = (
            asyncio.get_running_loop()
        )  # the whole run uses this event loop, whichever thread calls into it
        self.own: Sequence[Middleware] = own  # the middleware that was given to it itself
        self._parse = parse
        self.debug: bool = debug or (outer is not None and outer.debug)  # raise unexpected errors at once
        self.failures: dict[str, Exception] | None = None  # by path, errors of tools that became results
        self._reported: dict[int, BaseException] | None = None
        self.inbox: Inbox | None = None  # of the run, in the outermost call, once something has waited for an event
        self.run: AgentRun | None = None  # as its loop and its hooks have left it
        self.so_far: Callable[[], AgentRun] | None = None  # returns the run of a program, as far as it has come
        self.began: float = 0.0  # seconds of the run's time used up when its own time began
        self._measured: tuple[str, Stopwatch, float] | None = None  # its path and stopwatch, if nested, less this

    def begin(self, ctx: Context, elapsed: float, worked: float = 0.0) -> None:
        """Count the agent's time from now on."""
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

    def count_in(self, run: AgentRun) -> AgentRun:
        """Return a run with the usage and the calls that were counted for it."""
        models, tools = self.model_calls, self.tool_calls
        return replace(run, usage=self.usage, model_calls=models, tool_calls=tools, usage_by_model=self.by_model)

    def counted(self, run: AgentRun, ctx: Context, *, tries_before: bool = False) -> AgentRun:
        """Return a run with the usage of all that was called for it, in `tries_before` too, and the id of this run."""
        if tries_before:
            journal_of(ctx).skip(ctx, count_only=True)
        run_id = ctx.scope.get(RUN_ID) or run.id
        if run.id != run_id:  # a cache has answered with another run
            session = "" if self.outer is not None else ctx.scope.get(SESSION_ID) or ""
            seconds = journal_of(ctx).watch.elapsed - self.began
            run = replace(self.count_in(run), id=run_id, session=session, seconds=seconds)
        elif run.model_calls != self.model_calls or run.tool_calls != self.tool_calls:
            run = self.count_in(run)
        self.run = run
        return run

    def until(self, error: BaseException, request: AgentRequest, ctx: Context) -> AgentRun:
        """Return the run that an error ended: as far as its loop came, or with its answer if a hook failed."""
        stop, journal = stop_of(error), journal_of(ctx)
        run = self.run or (None if self.so_far is None else self.so_far())
        if run is None:
            run = replace(empty_run(self.agent, request, stop), seconds=journal.watch.elapsed - self.began)
        pending = pending_of(error) if isinstance(error, Suspend) else ()
        run = replace(run, stop=stop, output=None, pending=pending)
        return self.counted(run, ctx, tries_before=journal.reopened)

    @property
    def outermost(self) -> "AgentCall":
        """The entry into the agent at the root of the run."""
        call = self
        while call.outer is not None:
            call = call.outer
        return call

    def budget_reached(self, journal: LocalJournal, next_call: str) -> BudgetExceeded | None:
        """Return the stop for a limit on tool calls, of this agent or one around it, that is reached."""
        # Agents that work at the same time reach it in any order, so what is on record is not decided again: the agent
        # went on if there is a next call of its model, and in a replay it stopped otherwise.
        reached = (spending.reached(on_record=journal.replaying) for spending in reversed(self.budgets))
        stop = next((stop for stop in reached if stop is not None), None)
        return None if stop is None or journal.find(next_call) is not None else stop

    def report(self, error: BaseException) -> bool:
        """Return whether an error is new to this call, and remember it."""
        if self._reported is None:
            self._reported = {}
        if id(error) in self._reported:
            return False
        self._reported[id(error)] = error  # kept, so that its id is not reused
        return True

    def answer_in(self, response: ModelResponse) -> ParsedAnswer | None:
        """Return the final answer in a reply, parsed; None if there is none, or it does not fit the agent's output."""
        return self._parse(response)

    def said(self) -> Sequence[Message]:
        """Return the agent's conversation so far."""
        return () if self.conversation is None else self.conversation.log


SESSION_ID: Key[str] = Key("session id")
"""The id of the session of the run, if it has one."""

AGENT_CALL: Key[AgentCall] = cast("Key[AgentCall]", METER)
"""The agent that is running; `METER` and `CALLER` are this key, with the types that lower rooms know."""

"""Agent requests and runs, their steps, pending calls and decisions."""

import collections.abc
import json
import typing
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Meta, Struct

from ziggurat.core import errors
from ziggurat.core.codec import as_type, digest, plain
from ziggurat.core.context import Context
from ziggurat.core.failures import Cause
from ziggurat.core.path import is_tool_call, name_at
from ziggurat.journal.entries import Pending, Record
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages import stops
from ziggurat.messages.arguments import canonical
from ziggurat.messages.conversation import OriginalMessages, Transcript
from ziggurat.messages.message import MEMORY, Message, ToolCall, ToolResult
from ziggurat.messages.model import GRAPH_ORIGIN
from ziggurat.messages.usage import Usage, total_of

if TYPE_CHECKING:
    from decimal import Decimal

    from typing_extensions import TypeVar

    ChangedArguments = str | collections.abc.Mapping[str, Any] | Struct
    Out = TypeVar("Out", default=Any, covariant=True)
else:  # the default is for type checkers: where it says nothing else, an agent may answer with anything
    from typing import TypeVar

    ChangedArguments = str | collections.abc.Mapping[str, Any]  # in a record they are text
    Out = TypeVar("Out", covariant=True)


class AgentRequest(Struct, frozen=True, gc=False):
    """A request to an agent.

    Attributes:
        messages: The conversation to answer; earlier turns first, if any.
    """

    messages: tuple[Message, ...]

    def fingerprint(self) -> str:
        """Return a digest of the messages."""
        return digest(self.messages)


Stage = typing.Literal["tool", "model", "question", "timer", "event"]
"""What waits: a call of a tool, a call of a model, or a flow or a tool for an answer, for a time, or for an event."""

_STAGES: dict[str, Stage] = {"ask": "question", "sleep": "timer", "event": "event"}


def stage_of(path: str) -> Stage:
    return "tool" if is_tool_call(path) else _STAGES.get(name_at(path), "model")


class PendingItem(Struct, frozen=True):
    """A call that waits: for a decision, or by itself for a time or an event.

    Attributes:
        id: A digest of the run's id, its path, name and frozen arguments; the key for its decision.
        path: The path of the call in the run.
        call: Exactly what will be executed if it is approved; for a model call, its name and the whole request.
        reason: Why a decision is required.
        stage: Whether it is a tool call, a model call, a question, which is the `reason` then, a timer, or an event.
        until: When the call is denied if there is no decision, or the timer ends, in POSIX seconds; None for never.
        interrupted: Whether the call must run only once, was started, and may or may not have taken effect. The
            decision is then `Happened`, `DidNotHappen` or `Deny`.
    """

    id: str
    path: str
    call: ToolCall
    reason: str = ""
    stage: Stage = "tool"
    until: float | None = None
    interrupted: bool = False

    @property
    def needs_decision(self) -> bool:
        """Whether somebody must decide; a timer and an event wait by themselves."""
        return self.stage not in ("timer", "event")

    @property
    def shown(self) -> str:
        """The arguments for a person to read: with sorted keys, and with invisible characters escaped."""
        return canonical(self.call.arguments, self.call.name)


class Approve(Struct, frozen=True, tag="approve", tag_field="decision"):
    """Approve the call: execute it unchanged."""


class Deny(Struct, frozen=True, tag="deny", tag_field="decision"):
    """Deny the call; the model gets the reason."""

    reason: str = "denied"


class Modify(Struct, frozen=True, tag="modify", tag_field="decision"):
    """Approve the call with other arguments.

    >>> Modify({"amount": 3}).text
    '{"amount": 3}'

    Attributes:
        arguments: All arguments of the call, by name, or a JSON object as text. For a model call, the whole request.
    """

    arguments: "ChangedArguments"

    @property
    def text(self) -> str:
        """The arguments as JSON text.

        Raises:
            InvalidArguments: a value has no JSON form.
        """
        if isinstance(self.arguments, str):
            return self.arguments
        try:
            return json.dumps(plain(self.arguments))
        except (TypeError, ValueError, OverflowError) as error:
            raise errors.InvalidArguments(f"the arguments are not JSON values: {error}") from error


class Happened(Struct, frozen=True, tag="happened", tag_field="decision"):
    """The interrupted call did take effect; the model gets `result` as its result."""

    result: str


class DidNotHappen(Struct, frozen=True, tag="did_not_happen", tag_field="decision"):
    """The interrupted call did not take effect: run it again."""


class Answer(Struct, frozen=True, tag="answer", tag_field="decision"):
    """Answer a question that `ask` asked: ``await agent.resume(run_id, {item.id: Answer(True)})``.

    Attributes:
        value: The answer, of the type that was asked for: plain data, or what has a JSON form, such as a date or a
            Struct. One that does not fit is refused.
    """

    value: Any


Decision = Approve | Deny | Modify | Happened | DidNotHappen | Answer
"""A decision on what waits: approve, deny or change a call, say whether it happened, or answer a question."""

Decisions = typing.Annotated[
    collections.abc.Mapping[str, Decision],
    Meta(
        title="mapping from the ids of pending items to Approve(), Deny(reason), Modify(arguments) or Answer(value)",
        description="as in {item.id: Approve() for item in run.pending}",
    ),
]


def decision_of(recorded: object) -> Decision:
    return as_type(recorded, typing.cast("type[Decision]", Decision))


_WELL = (stops.Completed, stops.ToolCalled, stops.StopCondition, stops.Continued)
_CONTINUABLE = (stops.Failed, stops.Cancelled, stops.TimedOut, stops.BudgetExceeded, stops.ModelCallDenied)


class AgentRun(Struct, typing.Generic[Out], frozen=True, weakref=True):
    """The result of an agent's run; ``Out`` is the type of its output.

    Attributes:
        messages: The conversation: the request and all that followed; it can always be sent to a model again.
        stop: Why it stopped.
        output: The final answer: text, or a value of the requested type. Without one, as the run waits, failed or was
            stopped, reading it raises the error of `raise_for_stop`; `has_final_answer` and `stop` are asked before.
        usage: The usage, including failed tries and nested agents.
        model_calls: The number of model calls, including nested agents.
        tool_calls: The number of tool calls, including nested agents.
        steps: The number of steps of its own loop.
        id: The run's id, used to resume it.
        agent: The agent that answered.
        pending: The calls that wait for decisions, if `stop` is Suspended.
        start: The index in `history` at which this run began; earlier messages were its input.
        seconds: Its duration, without waiting for people.
        past: The original messages, if the conversation was rewritten (compacted) during the run, else None.
        session: The id of the session that stores the conversation, empty if there is none.
        cause: The error that ended the run, if it failed, or if its stop does not say all: with which event or step it
            timed out, which question was denied.
        replayed: Whether it was answered from its record: it had ended before, and nothing was called or spent now.
        usage_by_model: The usage by the name of the model, or of another service with usage, such as an embedder.
    """

    messages: Transcript
    stop: stops.Stop
    output: Out = typing.cast("Out", None)
    usage: Usage = Usage()
    model_calls: int = 0
    tool_calls: int = 0
    steps: int = 0
    id: str = ""
    agent: str = ""
    pending: tuple[PendingItem, ...] = ()
    start: int = 0
    seconds: float = 0.0
    past: OriginalMessages | None = None
    session: str = ""
    cause: Cause | None = None
    replayed: bool = False
    usage_by_model: dict[str, Usage] = {}
    _accepted: Any = UNSET
    """The JSON that is recorded for the output, where the output's own JSON is not read back as the output."""

    @property
    def text(self) -> str:
        """The text of the model's last message of this run; empty if there is none."""
        messages = self.messages if self.past is None else self.history
        for index in range(len(messages) - 1, self.start - 1, -1):
            message = messages[index]
            if message.role == "assistant":
                return message.text
        return ""

    @property
    def error(self) -> str | None:
        """Why the run could not finish, as text; None if it ended as intended, or waits for a decision.

        For an error that the user's code raised, it has the error's type and place.
        """
        stop, cause = self.stop, self.cause
        if isinstance(stop, (*_WELL, stops.Suspended)):
            return None
        place = f" (at {cause.place})" if cause is not None and cause.place else ""
        if isinstance(stop, stops.Failed):
            return (f"{stop.kind}: {stop.error}{place}" if place else stop.error) + self._way_on
        told = "" if cause is None or not cause.text else f"{cause.text}{place}"
        return (told or str(stops.error_of(stop))) + self._way_on

    @property
    def _way_on(self) -> str:
        """How to go on with a run that had ended before, and was asked for again."""
        decided = self.cause is not None and self.cause.decided  # it would end there again
        known = self.replayed and not decided and isinstance(self.stop, _CONTINUABLE)
        return f"; it ended so before: resume({self.id!r}) goes on, and another run_id begins anew" if known else ""

    @property
    def is_reusable(self) -> bool:
        """Whether it may answer an equal request: if it completed, or stopped at a condition that the caller set."""
        return isinstance(self.stop, _WELL)

    @property
    def finish(self) -> str | None:
        """Why the model's last answer ended, ``"stop"`` if it is whole; None if the run did not end with an answer."""
        if isinstance(self.stop, stops.Completed):
            return "stop"
        return self.stop.finish if isinstance(self.stop, stops.Incomplete) else None

    @property
    def history(self) -> Transcript:
        """All original messages in order, even if the conversation was rewritten (compacted) during the run."""
        past = self.past
        return self.messages if past is None else Transcript.of(*past.messages, *self.messages[past.since :])

    def raise_for_stop(self) -> "AgentRun[Out]":
        """Return the run if it completed, or stopped at a condition that the caller set.

        Raises:
            ServiceError: an error for the stop, such as Timeout, LimitExceeded or Denied; the run is in `partial`, and
                the error that ended it, if it ended in this process, is the ``__cause__``.
        """
        if isinstance(self.stop, _WELL):
            return self
        raise self._error()

    # -- the output, which is read as it is kept where runs are recorded and shown ------------------------------------

    if TYPE_CHECKING:

        @property
        def _output(self) -> Any: ...

    @property
    def _answer(self) -> Any:
        return self.text if self._output is None else self._output

    def _read_output(self) -> Out:
        output: Out = self._output
        if output is None and not self.has_final_answer:
            error = self._error()
            error.add_note("run.output: there is none; ask run.has_final_answer, run.stop or run.error before")
            raise error
        return output

    def _error(self) -> errors.ServiceError:
        """Return the error for its stop, with what it waits for."""
        error = stops.error_of(self.stop)
        if self.pending:
            called = ("tool", "model")
            waits = ", ".join(f"for {it.call.name}" if it.stage in called else it.reason for it in self.pending)
            error.args = (f"the run is suspended, see run.pending: it waits {waits}; go on with resume()",)
        elif self.cause is not None and self.cause.text:
            error.args = (self.cause.text,)
        elif self._way_on:
            error.add_note(self._way_on[2:])
        error.partial, error.__cause__ = self, None if self.cause is None else self.cause.error
        return error

    # -- views of the steps --------------------------------------------------------------------------------------

    def trace(self) -> "tuple[AgentStep, ...]":
        """Return the steps of this run, each with thought, calls and results."""

        return steps_of(self.history[self.start :])

    def step_at(self, index: int) -> "AgentStep | None":
        """Return the step at this index, from 0, or None if there is none."""
        trace = self.trace()
        return trace[index] if 0 <= index < len(trace) else None

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The thoughts, one text per step that has one."""
        return tuple(step.thought for step in self.trace() if step.thought)

    @property
    def actions(self) -> tuple[str, ...]:
        """The tool calls as text, in order."""
        return tuple(f"{call.name} {call.arguments}" for step in self.trace() for call in step.calls)

    @property
    def observations(self) -> tuple[str, ...]:
        """The tool results as text, in order."""
        return tuple(result.text for step in self.trace() for result in step.results)

    @property
    def failed_tool_calls(self) -> int:
        """The number of results that are errors."""
        return sum(result.error is not None for step in self.trace() for result in step.results)

    @property
    def graph_lookups(self) -> int:
        """The number of results that came from a knowledge graph."""
        results = (result for step in self.trace() for result in step.results if result.error is None)
        return sum((result.origin or "").partition(":")[0] == GRAPH_ORIGIN for result in results)

    @property
    def most_common_action(self) -> str | None:
        """The most frequent entry of `actions`; the first of equals, None if there is none."""
        counted = collections.Counter(self.actions)
        return counted.most_common(1)[0][0] if counted else None

    @property
    def memory_hits(self) -> int:
        """The number of memories recalled into the prompt."""
        recalled = (message for message in self.history[: self.start] if message.origin == MEMORY)
        return sum(len(message.parts) - 1 for message in recalled)

    @property
    def has_final_answer(self) -> bool:
        """Whether the run completed."""
        return isinstance(self.stop, stops.Completed)

    # -- views for people; what makes them is imported when somebody looks -------------------------------------------

    @property
    def figures(self) -> str:
        """Its steps, calls, tokens, cost and time as one line of text."""
        from ziggurat.messages import formatting

        models = self.usage_by_model or {"": self.usage}
        return formatting.figures(self.steps, self.model_calls, self.tool_calls, self.usage, models, self.seconds)

    @property
    def cost(self) -> "Decimal | None":
        """What the run has cost, in US dollars, by the list prices of its models; None if one of them is unknown.

        Where a price depends on the length of a call, all are charged as calls of the mean length. Without the extra
        ``prices`` it is None, with a warning once.
        """
        return total_of(self.usage_by_model or {"": self.usage})

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name):
            hint = f"; write run.{_MEANT[name]}" if name in _MEANT else ""
            raise AttributeError(f"'AgentRun' object has no attribute {name!r}{hint}", name=name, obj=self)

    def __repr__(self) -> str:  # without the cost: asyncio takes the repr of every result, and loading prices is slow
        tokens = "" if self.usage.total == 0 else f", {self.usage.total} tokens"
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return f"<AgentRun {type(self.stop).__name__} {self._shown(60)}, {steps}{tokens}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("stop", self.stop), ("output", self._shown(60)), ("figures", self.figures)]

    def _repr_html_(self) -> str:
        """Return a table of the steps for a notebook; nothing in it is active, whatever a model or a tool wrote."""
        from ziggurat.messages import formatting

        heading = f"{self.agent or 'run'}: {formatting.end_text(self)} · {self.figures}"
        return formatting.run_html(heading, self.trace(), self._shown(1000))

    def _shown(self, width: int) -> str:
        output = self._output
        answer = repr((self.error or self.text)[: 2 * width]) if output is None else repr(output)
        return answer if len(answer) <= width else f"{answer[: width - 1]}…"


if not TYPE_CHECKING:  # who know the field
    AgentRun._output, AgentRun.output = vars(AgentRun)["output"], property(AgentRun._read_output)

_MEANT = {
    **dict.fromkeys(("final_output", "data", "result", "parsed", "value"), "output"),
    "error_message": "error",
    "finish_reason": "stop",
    "status": "stop",
    "tokens": "usage",
    "cost_usd": "cost",
    **dict.fromkeys(("content", "answer"), "text"),
    **dict.fromkeys(("all_messages", "new_messages", "to_input_list"), "messages"),
}
"""The attributes that have other names in other libraries, by those."""


def empty_run(name: str, request: AgentRequest, stop: stops.Stop, run_id: str = "") -> AgentRun:
    start = len(request.messages)
    return AgentRun(Transcript.of(*request.messages), stop, None, id=run_id, start=start, agent=name)


def pending_of(suspend: errors.Suspend) -> tuple[PendingItem, ...]:
    """Return the calls that a suspended run waits for, each once: several may wait for one."""
    items = (as_type(item, PendingItem) for item in suspend.pending)
    return tuple({item.id: item for item in items}.values())


def recorded_items(journal: LocalJournal, path: str = "") -> tuple[PendingItem, ...]:
    """Return the calls at and below a path that wait; all of the run by default."""
    return tuple(recorded_item(pending, journal.find(pending.path)) for pending in journal.index.waits_at(path))


def recorded_item(pending: Pending, record: Record | None) -> PendingItem:
    """Return a call that waits as it is recorded, from the entry with which it began to wait and its record."""
    interrupted = record is not None and record.intent is not None
    call = as_type(pending.request, ToolCall)
    return PendingItem(
        pending.id, pending.path, call, pending.reason, stage_of(pending.path), pending.until, interrupted
    )


def refuse(name: str, ctx: Context, journal: LocalJournal) -> None:
    """Begin a call, or raise if the journal refuses live ones; in a replay, as Suspend if the call was waiting."""
    if journal.replaying:
        waiting = recorded_items(journal, ctx.path)
        if not waiting and journal.breaks_off_at(ctx.path, "Suspended"):
            waiting = recorded_items(journal)
        if waiting and not journal.breaks_off_at(ctx.path, "Failed"):  # such as by a mistake in its approver
            raise errors.Suspend(waiting)
    journal.begin_call(ctx.path, name)


class AgentStep(Struct, frozen=True):
    """One step of an agent's loop, as seen afterwards: thought, tool calls and results.

    Attributes:
        index: Its number, from 1.
        thought: The model's reasoning, or else its text beside the calls.
        calls: The tool calls.
        results: Their results, in the order of the calls.
        answer: What the model said, if it called no tool.
        agent: In a run of a team, the name of the member that spoke.
    """

    index: int
    thought: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    answer: str = ""
    agent: str = ""

    @property
    def action(self) -> str:
        """The calls as text, ``name {arguments}``."""
        return "; ".join(f"{call.name} {call.arguments}" for call in self.calls)

    @property
    def observation(self) -> str:
        """The results as text."""
        return "; ".join(result.text for result in self.results)


def steps_of(messages: collections.abc.Iterable[Message]) -> tuple[AgentStep, ...]:
    replies: list[tuple[Message, list[ToolResult]]] = []
    for message in messages:
        if message.role == "assistant":
            replies.append((message, []))
        elif message.role == "tool" and replies:
            replies[-1][1].extend(message.tool_results)
    return tuple(_step(index, reply, results) for index, (reply, results) in enumerate(replies, 1))


def _step(index: int, reply: Message, results: collections.abc.Iterable[ToolResult]) -> AgentStep:
    beside, answer = (reply.text, "") if reply.tool_calls else ("", reply.text)
    return AgentStep(index, reply.thinking or beside, reply.tool_calls, tuple(results), answer, reply.name or "")

"""Agent requests and runs, pending calls and decisions."""

__all__ = [
    "AgentRequest",
    "AgentRun",
    "Approve",
    "Decision",
    "Deny",
    "DidNotHappen",
    "Happened",
    "Modify",
    "PendingItem",
    "Stage",
    "Step",
    "decision_of",
    "error_of",
    "pending_of",
    "stop_of",
]

from collections import Counter
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from ziggurat.core import errors
from ziggurat.core.codec import as_type, digest
from ziggurat.messages import stops
from ziggurat.messages.canonical import canonical
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import MEMORY, Message
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.rewriting import Past
from ziggurat.messages.tool import GRAPH_ORIGIN
from ziggurat.messages.usage import Usage


class AgentRequest(Struct, frozen=True, gc=False):
    """A task for an agent.

    Attributes:
        messages: What it is told; earlier turns first, if any.
    """

    messages: tuple[Message, ...]

    def fingerprint(self) -> str:
        """Return a digest of the messages."""
        return digest(self.messages)


Stage = Literal["tool", "model"]
"""What is called: a tool, or a model."""


class PendingItem(Struct, frozen=True):
    """A call that waits for a decision.

    Attributes:
        id: A digest of its path and frozen arguments; decisions are given by it.
        path: Where the call stands in the run.
        call: Exactly what will be executed if it is approved; of a model, its name and the whole request.
        reason: Why it is asked.
        stage: Whether a tool is to be called or a model.
        until: When it is denied unless somebody has decided, in POSIX seconds; None for never.
        interrupted: It was begun, acts once only, and nobody knows whether it took effect: decided by `Happened`,
            `DidNotHappen` or `Deny`.
    """

    id: str
    path: str
    call: ToolCall
    reason: str = ""
    stage: Stage = "tool"
    until: float | None = None
    interrupted: bool = False

    @property
    def shown(self) -> str:
        """The arguments as a person should read them: sorted keys, and nothing that an eye would miss."""
        return canonical(self.call.arguments, self.call.name)


class Approve(Struct, frozen=True, tag="approve", tag_field="decision"):
    """Yes, execute it as it is."""


class Deny(Struct, frozen=True, tag="deny", tag_field="decision"):
    """No; the model is told why."""

    reason: str = "denied"


class Modify(Struct, frozen=True, tag="modify", tag_field="decision"):
    """Yes, but with these arguments, a JSON object as text."""

    arguments: str


class Happened(Struct, frozen=True, tag="happened", tag_field="decision"):
    """The call that was interrupted did take effect, and this is what the model is told came of it."""

    result: str


class DidNotHappen(Struct, frozen=True, tag="did_not_happen", tag_field="decision"):
    """The call that was interrupted did not take effect: run it."""


Decision = Approve | Deny | Modify | Happened | DidNotHappen


def decision_of(recorded: object) -> Decision:
    """Return a recorded decision, read from JSON if need be."""
    return as_type(recorded, cast("type[Decision]", Decision))


class Step(Struct, frozen=True):
    """One turn of the loop, as seen afterwards: what was thought, done and observed.

    Attributes:
        index: Its number, from 1.
        thought: What was thought, or said beside the calls.
        calls: The tools called.
        results: What came of them, in the order of the calls.
    """

    index: int
    thought: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]

    @property
    def action(self) -> str:
        """The calls as text, ``name {arguments}``."""
        return "; ".join(f"{call.name} {call.arguments}" for call in self.calls)

    @property
    def observation(self) -> str:
        """The results as text."""
        return "; ".join(result.text for result in self.results)


_WELL = (stops.Completed, stops.ToolCalled, stops.StopCondition)


class AgentRun(Struct, frozen=True, weakref=True):
    """How a run went.

    Attributes:
        messages: The conversation: what was asked and all that followed; always fit to be sent to a model again.
        stop: Why it stopped.
        output: The final answer: text, or a value of the type that was asked for.
        usage: What it cost, failed tries and nested agents included.
        model_calls: How many model calls, nested agents included.
        tool_calls: How many tool calls, nested agents included.
        steps: How many turns its own loop took.
        id: The run's id, by which it is resumed.
        agent: The agent that answered.
        pending: What it waits for, when `stop` is Suspended.
        start: Where in `history` this run began; earlier messages were given to it.
        seconds: How long it took, waiting for people excluded.
        past: What was said before the conversation was made shorter, None if it was not.
        session: The id of the session that it was kept in, empty if in none.
    """

    messages: Transcript
    stop: stops.Stop
    output: Any = None
    usage: Usage = Usage()
    model_calls: int = 0
    tool_calls: int = 0
    steps: int = 0
    id: str = ""
    agent: str = ""
    pending: tuple[PendingItem, ...] = ()
    start: int = 0
    seconds: float = 0.0
    past: Past | None = None
    session: str = ""

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
        """What kept the run from going on, in words; None if it ended where it should, or waits for a decision."""
        stop = self.stop
        if isinstance(stop, stops.Failed):
            return stop.error
        return None if isinstance(stop, (*_WELL, stops.Suspended)) else str(error_of(stop))

    @property
    def history(self) -> Transcript:
        """Everything that was said, in order and as it was said, whether the conversation was made shorter or not."""
        past = self.past
        return self.messages if past is None else Transcript.of(*past.messages, *self.messages[past.since :])

    def raise_for_stop(self) -> "AgentRun":
        """Return the run if it completed, or stopped where it was told to.

        Raises:
            ServiceError: of the kind that stopped it, such as Timeout, LimitExceeded or Denied.
        """
        if isinstance(self.stop, _WELL):
            return self
        error = error_of(self.stop)
        error.partial = self
        raise error

    # -- views: how it went, step by step ------------------------------------------------------------------------

    def trace(self) -> tuple[Step, ...]:
        """Return the steps of this run, each with thought, calls and results."""
        steps: list[Step] = []
        for message in self.history[self.start :]:
            if message.role == "assistant":
                thought = message.thinking or ("" if not message.tool_calls else message.text)
                steps.append(Step(len(steps) + 1, thought, message.tool_calls, ()))
            elif message.role == "tool" and steps:
                last = steps[-1]
                steps[-1] = msgspec.structs.replace(last, results=last.results + message.tool_results)
        return tuple(steps)

    def step_at(self, index: int) -> Step | None:
        """Return the step with this number, counted from 0, or None."""
        trace = self.trace()
        return trace[index] if 0 <= index < len(trace) else None

    @property
    def thoughts(self) -> tuple[str, ...]:
        """What was thought, one text per step that thought."""
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
        """How many results were errors."""
        return sum(result.error is not None for step in self.trace() for result in step.results)

    @property
    def graph_lookups(self) -> int:
        """How many times a knowledge graph answered."""
        results = (result for step in self.trace() for result in step.results if result.error is None)
        return sum((result.origin or "").partition(":")[0] == GRAPH_ORIGIN for result in results)

    @property
    def most_common_action(self) -> str | None:
        """The action taken most often, as `actions` tells it; of equals the first, None if there was none."""
        counted = Counter(self.actions)
        return counted.most_common(1)[0][0] if counted else None

    @property
    def memory_hits(self) -> int:
        """How many memories were recalled into the prompt."""
        recalled = (message for message in self.history[: self.start] if message.origin == MEMORY)
        return sum(len(message.parts) - 1 for message in recalled)

    @property
    def has_final_answer(self) -> bool:
        """Whether the run completed."""
        return isinstance(self.stop, stops.Completed)


def stop_of(error: BaseException) -> stops.Stop:
    """Return the stop that an error amounts to."""
    if isinstance(error, errors.Timeout):
        return stops.Timeout(error.seconds or 0.0)
    if isinstance(error, errors.LimitExceeded) and not error.transient:  # else it is not used up but busy
        return stops.BudgetExceeded(error.kind, error.limit, error.used)
    if isinstance(error, errors.Denied):
        return stops.Denied(str(error))
    if isinstance(error, errors.Suspend):
        return stops.Suspended()
    kind = errors.type_name_of(error)
    return stops.Failed(errors.text_of(error) or kind, kind)


def error_of(stop: stops.Stop) -> errors.ServiceError:
    """Return the error that a stop amounts to."""
    if isinstance(stop, stops.Timeout):
        return errors.Timeout(
            f"the run timed out after {round(stop.seconds, 2) or stop.seconds:g} s", seconds=stop.seconds
        )
    if isinstance(stop, stops.BudgetExceeded):
        return errors.LimitExceeded(stop.kind, stop.limit, stop.used)
    if isinstance(stop, stops.MaxSteps):
        return errors.LimitExceeded("steps", stop.limit, stop.limit)
    if isinstance(stop, stops.Denied):
        return errors.Denied(stop.reason)
    if isinstance(stop, stops.Failed):
        return errors.ServiceError(f"the run failed: {stop.kind}: {stop.error}")
    return errors.ServiceError(f"the run stopped: {stop}")


def pending_of(suspend: errors.Suspend) -> tuple[PendingItem, ...]:
    """Return what a suspension waits for."""
    return tuple(as_type(item, PendingItem) for item in suspend.pending)

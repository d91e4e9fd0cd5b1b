"""Event types for models, tools and agents."""

from functools import reduce
from operator import or_
from typing import Any, ClassVar, Literal

from ziggurat.core.event import Event
from ziggurat.core.failures import Cause
from ziggurat.messages.agent import AgentRun, Decision, PendingItem
from ziggurat.messages.message import PartDelta, TextDelta, ToolCall, ToolResult
from ziggurat.messages.model import ModelResponse


class AgentStarted(Event, frozen=True):
    """An agent has started."""

    agent: str
    """Its name."""
    run_id: str
    """The id of the run, that of the outermost agent for those below it."""


class AgentEnded(Event, frozen=True):
    """An agent has ended; the last event of a run."""

    run: AgentRun
    """The result."""


class StepStarted(Event, frozen=True):
    """A step of an agent's loop has started; steps are counted from 1."""

    step: int


class StepEnded(Event, frozen=True):
    """A step of an agent's loop has ended."""

    step: int


NodeStatus = Literal["pending", "running", "completed", "failed", "skipped"]


class NodeChanged(Event, frozen=True):
    """A node of a plan or a graph has begun, has ended, or is skipped; also emitted when it comes from the record."""

    node: str
    """Its position in the plan, such as ``checks/spelling``, or its name in the graph: of all rounds of a loop the
    same."""
    status: NodeStatus
    error: str | None = None
    """Why it failed."""
    changes: tuple[dict[str, Any], ...] = ()
    """Of a node of a graph that has completed: what it changes of the state, as plain data; of a map, once for each
    item."""
    to: tuple[str, ...] = ()
    """The nodes that its route has chosen."""
    replayed: bool = False
    """Whether a node of a graph was answered from the record."""


class Steered(Event, frozen=True):
    """A run was steered from outside, with effect in this step; `replayed` if it comes from the record."""

    verb: str
    """``cancel``, ``inject`` or ``redirect``."""
    step: int
    replayed: bool = False


class HandedOff(Event, frozen=True):
    """One member of a team has handed the conversation over to another; the path is that of the other one's turn."""

    source: str
    """The name of the member that has handed over."""
    target: str
    """The name of the member that goes on."""
    reason: str | None = None
    """Why, if the model has said so."""
    replayed: bool = False
    """Whether it comes from the record."""


class ModelStarted(Event, frozen=True):
    """A model call has started."""

    model: str
    messages: int
    """The number of messages sent."""


class Delta(Event, frozen=True):
    """A piece of a model's reply."""

    piece: ClassVar[bool] = True

    delta: PartDelta

    @property
    def text(self) -> str:
        """That of a piece of text, which ``case Delta(text=text)`` matches; other pieces have none."""
        if isinstance(self.delta, TextDelta):
            return self.delta.text
        raise AttributeError(
            f"a {type(self.delta).__name__} is no piece of text; see its `delta`", name="text", obj=self
        )


class ModelEnded(Event, frozen=True):
    """A model has answered; `replayed` if the answer comes from the record."""

    response: ModelResponse
    replayed: bool = False


class ToolStarted(Event, frozen=True):
    """A tool call has started."""

    call: ToolCall


class ToolDelta(Event, frozen=True):
    """A tool reports progress as text."""

    piece: ClassVar[bool] = True

    name: str
    text: str


class ToolEnded(Event, frozen=True):
    """A tool has returned a result."""

    call: ToolCall
    result: ToolResult
    seconds: float = 0.0
    """How long it took, without waits for people."""
    replayed: bool = False
    """Whether the result comes from the record."""
    cause: Cause | None = None
    """The error that became the result, if it was unexpected."""


class ToolAbandoned(Event, frozen=True):
    """A tool did not stop when it was cancelled; it was abandoned, and counted."""

    name: str
    leaked: int
    """The number of calls abandoned so far in this process."""


class ApprovalRequested(Event, frozen=True):
    """A call waits for a decision."""

    item: PendingItem
    """The call, with the id for its decision."""


class ApprovalDecided(Event, frozen=True):
    """A decision was made on a call that waited; `ApprovalExecuted` follows if it runs."""

    id: str
    """The id of its `PendingItem`."""
    call: ToolCall
    decision: Decision


class Compacted(Event, frozen=True):
    """A conversation was compacted: messages from `start` up to, not including, `end` were replaced."""

    by: str
    """The reducers that did it, such as ``mask > summarise``."""
    start: int
    end: int
    before: int
    """The number of messages before."""
    after: int
    """The number of messages after."""
    replayed: bool = False


class ApprovalExecuted(Event, frozen=True):
    """An approved call is now executed: exactly this call."""

    id: str
    call: ToolCall


class LoopWarning(Event, frozen=True):
    """The model has made the same tool calls too often in a row; see `loop_detection`."""

    tool: str
    """The names of the tools."""
    count: int
    """How often."""


class MemoryRecalled(Event, frozen=True):
    """Memories were recalled into the prompt of an agent."""

    owner: str
    """The owner of the memory."""
    memories: tuple[str, ...]
    """The recalled texts as sent to the model."""
    ids: tuple[str, ...] = ()
    """The ids of the memories; empty if this comes from the record."""
    replayed: bool = False


class MemoryStored(Event, frozen=True):
    """After a run, memories of it were stored."""

    owner: str
    """The owner of the memory."""
    memories: tuple[str, ...]
    ids: tuple[str, ...]


class MiddlewareStarted(Event, frozen=True):
    """A hook of a middleware has started."""

    name: str
    hook: str


class MiddlewareCompleted(Event, frozen=True):
    """A hook of a middleware has ended; not emitted if it raised."""

    name: str
    hook: str


class Warned(Event, frozen=True):
    """A warning for people; the run continues."""

    text: str


AnyEvent: Any = reduce(
    or_, [each for each in Event.__subclasses__() if each.__module__ in (Event.__module__, __name__)]
)
"""The union of all events that Ziggurat itself emits."""

"""Events that speak of models, tools and agents."""

__all__ = [
    "AgentEnded",
    "AgentStarted",
    "AnyEvent",
    "ApprovalDecided",
    "ApprovalExecuted",
    "ApprovalRequested",
    "Compacted",
    "Delta",
    "LoopWarning",
    "MemoryKept",
    "MemoryRecalled",
    "MiddlewareCompleted",
    "MiddlewareStarted",
    "ModelEnded",
    "ModelStarted",
    "Steered",
    "StepEnded",
    "StepStarted",
    "ToolAbandoned",
    "ToolDelta",
    "ToolEnded",
    "ToolStarted",
    "Warned",
]

from ziggurat.core.event import (
    CacheHit,
    CircuitChanged,
    Diverged,
    Dropped,
    Event,
    Joined,
    Queued,
    Retrying,
    UnderPressure,
)
from ziggurat.messages.agent import AgentRun, Decision, PendingItem
from ziggurat.messages.delta import PartDelta
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import ToolCall, ToolResult


class AgentStarted(Event, frozen=True):
    """An agent begins."""

    agent: str
    run_id: str


class AgentEnded(Event, frozen=True):
    """An agent is done; the last event of a run."""

    run: AgentRun


class StepStarted(Event, frozen=True):
    """A turn of an agent's loop begins; counted from 1."""

    step: int


class StepEnded(Event, frozen=True):
    """A turn of an agent's loop is done."""

    step: int


class Steered(Event, frozen=True):
    """A run was steered from outside, with effect in this step; `replayed` when that was on record."""

    verb: str
    step: int
    replayed: bool = False


class ModelStarted(Event, frozen=True):
    """A model is asked."""

    model: str
    messages: int
    """How many messages it is sent."""


class Delta(Event, frozen=True):
    """A piece of a model's reply."""

    delta: PartDelta


class ModelEnded(Event, frozen=True):
    """A model has answered; `replayed` when the answer was on record."""

    response: ModelResponse
    replayed: bool = False


class ToolStarted(Event, frozen=True):
    """A tool is called."""

    call: ToolCall


class ToolDelta(Event, frozen=True):
    """A tool tells how it goes, in its own words."""

    name: str
    text: str


class ToolEnded(Event, frozen=True):
    """A tool has answered."""

    call: ToolCall
    result: ToolResult
    seconds: float = 0.0
    replayed: bool = False


class ToolAbandoned(Event, frozen=True):
    """A tool did not stop when it was told to; it was left behind, and counted."""

    name: str
    leaked: int
    """How many calls have been left behind in this process."""


class ApprovalRequested(Event, frozen=True):
    """A call waits for a decision."""

    item: PendingItem


class ApprovalDecided(Event, frozen=True):
    """A decision was made on a call."""

    id: str
    call: ToolCall
    decision: Decision


class Compacted(Event, frozen=True):
    """A conversation was made shorter: messages from `start` up to `end` were replaced."""

    by: str
    """What made it shorter, such as ``mask > summarise``."""
    start: int
    end: int
    before: int
    """How many messages there were."""
    after: int
    """How many there are now."""
    replayed: bool = False


class ApprovalExecuted(Event, frozen=True):
    """What was agreed to is executed now: exactly this call."""

    id: str
    call: ToolCall


class LoopWarning(Event, frozen=True):
    """The model did the same `count` times."""

    tool: str
    count: int


class MemoryRecalled(Event, frozen=True):
    """Memories were recalled into the prompt of an agent."""

    owner: str
    """Whose memory it is."""
    memories: tuple[str, ...]
    """What was recalled, as the model is told it."""
    ids: tuple[str, ...] = ()
    """The ids of the memories; empty when this was on record."""
    replayed: bool = False


class MemoryKept(Event, frozen=True):
    """After a run, something of it was kept in a memory."""

    owner: str
    """Whose memory it is."""
    memories: tuple[str, ...]
    ids: tuple[str, ...]


class MiddlewareStarted(Event, frozen=True):
    """A hook of a middleware begins."""

    name: str
    hook: str


class MiddlewareCompleted(Event, frozen=True):
    """A hook of a middleware is done; not emitted when it raised."""

    name: str
    hook: str


class Warned(Event, frozen=True):
    """Something that a person should look at; nothing was stopped for it."""

    text: str


AnyEvent = (
    AgentEnded
    | AgentStarted
    | ApprovalDecided
    | ApprovalExecuted
    | ApprovalRequested
    | CacheHit
    | CircuitChanged
    | Compacted
    | Delta
    | Diverged
    | Dropped
    | Joined
    | LoopWarning
    | MemoryKept
    | MemoryRecalled
    | MiddlewareCompleted
    | MiddlewareStarted
    | ModelEnded
    | ModelStarted
    | Queued
    | Retrying
    | StepEnded
    | StepStarted
    | Steered
    | ToolAbandoned
    | ToolDelta
    | ToolEnded
    | ToolStarted
    | UnderPressure
    | Warned
)
"""Every event that Ziggurat itself emits."""

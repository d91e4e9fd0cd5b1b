"""Events: what a run reports while it happens, and how to listen."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.callbacks import Callbacks as Callbacks
    from ziggurat.agents.partial import partial_values as partial_values
    from ziggurat.core.event import (
        CacheHit as CacheHit,
        ChildEnded as ChildEnded,
        ChildStarted as ChildStarted,
        CircuitChanged as CircuitChanged,
        Diverged as Diverged,
        Dropped as Dropped,
        Event as Event,
        Joined as Joined,
        Queued as Queued,
        Retrying as Retrying,
        Skipped as Skipped,
        UnderPressure as UnderPressure,
    )
    from ziggurat.core.stream import open_stream as open_stream
    from ziggurat.memory.merging import MemoriesMerged as MemoriesMerged
    from ziggurat.messages.events import (
        AgentEnded as AgentEnded,
        AgentStarted as AgentStarted,
        ApprovalDecided as ApprovalDecided,
        ApprovalExecuted as ApprovalExecuted,
        ApprovalRequested as ApprovalRequested,
        Compacted as Compacted,
        Delta as Delta,
        HandedOff as HandedOff,
        LoopWarning as LoopWarning,
        MemoryRecalled as MemoryRecalled,
        MemoryStored as MemoryStored,
        MiddlewareCompleted as MiddlewareCompleted,
        MiddlewareStarted as MiddlewareStarted,
        ModelEnded as ModelEnded,
        ModelStarted as ModelStarted,
        NodeChanged as NodeChanged,
        Steered as Steered,
        StepEnded as StepEnded,
        StepStarted as StepStarted,
        ToolAbandoned as ToolAbandoned,
        ToolDelta as ToolDelta,
        ToolEnded as ToolEnded,
        ToolStarted as ToolStarted,
        Warned as Warned,
    )
    from ziggurat.messages.message import (
        Fold as Fold,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        ToolCallDelta as ToolCallDelta,
    )
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)

"""Events: what a run reports while it happens, and how to listen."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.callbacks": ("Callbacks",),
        "agents.partial": ("partial_values",),
        "core.broadcast": ("SubscribedItem",),
        "core.event": (
            "CacheHit",
            "CircuitChanged",
            "Diverged",
            "Dropped",
            "Event",
            "Joined",
            "Listener",
            "PerRun",
            "Queued",
            "Retrying",
            "Skipped",
            "UnderPressure",
        ),
        "core.stream": ("EventStream", "open_stream"),
        "memory.merging": ("MemoriesMerged",),
        "messages.delta": (
            "DeltaFilter",
            "Fold",
            "PartDelta",
            "TextDelta",
            "ThinkingDelta",
            "ToolCallDelta",
            "WholePart",
        ),
        "messages.events": "*",
    },
)

"""Compaction: shorten the conversation of a long run; choose when, which part, and how."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.compaction": "*",
        "agents.compaction.token_budget": ("Shortened",),
        "agents.compaction.turn_count": ("TurnCountResult",),
    },
)

"""Compaction: shorten the conversation of a long run; choose when, which part, and how."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.compaction.excerpts": ("Excerpt", "Recent", "Selector", "units"),
        "agents.compaction.middleware": (
            "Compaction",
            "Trigger",
            "at_fraction",
            "over_messages",
            "over_tokens",
            "over_turns",
        ),
        "agents.compaction.reducers": ("Concatenate", "Drop", "Mask", "Reducer", "Summary"),
        "agents.compaction.turns": (
            "Importance",
            "Shortened",
            "TokenBudget",
            "Turn",
            "TurnCount",
            "TurnCountResult",
            "composite",
            "entity_density",
            "keyword_density",
            "recency_decay",
        ),
    },
)

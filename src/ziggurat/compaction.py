"""Compaction: shorten the conversation of a long run; choose when, which part, and how."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.compaction": (
            "Compaction",
            "Concatenate",
            "Drop",
            "Excerpt",
            "Importance",
            "Mask",
            "Recent",
            "Reducer",
            "Selector",
            "Summary",
            "TokenBudget",
            "Trigger",
            "Turn",
            "TurnCount",
            "Windows",
            "at_fraction",
            "composite",
            "entity_density",
            "keyword_density",
            "over_messages",
            "over_tokens",
            "over_turns",
            "recency_decay",
            "units",
        ),
        "agents.compaction.token_budget": ("Shortened",),
        "agents.compaction.turn_count": ("TurnCountResult",),
    },
)

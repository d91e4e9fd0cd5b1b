"""Compaction: shorten the conversation of a long run; choose when, which part, and how."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.compaction import (
        Compaction,
        Concatenate,
        Drop,
        Excerpt,
        Importance,
        Mask,
        Recent,
        Reducer,
        Selector,
        Summary,
        TokenBudget,
        Trigger,
        Turn,
        TurnCount,
        Windows,
        at_fraction,
        composite,
        entity_density,
        keyword_density,
        over_messages,
        over_tokens,
        over_turns,
        recency_decay,
        units,
    )
    from ziggurat.agents.compaction.token_budget import Shortened
    from ziggurat.agents.compaction.turn_count import TurnCountResult
else:
    __getattr__, __dir__ = lazy(
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

__all__ = [
    "Compaction",
    "Concatenate",
    "Drop",
    "Excerpt",
    "Importance",
    "Mask",
    "Recent",
    "Reducer",
    "Selector",
    "Shortened",
    "Summary",
    "TokenBudget",
    "Trigger",
    "Turn",
    "TurnCount",
    "TurnCountResult",
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
]

"""Compaction: shorten the conversation of a long run; choose when, which part, and how."""

from ziggurat.agents.compaction.importance import (
    Importance,
    Turn,
    composite,
    entity_density,
    keyword_density,
    recency_decay,
)
from ziggurat.agents.compaction.middleware import Compaction
from ziggurat.agents.compaction.reducer import Concatenate, Drop, Excerpt, Mask, Reducer, Windows
from ziggurat.agents.compaction.selector import Recent, Selector, units
from ziggurat.agents.compaction.summary import Summary
from ziggurat.agents.compaction.token_budget import TokenBudget
from ziggurat.agents.compaction.trigger import Trigger, at_fraction, over_messages, over_tokens, over_turns
from ziggurat.agents.compaction.turn_count import TurnCount

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
]

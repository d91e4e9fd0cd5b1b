"""Makes the conversation of a long run shorter: when, which part of it, and how are three things to choose."""

from ziggurat.agents.compaction.middleware import Compaction
from ziggurat.agents.compaction.reducer import Concatenate, Drop, Excerpt, Mask, Reducer, Windows
from ziggurat.agents.compaction.selector import Recent, Selector, units
from ziggurat.agents.compaction.summary import Summary
from ziggurat.agents.compaction.trigger import Trigger, at_fraction, over_messages, over_tokens, over_turns

__all__ = [
    "Compaction",
    "Concatenate",
    "Drop",
    "Excerpt",
    "Mask",
    "Recent",
    "Reducer",
    "Selector",
    "Summary",
    "Trigger",
    "Windows",
    "at_fraction",
    "over_messages",
    "over_tokens",
    "over_turns",
    "units",
]

"""Compaction: shorten the conversation of a long run; choose when, which part, and how."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.compaction.excerpts import (
        Excerpt as Excerpt,
        Recent as Recent,
        Selector as Selector,
        units as units,
    )
    from ziggurat.agents.compaction.middleware import (
        Compaction as Compaction,
        Trigger as Trigger,
        at_fraction as at_fraction,
        over_messages as over_messages,
        over_tokens as over_tokens,
        over_turns as over_turns,
    )
    from ziggurat.agents.compaction.reducers import (
        Concatenate as Concatenate,
        Drop as Drop,
        Mask as Mask,
        Reducer as Reducer,
        Summary as Summary,
    )
    from ziggurat.agents.compaction.turns import (
        Importance as Importance,
        Shortened as Shortened,
        TokenBudget as TokenBudget,
        Turn as Turn,
        TurnCount as TurnCount,
        TurnCountResult as TurnCountResult,
        composite as composite,
        entity_density as entity_density,
        keyword_density as keyword_density,
        recency_decay as recency_decay,
    )

__getattr__, __dir__, __all__ = lazy(__name__)

"""Compaction: shorten the conversation of a long run; choose when, which part, and how."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.compaction.middleware import (
        Compaction as Compaction,
        at_fraction as at_fraction,
        over_messages as over_messages,
        over_tokens as over_tokens,
        over_turns as over_turns,
    )
    from ziggurat.agents.compaction.reducers import (
        Concatenate as Concatenate,
        Drop as Drop,
        Excerpt as Excerpt,
        Mask as Mask,
        Recent as Recent,
        Summary as Summary,
    )
    from ziggurat.agents.compaction.turns import (
        TokenBudget as TokenBudget,
        TurnCount as TurnCount,
        entity_density as entity_density,
        keyword_density as keyword_density,
        recency_decay as recency_decay,
        weighted_importance as weighted_importance,
    )
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)

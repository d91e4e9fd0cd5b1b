# Written by tests/test_names.py from compaction.py.
from ziggurat.agents.compaction.excerpts import Excerpt as Excerpt
from ziggurat.agents.compaction.excerpts import Recent as Recent
from ziggurat.agents.compaction.excerpts import Selector as Selector
from ziggurat.agents.compaction.excerpts import units as units
from ziggurat.agents.compaction.middleware import Compaction as Compaction
from ziggurat.agents.compaction.middleware import Trigger as Trigger
from ziggurat.agents.compaction.middleware import at_fraction as at_fraction
from ziggurat.agents.compaction.middleware import over_messages as over_messages
from ziggurat.agents.compaction.middleware import over_tokens as over_tokens
from ziggurat.agents.compaction.middleware import over_turns as over_turns
from ziggurat.agents.compaction.reducers import Concatenate as Concatenate
from ziggurat.agents.compaction.reducers import Drop as Drop
from ziggurat.agents.compaction.reducers import Mask as Mask
from ziggurat.agents.compaction.reducers import Reducer as Reducer
from ziggurat.agents.compaction.reducers import Summary as Summary
from ziggurat.agents.compaction.turns import Importance as Importance
from ziggurat.agents.compaction.turns import Shortened as Shortened
from ziggurat.agents.compaction.turns import TokenBudget as TokenBudget
from ziggurat.agents.compaction.turns import Turn as Turn
from ziggurat.agents.compaction.turns import TurnCount as TurnCount
from ziggurat.agents.compaction.turns import TurnCountResult as TurnCountResult
from ziggurat.agents.compaction.turns import composite as composite
from ziggurat.agents.compaction.turns import entity_density as entity_density
from ziggurat.agents.compaction.turns import keyword_density as keyword_density
from ziggurat.agents.compaction.turns import recency_decay as recency_decay

__all__: list[str]

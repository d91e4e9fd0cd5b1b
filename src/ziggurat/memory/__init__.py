"""Long-term storage of what agents remember: memory records, their scoring, eviction and stores.

Each name is imported when it is first used.

- A memory: `record`. What is passed: `arguments`. What it is worth: `scoring`. Which one is evicted: `eviction`.
- Kinds of memory, each a `view` of one owner's records: `episodic`, `semantic`, `working`, `longterm`; all of them
  for one agent: `agent_memory`.
- Stores: `store` has the protocol, `connect` opens a store by its URL, `stores` has the implementations; they `search`
  by `words`, compared by `stemming`, and `vectors`. A recall is `finding` what matters; `vectorizing` embeds texts.
- Similarity of texts: `similar`, `tfidf`, `clusters`, `contradiction`.
- Problems: `audit` finds `junk` and others. `consolidation` merges memories by subject, `compression` the old and
  unimportant ones; both by `merging`, under a `lease`. `maintenance` does this in the background.
- Moving memories between stores: `transfer`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ziggurat.memory.agent_memory import AgentMemory
    from ziggurat.memory.audit import MemoryAudit
    from ziggurat.memory.compression import CompressionPolicy
    from ziggurat.memory.connect import open_memory
    from ziggurat.memory.consolidation import ConsolidationPolicy
    from ziggurat.memory.episodic import EpisodicMemory
    from ziggurat.memory.eviction import lowest, oldest
    from ziggurat.memory.finding import Recalled
    from ziggurat.memory.longterm import LongTermMemory
    from ziggurat.memory.maintenance import Maintenance
    from ziggurat.memory.merging import MergePolicy, MergeReport, MergeRequest
    from ziggurat.memory.record import MemoryRecord
    from ziggurat.memory.scoring import (
        Score,
        ScoringInputs,
        decayed,
        frequency,
        half_life,
        hybrid,
        importance,
        product,
        recency,
        retention,
        similarity,
        weighted,
    )
    from ziggurat.memory.semantic import SemanticMemory
    from ziggurat.memory.store import Hit, MemoryStore, Query
    from ziggurat.memory.working import WorkingMemory

_HOMES = {
    "AgentMemory": "agent_memory",
    "CompressionPolicy": "compression",
    "ConsolidationPolicy": "consolidation",
    "EpisodicMemory": "episodic",
    "Hit": "store",
    "LongTermMemory": "longterm",
    "Maintenance": "maintenance",
    "MemoryAudit": "audit",
    "MemoryRecord": "record",
    "MemoryStore": "store",
    "MergePolicy": "merging",
    "MergeReport": "merging",
    "MergeRequest": "merging",
    "Query": "store",
    "Recalled": "finding",
    "Score": "scoring",
    "ScoringInputs": "scoring",
    "SemanticMemory": "semantic",
    "WorkingMemory": "working",
    "decayed": "scoring",
    "frequency": "scoring",
    "half_life": "scoring",
    "hybrid": "scoring",
    "importance": "scoring",
    "lowest": "eviction",
    "oldest": "eviction",
    "open_memory": "connect",
    "product": "scoring",
    "recency": "scoring",
    "retention": "scoring",
    "similarity": "scoring",
    "weighted": "scoring",
}

__all__ = [
    "AgentMemory",
    "CompressionPolicy",
    "ConsolidationPolicy",
    "EpisodicMemory",
    "Hit",
    "LongTermMemory",
    "Maintenance",
    "MemoryAudit",
    "MemoryRecord",
    "MemoryStore",
    "MergePolicy",
    "MergeReport",
    "MergeRequest",
    "Query",
    "Recalled",
    "Score",
    "ScoringInputs",
    "SemanticMemory",
    "WorkingMemory",
    "decayed",
    "frequency",
    "half_life",
    "hybrid",
    "importance",
    "lowest",
    "oldest",
    "open_memory",
    "product",
    "recency",
    "retention",
    "similarity",
    "weighted",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ziggurat.memory' has no attribute {name!r}")
    found = getattr(import_module(f"ziggurat.memory.{home}"), name)
    globals()[name] = found
    return found

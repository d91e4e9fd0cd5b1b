"""Long-term storage of what agents remember: memory records, their scoring, eviction and stores.

- A memory: `record`. What is passed: `arguments`. What it is worth: `scoring`. Which one is evicted: `eviction`.
- Kinds of memory, each a `view` of one owner's records: `episodic`, `semantic`, `working`, `longterm`; all of them
  for one agent: `agent_memory`.
- Stores: `store` has the protocol, `connect` opens a store by its URL, `stores` has the implementations; they `search`
  by `words`, compared by `stemming`, and `vectors`. A recall is `finding` what matters; `vectorizing` embeds texts.
- Similarity of texts: `similar`, `tfidf`, `clusters`, `contradiction`.
- Problems: `auditing` finds `junk` and others. `consolidating` merges memories by subject, `compressing` the old and
  unimportant ones; both by `merging`, under a `lease`. `maintenance` does this in the background.
- Moving memories between stores: `transfer`.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.memory import FactsBy, Note, Remembering, everything_said, memory_tools
    from ziggurat.memory.agent_memory import AgentMemory
    from ziggurat.memory.auditing import Finding, MemoryAudit, audit
    from ziggurat.memory.compressing import CompressionPolicy, compression
    from ziggurat.memory.connect import open_memory
    from ziggurat.memory.consolidating import ConsolidationPolicy, consolidation
    from ziggurat.memory.episodic import EpisodicMemory
    from ziggurat.memory.eviction import lowest, oldest
    from ziggurat.memory.finding import Recalled
    from ziggurat.memory.longterm import LongTermMemory
    from ziggurat.memory.maintenance import Maintenance
    from ziggurat.memory.merging import MemoriesMerged, MergePolicy, MergeReport, MergeRequest
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
    from ziggurat.memory.similar import find_same
    from ziggurat.memory.store import Hit, MemoryStore, Query
    from ziggurat.memory.stores.local import LocalMemoryStore
    from ziggurat.memory.tfidf import TfIdf
    from ziggurat.memory.transfer import export_memories, import_memories
    from ziggurat.memory.vectorizing import reembed
    from ziggurat.memory.words import CONTEXT
    from ziggurat.memory.working import WorkingMemory
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "agents.memory": ("FactsBy", "Note", "Remembering", "everything_said", "memory_tools"),
            "memory.agent_memory": ("AgentMemory",),
            "memory.auditing": ("Finding", "MemoryAudit", "audit"),
            "memory.compressing": ("CompressionPolicy", "compression"),
            "memory.connect": ("open_memory",),
            "memory.consolidating": ("ConsolidationPolicy", "consolidation"),
            "memory.episodic": ("EpisodicMemory",),
            "memory.eviction": ("lowest", "oldest"),
            "memory.finding": ("Recalled",),
            "memory.longterm": ("LongTermMemory",),
            "memory.maintenance": ("Maintenance",),
            "memory.merging": ("MemoriesMerged", "MergePolicy", "MergeReport", "MergeRequest"),
            "memory.record": ("MemoryRecord",),
            "memory.scoring": (
                "Score",
                "ScoringInputs",
                "decayed",
                "frequency",
                "half_life",
                "hybrid",
                "importance",
                "product",
                "recency",
                "retention",
                "similarity",
                "weighted",
            ),
            "memory.semantic": ("SemanticMemory",),
            "memory.similar": ("find_same",),
            "memory.store": ("Hit", "MemoryStore", "Query"),
            "memory.stores.local": ("LocalMemoryStore",),
            "memory.tfidf": ("TfIdf",),
            "memory.transfer": ("export_memories", "import_memories"),
            "memory.vectorizing": ("reembed",),
            "memory.words": ("CONTEXT",),
            "memory.working": ("WorkingMemory",),
        },
    )

__all__ = [
    "CONTEXT",
    "AgentMemory",
    "CompressionPolicy",
    "ConsolidationPolicy",
    "EpisodicMemory",
    "FactsBy",
    "Finding",
    "Hit",
    "LocalMemoryStore",
    "LongTermMemory",
    "Maintenance",
    "MemoriesMerged",
    "MemoryAudit",
    "MemoryRecord",
    "MemoryStore",
    "MergePolicy",
    "MergeReport",
    "MergeRequest",
    "Note",
    "Query",
    "Recalled",
    "Remembering",
    "Score",
    "ScoringInputs",
    "SemanticMemory",
    "TfIdf",
    "WorkingMemory",
    "audit",
    "compression",
    "consolidation",
    "decayed",
    "everything_said",
    "export_memories",
    "find_same",
    "frequency",
    "half_life",
    "hybrid",
    "import_memories",
    "importance",
    "lowest",
    "memory_tools",
    "oldest",
    "open_memory",
    "product",
    "recency",
    "reembed",
    "retention",
    "similarity",
    "weighted",
]

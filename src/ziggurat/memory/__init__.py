"""Long-term storage of what agents remember: memory records, their scoring, eviction and stores.

- A memory: `record`. What is passed: `arguments`. What it is worth: `scoring`. Which one is evicted: `eviction`.
- Kinds of memory, each a `view` of one owner's records: `episodic`, `semantic`, `working`, `longterm`; all of them
  for one agent: `agent_memory`.
- Stores: `store` has the protocol, `connect` opens a store by its URL, `stores` has the implementations; they `search`
  by `words`, with stems by `stemming`, and `vectors`. A recall is `finding` what matters; `vectorizing` embeds texts;
  `calibrating` measures what an embedder makes of related and unrelated ones.
- Similarity of texts: `similar`, `tfidf`, `clusters`.
- Problems: `auditing` finds them. `consolidating` merges memories by subject, `compressing` the old and
  unimportant ones; both by `merging`, under a `lease`. `maintenance` does this in the background.
- Moving memories between stores: `transfer`.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.memory": ("FactsBy", "Note", "Remembering", "WorkingValues", "everything_said", "memory_tools"),
        "memory.agent_memory": ("AgentMemory",),
        "memory.auditing": ("Finding", "MemoryAudit", "audit"),
        "memory.calibrating": ("Bounds", "calibrate"),
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

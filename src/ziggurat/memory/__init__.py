"""Long-term storage of what agents remember: memory records, their scoring, eviction and stores."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.memory": ("FactsBy", "Note", "Remembering", "WorkingValues", "everything_said", "memory_tools"),
        "memory.agent_memory": ("AgentMemory",),
        "memory.calibrating": ("Bounds", "calibrate"),
        "memory.consolidating": ("CompressionPolicy", "ConsolidationPolicy", "compression", "consolidation"),
        "memory.kinds": ("EpisodicMemory", "SemanticMemory", "WorkingMemory"),
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
            "lowest",
            "oldest",
            "product",
            "recency",
            "retention",
            "similarity",
            "weighted",
        ),
        "memory.search": ("Recalled",),
        "memory.similar": ("TfIdf", "find_same"),
        "memory.store": ("Hit", "MemoryStore", "Query", "open_memory"),
        "memory.stores.local": ("LocalMemoryStore",),
        "memory.upkeep": ("Finding", "MemoryAudit", "audit", "export_memories", "import_memories"),
        "memory.vectorizing": ("reembed",),
        "memory.words": ("CONTEXT",),
    },
)

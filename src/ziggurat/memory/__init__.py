"""Long-term storage of what agents remember: memory records, their scoring, eviction and stores."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.memory import (
        FactsBy as FactsBy,
        Note as Note,
        Remembering as Remembering,
        everything_said as everything_said,
        memory_tools as memory_tools,
    )
    from ziggurat.memory.agent_memory import AgentMemory as AgentMemory
    from ziggurat.memory.consolidating import (
        CompressionPolicy as CompressionPolicy,
        ConsolidationPolicy as ConsolidationPolicy,
        compression as compression,
        consolidation as consolidation,
    )
    from ziggurat.memory.kinds import (
        EpisodicMemory as EpisodicMemory,
        LongTermMemory as LongTermMemory,
        SemanticMemory as SemanticMemory,
        WorkingMemory as WorkingMemory,
    )
    from ziggurat.memory.maintenance import Maintenance as Maintenance
    from ziggurat.memory.merging import MergeRequest as MergeRequest
    from ziggurat.memory.record import MemoryRecord as MemoryRecord
    from ziggurat.memory.scoring import (
        ScoringInputs as ScoringInputs,
        frequency as frequency,
        half_life as half_life,
        hybrid as hybrid,
        importance as importance,
        lowest as lowest,
        oldest as oldest,
        product as product,
        recency as recency,
        retention as retention,
        similarity as similarity,
        weighted as weighted,
    )
    from ziggurat.memory.search import Bounds as Bounds
    from ziggurat.memory.similar import TfIdf as TfIdf
    from ziggurat.memory.store import MemoryStore as MemoryStore, Query as Query, open_memory as open_memory
    from ziggurat.memory.upkeep import (
        audit as audit,
        export_memories as export_memories,
        import_memories as import_memories,
    )
    from ziggurat.memory.words import CONTEXT as CONTEXT
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)

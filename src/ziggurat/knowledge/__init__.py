"""Knowledge graphs: entities, relations between them, and algorithms on both."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.knowledge": ("graph_tools",),
        "knowledge.entities": ("Entity", "Relation"),
        "knowledge.graph": ("Direction", "KnowledgeGraph", "dot", "mermaid", "networkx_graph"),
        "knowledge.store": ("GraphStore",),
    },
)

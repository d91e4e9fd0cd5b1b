"""Knowledge graphs: entities, relations between them, and algorithms on both."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.knowledge import graph_tools
    from ziggurat.knowledge.entities import Entity, Relation
    from ziggurat.knowledge.export import dot, mermaid, networkx_graph
    from ziggurat.knowledge.graph import Direction, KnowledgeGraph
    from ziggurat.knowledge.store import GraphStore
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "agents.knowledge": ("graph_tools",),
            "knowledge.entities": ("Entity", "Relation"),
            "knowledge.export": ("dot", "mermaid", "networkx_graph"),
            "knowledge.graph": ("Direction", "KnowledgeGraph"),
            "knowledge.store": ("GraphStore",),
        },
    )

__all__ = [
    "Direction",
    "Entity",
    "GraphStore",
    "KnowledgeGraph",
    "Relation",
    "dot",
    "graph_tools",
    "mermaid",
    "networkx_graph",
]

"""Knowledge graphs: entities, relations between them, and algorithms on both."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.knowledge import graph_tools as graph_tools
    from ziggurat.knowledge.entities import (
        Entity as Entity,
        EntityNotFound as EntityNotFound,
        GraphError as GraphError,
        Relation as Relation,
    )
    from ziggurat.knowledge.graph import KnowledgeGraph as KnowledgeGraph
    from ziggurat.knowledge.store import GraphStore as GraphStore
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)

# Written by tests/test_names.py from __init__.py.
from ziggurat.agents.knowledge import graph_tools as graph_tools
from ziggurat.knowledge.entities import Entity as Entity
from ziggurat.knowledge.entities import Relation as Relation
from ziggurat.knowledge.graph import Direction as Direction
from ziggurat.knowledge.graph import KnowledgeGraph as KnowledgeGraph
from ziggurat.knowledge.graph import dot as dot
from ziggurat.knowledge.graph import mermaid as mermaid
from ziggurat.knowledge.graph import networkx_graph as networkx_graph
from ziggurat.knowledge.store import GraphStore as GraphStore

__all__: list[str]

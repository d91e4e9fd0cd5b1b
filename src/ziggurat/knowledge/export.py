"""Export of graphs to Graphviz, Mermaid and NetworkX."""

from collections.abc import Iterable
from typing import Any

import msgspec

from ziggurat.core.diagram import Diagram, DiagramEdge, DiagramNode
from ziggurat.core.errors import MissingExtra
from ziggurat.core.settings import checked
from ziggurat.knowledge.entities import Entity, Relation


@checked
def dot(entities: Iterable[Entity], relations: Iterable[Relation]) -> str:
    """Return a graph in the DOT language of Graphviz."""
    lines = ["digraph KnowledgeGraph {"]
    for each in entities:
        lines.append(f"  {_quote(each.id)} [label={_quote(each.title)}];")
    for one in relations:
        lines.append(f"  {_quote(one.source)} -> {_quote(one.target)} [label={_quote(_shown(one))}];")
    return "\n".join([*lines, "}"]) + "\n"


@checked
def mermaid(entities: Iterable[Entity], relations: Iterable[Relation]) -> str:
    """Return a graph as a Mermaid flowchart."""
    nodes = tuple(DiagramNode(each.id, each.title) for each in entities)
    edges = tuple(DiagramEdge(one.source, one.target, _shown(one)) for one in relations)
    return Diagram(nodes, edges, "LR").mermaid()


@checked
def networkx_graph(entities: Iterable[Entity], relations: Iterable[Relation]) -> Any:
    """Return a ``networkx.MultiDiGraph``; the fields of entities and relations become attributes."""
    try:
        import networkx
    except ImportError:
        raise MissingExtra("a graph of NetworkX", "knowledge") from None
    copy = networkx.MultiDiGraph()
    for each in entities:
        copy.add_node(each.id, **msgspec.structs.asdict(each))
    for one in relations:
        copy.add_edge(one.source, one.target, key=one.kind, **msgspec.structs.asdict(one))
    return copy


def _shown(relation: Relation) -> str:
    return f"{relation.kind} ({relation.weight:.2f})"


def _quote(text: str) -> str:
    """Quote a text for Graphviz, with its backslashes escaped."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{text}"'

"""Tools that let an agent query a knowledge graph and add to it."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from ziggurat.agents.memory.showing import taint_in
from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError, ToolErrorKind
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.knowledge.entities import Entity, EntityNotFound, GraphError, Relation
from ziggurat.knowledge.graph import Direction, KnowledgeGraph
from ziggurat.knowledge.store import GraphStore
from ziggurat.messages.message import ToolResult
from ziggurat.messages.model import GRAPH_ADDED, GRAPH_ORIGIN
from ziggurat.tools.function import FunctionTool, tool

T = TypeVar("T")


@checked
def graph_tools(
    graph: KnowledgeGraph | GraphStore, *, writes: bool = True, limit: PositiveInt = 20
) -> list[FunctionTool]:
    """Make the tools of a graph: `search_graph`, `graph_neighbors`, `graph_path`, `add_entity` and `add_relation`.

    The first three need the permission ``database_read``, the others, which are there if `writes`, ``database_write``.
    What a model adds has the origin ``"model"`` and the taint of all tool results it has read, graph results included.
    Results show the origin and taint of what they list, `limit` at most, and mark the run as having read from those
    tools. `AgentRun.graph_lookups` counts the look-ups.
    """
    own = _GraphTools(graph, limit)
    look_up = tool(effect="none", permissions=["database_read"])
    add = tool(effect="repeatable", permissions=["database_write"])
    reads: list[FunctionTool] = [look_up(own.search_graph), look_up(own.graph_neighbors), look_up(own.graph_path)]
    adds: list[FunctionTool] = [add(own.add_entity), add(own.add_relation)] if writes else []
    return reads + adds


class _GraphTools:
    def __init__(self, graph: KnowledgeGraph | GraphStore, limit: int) -> None:
        self._graph = graph
        self._limit = limit

    async def search_graph(self, text: str) -> ToolResult:
        """Find entities of the knowledge graph by a word in their label or properties.

        Args:
            text: A part of what to look for, such as "engineer".
        """
        return _found_result((await self._current()).search(text), self._limit)

    async def graph_neighbors(self, entity: str, direction: Direction = "both", kind: str | None = None) -> ToolResult:
        """List the relations of an entity of the knowledge graph.

        Args:
            entity: Its id, as search_graph tells it, or its label.
            direction: "out" for relations that go out from it, "in" for those that lead to it, or "both".
            kind: Only relations of this kind.
        """
        graph = await self._current()
        relations = _as_tool_error(lambda: graph.relations_of(graph.find(entity), direction=direction, kind=kind))
        return _found_result(relations, self._limit)

    async def graph_path(self, source: str, target: str, weighted: bool = False) -> ToolResult:
        """Find how one entity of the knowledge graph is connected with another.

        Args:
            source: The id or the label of the entity to begin with.
            target: The id or the label of the entity to arrive at.
            weighted: Whether the sum of weights is to be least, instead of the number of relations.
        """
        graph = await self._current()
        path = _as_tool_error(lambda: graph.shortest_path(graph.find(source), graph.find(target), weighted=weighted))
        if path is None:
            return _graph_result({"path": None}, [])
        hops = [_hop(graph, here, there) for here, there in pairwise(path)]
        return _graph_result({"path": path, "relations": [_to_plain(one) for one in hops]}, hops)

    async def add_entity(
        self,
        entity: str,
        label: str = "",
        kind: str = "",
        properties: dict[str, str | int | float | bool] | None = None,
        *,
        ctx: Context,
    ) -> ToolResult:
        """Add an entity to the knowledge graph; what is known of it already is kept where nothing new is said.

        Args:
            entity: Its id, a short name of its own, such as "alice".
            label: How people call it, such as "Alice".
            kind: What it is, such as "person".
            properties: What is known of it, such as {"role": "engineer"}.
        """
        await self._add(_as_tool_error(lambda: Entity(entity, label, kind, properties or {}, "model", taint_in(ctx))))
        return _added_result(entity)

    async def add_relation(self, source: str, target: str, kind: str, ctx: Context, weight: float = 1.0) -> ToolResult:
        """Add a relation from one entity of the knowledge graph to another, or replace the one of its kind.

        Args:
            source: The id of the entity that it goes out from.
            target: The id of the entity that it leads to.
            kind: What it says, such as "works_for".
            weight: Its weight, at least 0.
        """
        await self._add(_as_tool_error(lambda: Relation(source, target, kind, weight, {}, "model", taint_in(ctx))))
        return _added_result(f"{source} -{kind}-> {target}")

    async def _current(self) -> KnowledgeGraph:
        return self._graph if isinstance(self._graph, KnowledgeGraph) else await self._graph.graph()

    async def _add(self, thing: Entity | Relation) -> None:
        try:
            if isinstance(self._graph, GraphStore):
                await self._graph.update(thing)
            else:
                self._graph.update(thing)
        except EntityNotFound as error:
            raise ToolError(str(error), kind="not_found") from error


def _as_tool_error(work: Callable[[], T]) -> T:
    try:
        return work()
    except GraphError as error:
        kind: ToolErrorKind = "not_found" if isinstance(error, EntityNotFound) else "invalid_arguments"
        raise ToolError(str(error), kind=kind) from error


def _hop(graph: KnowledgeGraph, source: str, target: str) -> Relation:
    return min(
        (one for one in graph.relations_of(source) if one.target == target), key=lambda relation: relation.weight
    )


def _to_plain(thing: Entity | Relation) -> dict[str, Any]:
    if isinstance(thing, Entity):
        fields: dict[str, Any] = {"id": thing.id, "label": thing.title, "kind": thing.kind}
    else:
        fields = {"source": thing.source, "kind": thing.kind, "target": thing.target, "weight": thing.weight}
    more = {"properties": thing.properties, "origin": thing.origin, "taint": thing.taint}
    return fields | {name: value for name, value in more.items() if value and value != "user"}


def _found_result(things: Sequence[Entity | Relation], limit: int) -> ToolResult:
    first, more = things[:limit], len(things) - limit
    answer = {"found": [_to_plain(thing) for thing in first]}
    return _graph_result(answer | {"more": more} if more > 0 else answer, first)


def _graph_result(answer: object, things: Sequence[Entity | Relation]) -> ToolResult:
    taint = ",".join(sorted({each for thing in things for each in thing.taint}))
    return ToolResult("", "", encode(answer).decode(), None, f"{GRAPH_ORIGIN}:{taint}" if taint else GRAPH_ORIGIN)


def _added_result(what: str) -> ToolResult:
    return ToolResult("", "", f"added {what}", None, GRAPH_ADDED)

"""The knowledge graph of entities and relations, in memory.

Some of its algorithms are those of rustworkx, on a compiled form of the graph: numbers for entities, one edge per pair.
rustworkx follows the edge added last first, and counts parallel edges as several shortest paths. So the edges are added
in reverse order and once per pair: the relation declared first is followed first, and results depend only on what was
declared and in which order.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Set
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar, Literal, get_args

import msgspec

from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.core.settings import checked
from ziggurat.core.similar import similar
from ziggurat.knowledge.entities import Entity, EntityNotFound, GraphError, Relation
from ziggurat.messages.diagram import Diagram, DiagramEdge, DiagramNode

Direction = Literal["out", "in", "both"]
"""Which relations of an entity: outgoing, incoming, or both."""

_APART = "\0"
_NAMED = 5


class KnowledgeGraph:
    """A directed graph of entities with weighted relations of several kinds between them.

    ::

        graph = KnowledgeGraph([Entity("alice", "Alice"), Entity("bob", "Bob")])
        graph.add_relation(Relation("alice", "bob", "knows", 0.5))
        graph.shortest_path("alice", "bob")  # ["alice", "bob"]

    All results depend only on what was declared and in which order, so the same graph always gives the same results: of
    several possible ones, what was declared first comes first. A replaced entity or relation keeps its position. Not
    thread-safe.

    Raises:
        ConfigurationError: these are no entities or relations, or a setting of a method cannot be.
        EntityNotFound: of all methods: an entity does not exist; the message lists similar names.
        MissingExtra: of the algorithms, unless they say that they need no library, and of `to_networkx`: the extra
            ``knowledge`` is not installed.
    """

    @checked
    def __init__(self, entities: Iterable[Entity] = (), relations: Iterable[Relation] = ()) -> None:
        self._entities: dict[str, Entity] = {}
        self._texts: dict[str, str] = {}
        self._labels: dict[str, list[str]] | None = None  # the ids by label, once one was looked for
        self._out: dict[str, dict[str, dict[str, Relation]]] = {}
        self._into: dict[str, dict[str, dict[str, Relation]]] = {}
        self._degrees: dict[str, int] = {}
        self._compiled: _Compiled | None = None
        for entity in entities:
            self.add_entity(entity)
        for relation in relations:
            self.add_relation(relation)

    def __len__(self) -> int:
        return len(self._entities)

    def __contains__(self, name: object) -> bool:
        return name in self._entities

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnowledgeGraph):
            return NotImplemented
        return self._entities == other._entities and self._out == other._out

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"KnowledgeGraph({len(self)} entities, {len(self.relations)} relations)"

    # -- read --------------------------------------------------------------------------------------------------------

    @property
    def entities(self) -> list[Entity]:
        """All entities, in declared order."""
        return list(self._entities.values())

    @property
    def relations(self) -> list[Relation]:
        """All relations, by source in declared order."""
        return [one for targets in self._out.values() for kinds in targets.values() for one in kinds.values()]

    def entity(self, name: str) -> Entity:
        """Return an entity by its id."""
        try:
            return self._entities[name]
        except KeyError:
            raise unknown(name, self._entities) from None

    def relations_of(self, name: str, *, direction: Direction = "out", kind: str | None = None) -> list[Relation]:
        """Return the relations of an entity, of one kind if given; a relation to itself appears once."""
        self.entity(name)
        if direction not in get_args(Direction):
            raise ConfigurationError(f"direction= is 'out', 'in' or 'both', got {direction!r}")
        links = [one for kinds in self._out[name].values() for one in kinds.values()] if direction != "in" else []
        if direction != "out":
            sources = self._into[name].items()
            links += [one for source, kinds in sources if direction == "in" or source != name for one in kinds.values()]
        return links if kind is None else [one for one in links if one.kind == kind]

    def neighbors(self, name: str, *, direction: Direction = "out", kind: str | None = None) -> list[Entity]:
        """Return the entities connected to one by relations of a direction and, if given, of a kind; each once."""
        relations = self.relations_of(name, direction=direction, kind=kind)
        ends = dict.fromkeys(one.target if one.source == name else one.source for one in relations)
        return [self._entities[end] for end in ends]

    def search(self, text: str, *, limit: int | None = None) -> list[Entity]:
        """Return the entities of whose label and property values each word of a text is a part, ignoring case."""
        words = text.casefold().split()
        matches = [self._entities[name] for name, own in self._texts.items() if all(word in own for word in words)]
        return matches if limit is None else matches[:limit]

    def find(self, name: str) -> str:
        """Return the id of the entity with an id or, if there is none, with a label, ignoring case.

        Raises:
            GraphError: several have the label; the message names them.
        """
        if name in self._entities:
            return name
        if self._labels is None:
            self._labels = {}
            for entity in self._entities.values():
                self._labels.setdefault(_folded(entity.title), []).append(entity.id)
        ids = self._labels.get(_folded(name), [])
        if len(ids) == 1:
            return ids[0]
        if ids:
            several = ", ".join(map(repr, ids[:_NAMED]))
            raise GraphError(f"{len(ids)} entities have the label {name!r}: name one by its id: {several}")
        raise unknown(name, self._entities)

    # -- change ------------------------------------------------------------------------------------------------------

    def add_entity(self, entity: Entity, /) -> None:
        """Add an entity, or replace the one with its id; its relations stay."""
        name = entity.id
        self._labels = None
        if name not in self._entities:
            self._out[name], self._into[name], self._degrees[name] = {}, {}, 0
            self._compiled = None
        self._entities[name] = entity
        values = entity.properties.values()
        words = [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in values]
        self._texts[name] = _APART.join([entity.title, *words]).casefold()

    def add_relation(self, relation: Relation, /) -> None:
        """Add a relation, or replace the one of the same kind between the same two entities."""
        source, target = relation.source, relation.target
        for name in (source, target):
            if name not in self._entities:
                raise unknown(name, self._entities)
        kinds = self._out[source].get(target)
        if kinds is None:
            kinds = self._out[source][target] = self._into[target][source] = {}
        if relation.kind not in kinds:
            self._degrees[source] += 1
            self._degrees[target] += 1
        kinds[relation.kind] = relation
        self._compiled = None

    def remove_entity(self, name: str, /) -> bool:
        """Remove an entity with all its relations; return whether it existed."""
        if name not in self._entities:
            return False
        self._labels = None
        for target in list(self._out[name]):
            self.remove_relation(name, target)
        for source in list(self._into[name]):
            self.remove_relation(source, name)
        for each in (self._entities, self._texts, self._out, self._into, self._degrees):
            del each[name]
        self._compiled = None
        return True

    def remove_relation(self, source: str, target: str, kind: str | None = None) -> int:
        """Remove the relation of a kind from one entity to another, or all of them; return how many were removed."""
        kinds = self._out.get(source, {}).get(target, {})
        removed = [kind] if kind in kinds else list(kinds) if kind is None else []
        for each in removed:
            del kinds[each]
        if not removed:
            return 0
        self._degrees[source] -= len(removed)
        self._degrees[target] -= len(removed)
        if not kinds:
            del self._out[source][target], self._into[target][source]
        self._compiled = None
        return len(removed)

    def update(self, *things: Entity | Relation) -> None:
        """Add entities and relations, merging each with the existing one, as `Entity.updated` does."""
        for thing in things:
            if isinstance(thing, Entity):
                entity = self._entities.get(thing.id)
                self.add_entity(thing if entity is None else entity.updated(thing))
            else:
                relation = self._out.get(thing.source, {}).get(thing.target, {}).get(thing.kind)
                self.add_relation(thing if relation is None else relation.updated(thing))

    def merge(self, other: "KnowledgeGraph", /) -> None:
        """Add all entities and relations of another graph, as `update` does."""
        self.update(*other.entities, *other.relations)

    # -- analyse -----------------------------------------------------------------------------------------------------

    def bfs(self, start: str) -> list[str]:
        """Return the ids reachable from an entity, without its own, breadth first: the nearest first."""
        compiled = self._library(start)
        successors = compiled.rustworkx.bfs_successors(compiled.graph, compiled.numbers[start])
        names = dict.fromkeys(chain.from_iterable(map(itemgetter(1), successors)))  # rustworkx returns some twice
        names.pop(start, None)
        return list(names)

    def dfs(self, start: str) -> list[str]:
        """Return the ids reachable from an entity, without its own, depth first."""
        compiled = self._library(start)
        if compiled.turned is None:  # unlike its other searches, its depth-first search follows the edge added first
            compiled.turned = compiled.with_edges(compiled.graph.weighted_edge_list()[::-1])
        edges = compiled.rustworkx.digraph_dfs_edges(compiled.turned, compiled.numbers[start])
        return [compiled.ids[end] for _, end in edges]

    def shortest_path(self, source: str, target: str, *, weighted: bool = False) -> list[str] | None:
        """Return the ids along the shortest path, both ends included; None if there is none.

        Args:
            source: The id of the entity to start from; if it is the target too, the path is that id alone.
            target: The id of the entity to reach.
            weighted: Minimise the sum of weights (Dijkstra's algorithm) instead of the number of relations; of several
                relations between two entities the lightest counts. Of several paths with the same number of relations
                the one declared first is returned, of several with the same weight always the same one. An unweighted
                path needs no library.
        """
        self.entity(source)
        self.entity(target)
        if not weighted or source == target:
            return _fewest(self._out, source, target)
        compiled = self._library()
        there = compiled.numbers[target]
        paths = compiled.rustworkx.digraph_dijkstra_shortest_paths(
            compiled.graph, compiled.numbers[source], target=there, weight_fn=float
        )
        return compiled.to_ids(paths[there]) if there in paths else None

    def transitive_closure(self, start: str) -> Set[str]:
        """Return the ids reachable from an entity in any number of steps, and its own; in declared order."""
        compiled = self._library(start)
        numbers = compiled.rustworkx.descendants(compiled.graph, compiled.numbers[start])
        return dict.fromkeys(compiled.to_ids(sorted({*numbers, compiled.numbers[start]}))).keys()

    def degree_centrality(self) -> dict[str, float]:
        """Return for each id the number of its relations, in both directions, divided by the number of other entities.

        It may exceed 1, as two entities may have several relations. With one entity it is 0. It needs no library.
        """
        share = 1 / (len(self._entities) - 1) if len(self._entities) > 1 else 0.0
        return {name: degree * share for name, degree in self._degrees.items()}

    def betweenness_centrality(self) -> dict[str, float]:
        """Return for each id the share of the shortest paths between others that it lies on (Brandes' algorithm).

        Paths are measured by number of relations; several relations between the same two entities count once. The
        result is divided by (n-1)(n-2), the number of ordered pairs of others; with less than three entities all are 0.
        """
        compiled = self._library()
        if len(compiled.ids) < 3:
            return dict.fromkeys(compiled.ids, 0.0)
        shares = compiled.rustworkx.digraph_betweenness_centrality(compiled.graph, normalized=True)
        return dict(zip(compiled.to_ids(shares), shares.values(), strict=True))

    def communities(self, *, max_iterations: int = 100) -> list[list[str]]:
        """Return groups of ids that are more connected with each other than with the rest, by label propagation.

        Relations count in both directions. Of equally frequent labels the one declared first is taken, so the result is
        always the same. Each group, and the list of groups, is in declared order. It needs no library.
        """
        if max_iterations < 1:
            raise ConfigurationError(f"max_iterations= is at least 1, got {max_iterations!r}")
        return _propagate(self._out, self._into, max_iterations)

    def find_cycle(self) -> list[str] | None:
        """Return the ids along a cycle, the first repeated at the end; None if there is none. Always the same one."""
        compiled = self._library()
        edges = compiled.rustworkx.digraph_find_cycle(compiled.graph)
        return compiled.to_ids([edges[0][0], *(end for _, end in edges)]) if len(edges) else None

    def subgraph(self, root: str, depth: int) -> "KnowledgeGraph":
        """Return the entities reachable within `depth` outgoing relations of one, with all relations among them.

        It is empty if the entity does not exist. It needs no library.
        """
        front = [root] if root in self._entities else []
        reached = set(front)
        for _ in range(depth):
            front = list(dict.fromkeys(end for name in front for end in self._out[name] if end not in reached))
            reached.update(front)
            if not front:
                break
        relations = [
            one
            for name in self._entities
            if name in reached
            for target, kinds in self._out[name].items()
            if target in reached
            for one in kinds.values()
        ]
        return KnowledgeGraph((entity for name, entity in self._entities.items() if name in reached), relations)

    def _library(self, *names: str) -> "_Compiled":
        for name in names:
            self.entity(name)
        if self._compiled is None:
            self._compiled = _Compiled(self._out)
        return self._compiled

    # -- export ------------------------------------------------------------------------------------------------------

    def to_dot(self) -> str:
        """Return it in the DOT language of Graphviz."""
        nodes = [f"  {_quote(each.id)} [label={_quote(each.title)}];" for each in self._entities.values()]
        edges = [
            f"  {_quote(one.source)} -> {_quote(one.target)} [label={_quote(_shown(one))}];" for one in self.relations
        ]
        return "\n".join(["digraph KnowledgeGraph {", *nodes, *edges, "}"]) + "\n"

    def to_mermaid(self) -> str:
        """Return it as a Mermaid flowchart."""
        nodes = tuple(DiagramNode(each.id, each.title) for each in self._entities.values())
        edges = tuple(DiagramEdge(one.source, one.target, _shown(one)) for one in self.relations)
        return Diagram(nodes, edges, "LR").mermaid()

    def to_networkx(self) -> Any:
        """Return a ``networkx.MultiDiGraph`` with kinds as keys, and the fields of entities and relations."""
        try:
            import networkx
        except ImportError:
            raise MissingExtra("a graph of NetworkX", "knowledge") from None
        copy = networkx.MultiDiGraph()
        for each in self._entities.values():
            copy.add_node(each.id, **msgspec.structs.asdict(each))
        for one in self.relations:
            copy.add_edge(one.source, one.target, key=one.kind, **msgspec.structs.asdict(one))
        return copy


def _folded(label: str) -> str:
    return " ".join(label.casefold().split())


def unknown(name: str, names: Collection[str]) -> EntityNotFound:
    near = similar(name, names, 3)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "search for it, or add it with add_entity"
    return EntityNotFound(f"there is no entity {name!r}; {hint}")


def _shown(relation: Relation) -> str:
    return f"{relation.kind} ({relation.weight:.2f})"


def _quote(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{text}"'


# -- algorithms --------------------------------------------------------------------------------------------------------

_Targets = Mapping[str, Mapping[str, Relation]]
"""The entities at the other end of relations, each with its relations by kind; in declared order."""

_Links = Mapping[str, _Targets]
"""For each entity, those at the other end of its relations."""


class _Compiled:
    def __init__(self, outgoing: _Links) -> None:
        try:
            import rustworkx
        except ImportError:
            raise MissingExtra("an algorithm on a knowledge graph", "knowledge") from None
        self.rustworkx = rustworkx
        self.ids: list[str] = list(outgoing)
        numbers = {name: number for number, name in enumerate(self.ids)}
        self.numbers: dict[str, int] = numbers
        edges = [
            (numbers[source], numbers[target], min([one.weight for one in relations.values()]))
            for source, targets in outgoing.items()
            for target, relations in targets.items()
        ]
        self.graph = self.with_edges(edges[::-1])
        self.turned: Any = None

    def with_edges(self, edges: Iterable[tuple[int, int, float]]) -> Any:
        graph: Any = self.rustworkx.PyDiGraph()
        graph.add_nodes_from(self.ids)
        graph.add_edges_from(edges)
        return graph

    def to_ids(self, numbers: Iterable[int]) -> list[str]:
        return list(map(self.ids.__getitem__, numbers))


def _fewest(outgoing: _Links, source: str, target: str) -> list[str] | None:
    """Return the shortest path; of several, the one declared first at the first fork; None if there is none."""
    before: dict[str, str] = {source: ""}  # in the order of visits: the first to reach an entity is on its first path
    waiting = deque([source])
    while waiting and target not in before:
        name = waiting.popleft()
        for other in outgoing[name]:
            if other not in before:
                before[other] = name
                waiting.append(other)
    path = [target] if target in before else []
    while path and path[-1] != source:
        path.append(before[path[-1]])
    return path[::-1] or None


def _propagate(outgoing: _Links, incoming: _Links, rounds: int) -> list[list[str]]:
    ids = list(outgoing)
    numbers = {name: number for number, name in enumerate(ids)}
    near = [_near(outgoing[name], incoming[name], numbers) for name in ids]
    labels = list(range(len(ids)))
    for _ in range(rounds):
        changed = False
        for number, others in enumerate(near):
            if not others:
                continue
            votes: dict[int, int] = {}
            for other in others:
                label = labels[other]
                votes[label] = votes.get(label, 0) + 1
            most = max(votes.values())
            chosen = min([label for label, count in votes.items() if count == most])
            changed = changed or chosen != labels[number]
            labels[number] = chosen
        if not changed:
            break
    groups: dict[int, list[str]] = {}
    for name, label in zip(ids, labels, strict=True):
        groups.setdefault(label, []).append(name)
    return list(groups.values())


def _near(one: _Targets, other: _Targets, numbers: Mapping[str, int]) -> list[int]:
    return [numbers[name] for side in (one, other) for name, relations in side.items() for _ in relations]

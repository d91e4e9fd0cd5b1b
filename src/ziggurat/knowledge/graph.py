"""The graph of entities and relations."""

__all__ = ["Direction", "KnowledgeGraph", "unknown"]

from collections.abc import Collection, Iterable, Set
from difflib import get_close_matches
from typing import Any, Literal, get_args

import msgspec

from ziggurat.core.errors import ConfigurationError
from ziggurat.knowledge.algorithms import Compiled
from ziggurat.knowledge.communities import propagate
from ziggurat.knowledge.entities import Entity, Relation
from ziggurat.knowledge.export import dot, mermaid, networkx_graph
from ziggurat.knowledge.paths import fewest

Direction = Literal["out", "in", "both"]
"""Which relations of an entity: those that go out from it, those that lead to it, or both."""

_APART = "\0"


class KnowledgeGraph:
    """A directed graph of entities with weighted relations of several kinds between them.

    ::

        graph = KnowledgeGraph()
        graph.add_entity(Entity("alice", "Alice"))
        graph.add_entity(Entity("bob", "Bob"))
        graph.add_relation(Relation("alice", "bob", "knows", 0.5))
        graph.shortest_path("alice", "bob")  # ["alice", "bob"]

    Everything depends on what was declared and in which order, so the same graph gives the same answers always: where
    several would do, what was declared first comes first. What is replaced keeps its place. Not to be changed by
    several threads at once.

    Args:
        entities: What it begins with.
        relations: Between these.

    Raises:
        ConfigurationError: a relation has an end that is not there.
    """

    def __init__(self, entities: Iterable[Entity] = (), relations: Iterable[Relation] = ()) -> None:
        self._entities: dict[str, Entity] = {}
        self._texts: dict[str, str] = {}
        self._out: dict[str, dict[str, dict[str, Relation]]] = {}
        self._into: dict[str, dict[str, dict[str, Relation]]] = {}
        self._degrees: dict[str, int] = {}
        self._compiled: Compiled | None = None
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

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"KnowledgeGraph({self.entity_count} entities, {self.relation_count} relations)"

    # -- what is there -------------------------------------------------------------------------------------------

    @property
    def entities(self) -> list[Entity]:
        """All entities, in declared order."""
        return list(self._entities.values())

    @property
    def relations(self) -> list[Relation]:
        """All relations, by source in declared order."""
        return [one for targets in self._out.values() for kinds in targets.values() for one in kinds.values()]

    @property
    def entity_count(self) -> int:
        """How many entities there are."""
        return len(self._entities)

    @property
    def relation_count(self) -> int:
        """How many relations there are."""
        return sum(self._degrees.values()) // 2

    def entity(self, name: str) -> Entity:
        """Return an entity by its id.

        Raises:
            ConfigurationError: there is none; the message lists near names.
        """
        try:
            return self._entities[name]
        except KeyError:
            raise unknown(name, self._entities) from None

    def relations_of(self, name: str, *, direction: Direction = "out", kind: str | None = None) -> list[Relation]:
        """Return the relations of an entity, of one kind if given; one to itself stands once.

        Raises:
            ConfigurationError: there is no such entity, or no such direction.
        """
        self.entity(name)
        if direction not in get_args(Direction):
            raise ConfigurationError(f"direction= is 'out', 'in' or 'both', got {direction!r}")
        found = [one for kinds in self._out[name].values() for one in kinds.values()] if direction != "in" else []
        if direction != "out":
            sources = self._into[name].items()
            found += [one for source, kinds in sources if direction == "in" or source != name for one in kinds.values()]
        return found if kind is None else [one for one in found if one.kind == kind]

    def neighbors(self, name: str, *, direction: Direction = "out", kind: str | None = None) -> list[Entity]:
        """Return the entities next to one, each once.

        Args:
            name: The entity's id.
            direction: Along which relations; by default along those that go out from it.
            kind: Along relations of this kind only.

        Raises:
            ConfigurationError: there is no such entity, or no such direction.
        """
        found = self.relations_of(name, direction=direction, kind=kind)
        ends = dict.fromkeys(one.target if one.source == name else one.source for one in found)
        return [self._entities[end] for end in ends]

    def search(self, text: str, *, limit: int | None = None) -> list[Entity]:
        """Return entities whose label or one of whose properties' values holds a text, in any case.

        Args:
            text: What to look for.
            limit: How many at most; None for all.
        """
        asked = text.casefold()
        found = [self._entities[name] for name, held in self._texts.items() if asked in held]
        return found if limit is None else found[:limit]

    # -- what changes it -----------------------------------------------------------------------------------------

    def add_entity(self, entity: Entity, /) -> None:
        """Add an entity, or replace the one with its id; relations stay as they are."""
        name = entity.id
        if name not in self._entities:
            self._out[name], self._into[name], self._degrees[name] = {}, {}, 0
            self._compiled = None
        self._entities[name] = entity
        values = entity.properties.values()
        words = [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in values]
        self._texts[name] = _APART.join([entity.title, *words]).casefold()

    def add_relation(self, relation: Relation, /) -> None:
        """Add a relation, or replace the one of its kind between the same two.

        Raises:
            ConfigurationError: an entity at one of its ends is not there; the message lists near names.
        """
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
        """Remove an entity with all its relations; return whether it was there."""
        if name not in self._entities:
            return False
        for target in list(self._out[name]):
            self.remove_relation(name, target)
        for source in list(self._into[name]):
            self.remove_relation(source, name)
        for each in (self._entities, self._texts, self._out, self._into, self._degrees):
            del each[name]
        self._compiled = None
        return True

    def remove_relation(self, source: str, target: str, kind: str | None = None) -> int:
        """Remove the relation of a kind from one entity to another, or all of them; return how many there were."""
        kinds = self._out.get(source, {}).get(target, {})
        gone = [kind] if kind in kinds else list(kinds) if kind is None else []
        for each in gone:
            del kinds[each]
        if not gone:
            return 0
        self._degrees[source] -= len(gone)
        self._degrees[target] -= len(gone)
        if not kinds:
            del self._out[source][target], self._into[target][source]
        self._compiled = None
        return len(gone)

    def update(self, *things: Entity | Relation) -> None:
        """Add entities and relations; what is there is put together with what is new.

        See `Entity.updated` and `Relation.updated`.

        Raises:
            ConfigurationError: a relation has an end that is not there; the message lists near names.
        """
        for thing in things:
            if isinstance(thing, Entity):
                entity = self._entities.get(thing.id)
                self.add_entity(thing if entity is None else entity.updated(thing))
            else:
                relation = self._out.get(thing.source, {}).get(thing.target, {}).get(thing.kind)
                self.add_relation(thing if relation is None else relation.updated(thing))

    def merge(self, other: "KnowledgeGraph", /) -> None:
        """Take in all of another graph, as `update` does."""
        self.update(*other.entities, *other.relations)

    # -- what follows from it ------------------------------------------------------------------------------------

    def bfs(self, start: str) -> list[str]:
        """Return the ids of what is reached from an entity without it, breadth first: the nearest first.

        Raises:
            ConfigurationError: there is no such entity.
            MissingExtra: the extra ``knowledge`` is not installed; so of all below that say nothing else.
        """
        return self._library(start).bfs(start)

    def dfs(self, start: str) -> list[str]:
        """Return the ids of what is reached from an entity without it, depth first.

        Raises:
            ConfigurationError: there is no such entity.
        """
        return self._library(start).dfs(start)

    def shortest_path(self, source: str, target: str, *, weighted: bool = False) -> list[str] | None:
        """Return the ids along the shortest path, both ends included; None if there is none.

        Args:
            source: The id of the entity to begin with.
            target: The id of the entity to arrive at; at the same one the path is that one alone.
            weighted: Whether the sum of weights is to be least (Dijkstra's algorithm), instead of the number of
                relations; of several relations between two entities the lightest counts. Of several paths of the same
                number of relations the one declared first is taken, of several of the same weight always the same.
                Without it no library is needed.

        Raises:
            ConfigurationError: there is no such entity.
        """
        self.entity(source)
        self.entity(target)
        if weighted and source != target:
            return self._library(source).cheapest(source, target)
        return fewest(self._out, self._into, source, target)

    def transitive_closure(self, start: str) -> Set[str]:
        """Return the ids of all that is reached from an entity in any number of steps, and its own; in declared order.

        Raises:
            ConfigurationError: there is no such entity.
        """
        return self._library(start).reached(start)

    def degree_centrality(self) -> dict[str, float]:
        """Return for each id the number of its relations, in and out, by the number of other entities.

        It may exceed 1, as between two there may be several. All are 0 where there is one entity. No library is needed.
        """
        share = 1 / (len(self._entities) - 1) if len(self._entities) > 1 else 0.0
        return {name: degree * share for name, degree in self._degrees.items()}

    def betweenness_centrality(self) -> dict[str, float]:
        """Return for each id the share of the shortest paths between others that it lies on (Brandes' algorithm).

        By number of relations, of which several between the same two count once; divided by (n-1)(n-2), the number of
        ordered pairs of others, so that it is from 0 to 1. All are 0 where there are fewer than three. It takes the
        time of entities times relations.
        """
        return self._library().betweenness()

    def communities(self, *, max_iterations: int = 100) -> list[list[str]]:
        """Return groups of ids that have more to do with each other than with the rest, by label propagation.

        Relations count in both directions. Of several labels as frequent the one declared first is taken, so it is the
        same every time. Each group, and the list of groups, is in declared order. No library is needed.

        Args:
            max_iterations: After how many rounds it ends at the latest.

        Raises:
            ConfigurationError: `max_iterations` is not a positive number.
        """
        if max_iterations < 1:
            raise ConfigurationError(f"max_iterations= is at least 1, got {max_iterations!r}")
        return propagate(self._out, self._into, max_iterations)

    def has_cycle(self) -> bool:
        """Return whether an entity is reached from itself."""
        return not self._library().is_acyclic()

    def find_cycle(self) -> list[str] | None:
        """Return the ids along a cycle, the first again at the end; None if there is none. Always the same one."""
        return self._library().cycle()

    def subgraph(self, root: str, depth: int) -> "KnowledgeGraph":
        """Return the entities at most `depth` relations away from one, with all relations among them.

        Empty if there is no such entity. No library is needed.
        """
        front = [root] if root in self._entities else []
        reached = set(front)
        for _ in range(depth):
            front = list(dict.fromkeys(end for name in front for end in self._out[name] if end not in reached))
            reached.update(front)
            if not front:
                break
        made = KnowledgeGraph(entity for name, entity in self._entities.items() if name in reached)
        for name in made._entities:
            for target, kinds in self._out[name].items():
                if target in reached:
                    made._out[name][target] = made._into[target][name] = kinds.copy()
                    made._degrees[name] += len(kinds)
                    made._degrees[target] += len(kinds)
        return made

    def _library(self, *names: str) -> Compiled:
        for name in names:
            self.entity(name)
        if self._compiled is None:
            self._compiled = Compiled(self._out)
        return self._compiled

    # -- in other words ------------------------------------------------------------------------------------------

    def to_dot(self) -> str:
        """Write it for Graphviz."""
        return dot(self._entities.values(), self.relations)

    def to_mermaid(self) -> str:
        """Write it as a Mermaid flowchart."""
        return mermaid(self._entities.values(), self.relations)

    def to_networkx(self) -> Any:
        """Make a ``networkx.MultiDiGraph`` with its kinds as keys; the attributes are those of our nouns.

        Raises:
            MissingExtra: NetworkX is not installed.
        """
        return networkx_graph(self._entities.values(), self.relations)


def unknown(name: str, names: Collection[str]) -> ConfigurationError:
    """Return the error for an entity that is not there."""
    near = get_close_matches(name, names, n=3)
    told = f"did you mean {' or '.join(map(repr, near))}?" if near else "add it first with add_entity"
    return ConfigurationError(f"there is no entity {name!r}; {told}")

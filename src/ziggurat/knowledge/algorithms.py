"""Graph algorithms by rustworkx, on a compiled form of the graph: numbers for entities, one edge per pair.

rustworkx follows the edge added last first, and counts parallel edges as several shortest paths. The edges are
therefore added in reverse order and once per pair: the relation declared first is followed first, and results depend
only on what was declared and in which order.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Set
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

from ziggurat.core.errors import MissingExtra

if TYPE_CHECKING:
    from ziggurat.knowledge.entities import Relation

_Targets = Mapping[str, Mapping[str, "Relation"]]
"""The entities at the other end of relations, each with its relations by kind; in declared order."""

_Links = Mapping[str, _Targets]
"""For each entity, those at the other end of its relations."""


class Compiled:
    """The graph as a rustworkx structure; rebuilt only when the graph has changed."""

    __slots__ = ("_turned", "graph", "ids", "numbers")

    def __init__(self, outgoing: _Links) -> None:
        try:
            import rustworkx
        except ImportError:
            raise MissingExtra("an algorithm on a knowledge graph", "knowledge") from None
        self.ids: list[str] = list(outgoing)
        numbers = {name: number for number, name in enumerate(self.ids)}
        self.numbers: dict[str, int] = numbers
        edges = [
            (numbers[source], numbers[target], _cheapest(relations))
            for source, targets in outgoing.items()
            for target, relations in targets.items()
        ]
        edges.reverse()
        self.graph: rustworkx.PyDiGraph[str, float] = rustworkx.PyDiGraph[str, float]()
        self.graph.add_nodes_from(self.ids)
        self.graph.add_edges_from(edges)
        self._turned: rustworkx.PyDiGraph[str, float] | None = None

    def bfs(self, start: str) -> list[str]:
        """Return the entities reachable from one, nearest first."""
        import rustworkx

        successors = rustworkx.bfs_successors(self.graph, self.numbers[start])
        names = dict.fromkeys(chain.from_iterable(map(itemgetter(1), successors)))  # rustworkx returns some twice
        names.pop(start, None)
        return list(names)

    def dfs(self, start: str) -> list[str]:
        """Return the entities reachable from one, depth first."""
        import rustworkx

        if self._turned is None:  # unlike its other searches, its depth-first search follows the edge added first
            self._turned = rustworkx.PyDiGraph()
            self._turned.add_nodes_from(self.ids)
            self._turned.add_edges_from(self.graph.weighted_edge_list()[::-1])
        ids = self.ids
        return [ids[end] for _, end in rustworkx.digraph_dfs_edges(self._turned, self.numbers[start])]

    def reached(self, start: str) -> Set[str]:
        """Return the entities reachable in any number of steps, and the start, in declared order."""
        import rustworkx

        numbers = rustworkx.descendants(self.graph, self.numbers[start]) | {self.numbers[start]}
        return dict.fromkeys(self._to_ids(sorted(numbers))).keys()

    def cheapest(self, source: str, target: str) -> list[str] | None:
        """Return the path of least weight; None if there is none."""
        import rustworkx

        there = self.numbers[target]
        paths = rustworkx.digraph_dijkstra_shortest_paths(
            self.graph, self.numbers[source], target=there, weight_fn=float
        )
        return self._to_ids(paths[there]) if there in paths else None

    def betweenness(self) -> dict[str, float]:
        """Return for each entity the share of the shortest paths between others that it lies on."""
        import rustworkx

        if len(self.ids) < 3:
            return dict.fromkeys(self.ids, 0.0)
        shares = rustworkx.digraph_betweenness_centrality(self.graph, normalized=True)
        return dict(zip(self._to_ids(shares), shares.values(), strict=True))

    def is_acyclic(self) -> bool:
        """Return whether no entity can reach itself."""
        import rustworkx

        return rustworkx.is_directed_acyclic_graph(self.graph)

    def cycle(self) -> list[str] | None:
        """Return the entities along a cycle, the first repeated at the end; None if there is none."""
        import rustworkx

        edges = rustworkx.digraph_find_cycle(self.graph)
        return self._to_ids([edges[0][0], *(end for _, end in edges)]) if len(edges) else None

    def _to_ids(self, numbers: Iterable[int]) -> list[str]:
        return list(map(self.ids.__getitem__, numbers))


def _cheapest(relations: "Mapping[str, Relation]") -> float:
    if len(relations) == 1:
        for relation in relations.values():
            return relation.weight
    return min([relation.weight for relation in relations.values()])


def fewest(outgoing: _Links, source: str, target: str) -> list[str] | None:
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


def propagate(outgoing: _Links, incoming: _Links, rounds: int) -> list[list[str]]:
    """Return groups of entities that are more connected with each other than with the rest."""
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

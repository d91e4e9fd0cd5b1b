"""Graph algorithms by rustworkx, on a compiled form of the graph: numbers for entities, one edge per pair.

rustworkx follows the edge added last first, and counts parallel edges as several shortest paths. The edges are
therefore added in reverse order and once per pair: the relation declared first is followed first, and results depend
only on what was declared and in which order.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
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


class Reached(Set[str]):
    """A set of ids, stored as numbers and converted to ids only on access."""

    __slots__ = ("_found", "_ids", "_numbers")

    def __init__(self, members: set[int], ids: list[str], numbers: Mapping[str, int]) -> None:
        self._found = members
        self._ids = ids
        self._numbers = numbers

    @classmethod
    def _from_iterable(cls, names: Iterable[str]) -> Set[str]:  # type: ignore[override]
        return frozenset(names)  # the result of a set operation is an ordinary set

    def __contains__(self, name: object) -> bool:
        return self._numbers.get(name, -1) in self._found  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[str]:
        return map(self._ids.__getitem__, sorted(self._found))

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"Reached({list(self)!r})"


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

    def reached(self, start: str) -> "Reached":
        """Return the entities reachable in any number of steps, and the start."""
        import rustworkx

        numbers = rustworkx.descendants(self.graph, self.numbers[start])
        numbers.add(self.numbers[start])
        return Reached(numbers, self.ids, self.numbers)

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


def fewest(outgoing: _Links, incoming: _Links, source: str, target: str) -> list[str] | None:
    """Return the shortest path; of several, the one declared first at the first fork; None if there is none."""
    # searched from both ends, so that few entities are visited
    ahead, behind = {source: 0}, {target: 0}
    before, after = [source], [target]
    while before and after and before[-1] not in behind:
        if len(before) <= len(after):
            before = _next(outgoing, before, ahead)
            met = [name for name in before if name in behind]
        else:
            after = _next(incoming, after, behind)
            met = [name for name in after if name in ahead]
        if met:
            return _join(outgoing, incoming, source, ahead, behind, met)
    return [source] if source == target else None


def _next(near: _Links, front: list[str], seen: dict[str, int]) -> list[str]:
    """Return the entities one step further, and store their distance in `seen`."""
    far = seen[front[0]] + 1
    following: list[str] = []
    for name in front:
        for other in near[name]:
            if other not in seen:
                seen[other] = far
                following.append(other)
    return following


def _join(
    outgoing: _Links, incoming: _Links, source: str, ahead: Mapping[str, int], behind: Mapping[str, int], met: list[str]
) -> list[str]:
    """Walk from the source along the shortest paths, each time to the entity declared first."""
    good = set(met)
    layers = [good]
    for far in range(ahead[met[0]] - 1, 0, -1):
        good = {other for name in good for other in incoming[name] if ahead.get(other) == far}
        layers.append(good)
    path = [source]
    if ahead[met[0]]:
        for layer in reversed(layers):
            path.append(next(name for name in outgoing[path[-1]] if name in layer))
    for left in range(behind[path[-1]] - 1, -1, -1):
        path.append(next(name for name in outgoing[path[-1]] if behind.get(name) == left))
    return path


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

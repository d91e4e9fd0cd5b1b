"""A slow and simple graph to compare the real one with."""

from collections import deque
from itertools import pairwise, permutations

from hypothesis import strategies as st

from ziggurat.knowledge import Entity, KnowledgeGraph, Relation


class Naive:
    """Lists of ids and edges (source, target, kind, weight)."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.edges: list[tuple[str, str, str, float]] = []

    def add(self, source: str, target: str, kind: str, weight: float) -> None:
        for place, edge in enumerate(self.edges):
            if edge[:3] == (source, target, kind):
                self.edges[place] = (source, target, kind, weight)
                return
        self.edges.append((source, target, kind, weight))

    def remove(self, name: str) -> None:
        self.ids.remove(name)
        self.edges = [edge for edge in self.edges if name not in edge[:2]]

    def next(self, name: str) -> list[str]:
        return list(dict.fromkeys(edge[1] for edge in self.edges if edge[0] == name))

    def bfs(self, start: str) -> list[str]:
        seen, waiting = [start], deque([start])
        while waiting:
            for name in self.next(waiting.popleft()):
                if name not in seen:
                    seen.append(name)
                    waiting.append(name)
        return seen[1:]

    def dfs(self, start: str) -> list[str]:
        seen: list[str] = []

        def visit(name: str) -> None:
            seen.append(name)
            for other in self.next(name):
                if other not in seen:
                    visit(other)

        visit(start)
        return seen[1:]

    def paths(self, start: str, end: str) -> list[list[str]]:
        """All shortest paths, the first declared first."""
        found, waiting = list[list[str]](), [[start]]
        while waiting and not found:
            found = [path for path in waiting if path[-1] == end]
            waiting = [[*path, name] for path in waiting for name in self.next(path[-1]) if name not in path]
        return found

    def path(self, start: str, end: str) -> list[str] | None:
        found = self.paths(start, end)
        return found[0] if found else None

    def within(self, start: str, depth: int) -> set[str]:
        return {end for end in self.ids if (path := self.path(start, end)) is not None and len(path) <= depth + 1}

    def costs(self, start: str) -> dict[str, float]:
        """Return the cost of the cheapest path to each, by relaxing every edge repeatedly."""
        costs = {start: 0.0}
        for _ in self.ids:
            for source, target, _, weight in self.edges:
                if source in costs:
                    costs[target] = min(costs.get(target, float("inf")), costs[source] + weight)
        return costs

    def cost_of(self, path: list[str]) -> float:
        return sum(min(edge[3] for edge in self.edges if edge[:2] == (here, there)) for here, there in pairwise(path))

    def degree(self) -> dict[str, float]:
        others = len(self.ids) - 1
        counted = {name: sum((edge[0] == name) + (edge[1] == name) for edge in self.edges) for name in self.ids}
        return {name: count / others if others else 0.0 for name, count in counted.items()}

    def betweenness(self) -> dict[str, float]:
        shares = dict.fromkeys(self.ids, 0.0)
        for start, end in permutations(self.ids, 2):
            found = self.paths(start, end)
            for path in found:
                for name in path[1:-1]:
                    shares[name] += 1 / len(found)
        pairs = (len(self.ids) - 1) * (len(self.ids) - 2)
        return {name: share / pairs if pairs > 0 else 0.0 for name, share in shares.items()}

    def has_cycle(self) -> bool:
        return any(
            name in self.next(name) or any(name in self.next(each) for each in self.bfs(name)) for name in self.ids
        )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[KnowledgeGraph, Naive]:
    """A graph built by adding, replacing and removing, and the naive one built in the same way."""
    graph, naive = KnowledgeGraph(), Naive()
    names = [f"n{number}" for number in range(draw(st.integers(1, 7)))]
    draw_name = st.sampled_from(names)
    for name in draw(st.permutations(names)):
        graph.add_entity(Entity(name))
        naive.ids.append(name)
    for _ in range(draw(st.integers(0, 14))):
        source, target = draw(draw_name), draw(draw_name)
        kind, weight = draw(st.sampled_from(["knows", "likes"])), draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
        graph.add_relation(Relation(source, target, kind, weight))
        naive.add(source, target, kind, weight)
        if draw(st.integers(0, 9)) == 0:
            graph.bfs(source)
            again = draw(draw_name)
            assert graph.remove_entity(again)
            graph.add_entity(Entity(again))
            naive.remove(again)
            naive.ids.append(again)
    return graph, naive

"""The time of graph algorithms, compared with the library alone, and of betweenness compared with NetworkX.

    python -P benchmarks/knowledge.py [--entities 10000] [--relations 50000] [--pivots 100]

Milliseconds of CPU time, medians of rounds in which all alternate. "library" is the library's answer in its own node
numbers; "with names" is that answer converted to entity ids, as a user of the library alone would do it. NetworkX takes
minutes for betweenness: it uses only some entities as sources (`--pivots`, 0 for all), and its time is scaled.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import networkx
import rustworkx

from ziggurat.knowledge.entities import Entity, Relation
from ziggurat.knowledge.graph import KnowledgeGraph

ROUNDS = 25


def made(entities: int, relations: int) -> KnowledgeGraph:
    """Return a random graph, the same every time."""
    lots = random.Random(1)
    graph = KnowledgeGraph(Entity(f"e{number}", f"Entity {number}") for number in range(entities))
    kinds = ("knows", "likes", "works_for")
    made = set[tuple[str, str, str]]()
    while len(made) < relations:
        ends = f"e{lots.randrange(entities)}", f"e{lots.randrange(entities)}"
        kind = lots.choice(kinds)
        graph.add_relation(Relation(*ends, kind, lots.random()))
        made.add((*ends, kind))
    return graph


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds of CPU time that `work` takes."""
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1000


def row(name: str, ours: Callable[[], object], bare: Callable[[], object], named: Callable[[], object]) -> None:
    """Measure all three alternately, and print the medians."""
    times = [(timed(ours), timed(bare), timed(named)) for _ in range(ROUNDS)]
    a, b, c = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"{name:34}{a:10.3f}{b:10.3f}{c:12.3f}{a / b:10.2f}{a / c:10.2f}", flush=True)


def bare_graph(graph: KnowledgeGraph) -> "tuple[Any, dict[str, int]]":
    """Return the same graph as a user of the library alone would build it."""
    bare: Any = rustworkx.PyDiGraph(multigraph=False)
    numbers = {entity.id: bare.add_node(entity.id) for entity in graph.entities}
    bare.add_edges_from([(numbers[one.source], numbers[one.target], one.weight) for one in graph.relations])
    return bare, numbers


def again(graph: KnowledgeGraph) -> None:
    """Change the graph, so that the library's graph is built again."""
    graph.add_relation(graph.relations_of("e0", direction="both")[0])
    graph.find_cycle()


def rows(graph: KnowledgeGraph) -> None:
    """Print each algorithm compared with the library."""
    bare, numbers = bare_graph(graph)
    start, end = "e0", "e77"
    here, there = numbers[start], numbers[end]
    graph.bfs(start), graph.dfs(start)
    row(
        "bfs",
        lambda: graph.bfs(start),
        lambda: list(rustworkx.bfs_successors(bare, here)),
        lambda: dict.fromkeys(name for _, names in rustworkx.bfs_successors(bare, here) for name in names),
    )
    row(
        "dfs",
        lambda: graph.dfs(start),
        lambda: list(rustworkx.digraph_dfs_edges(bare, here)),
        lambda: [bare[number] for _, number in rustworkx.digraph_dfs_edges(bare, here)],
    )
    row(
        "transitive_closure",
        lambda: graph.transitive_closure(start),
        lambda: rustworkx.descendants(bare, here),
        lambda: {bare[number] for number in rustworkx.descendants(bare, here)},
    )

    def dijkstra(weight: Any) -> Any:
        return rustworkx.digraph_dijkstra_shortest_paths(bare, here, target=there, weight_fn=weight)[there]

    row(
        "shortest_path, by relations",
        lambda: graph.shortest_path(start, end),
        lambda: dijkstra(None),
        lambda: [bare[number] for number in dijkstra(None)],
    )
    row(
        "shortest_path, by weight",
        lambda: graph.shortest_path(start, end, weighted=True),
        lambda: dijkstra(float),
        lambda: [bare[number] for number in dijkstra(float)],
    )
    row(
        "degree_centrality",
        graph.degree_centrality,
        lambda: dict(rustworkx.digraph_degree_centrality(bare)),
        lambda: {bare[number]: value for number, value in rustworkx.digraph_degree_centrality(bare).items()},
    )
    row(
        "find_cycle",
        graph.find_cycle,
        lambda: list(rustworkx.digraph_find_cycle(bare)),
        lambda: [bare[number] for number, _ in rustworkx.digraph_find_cycle(bare)],
    )
    row("its structure, after a change", lambda: again(graph), lambda: bare_graph(graph), lambda: bare_graph(graph))
    nearby = {number for layer in rustworkx.digraph_bfs_layers(bare, [here])[:4] for number in layer}
    row(
        "subgraph, three relations deep",
        lambda: graph.subgraph(start, 3),
        lambda: rustworkx.digraph_bfs_layers(bare, [here]),
        lambda: [bare.subgraph(list(nearby)), rustworkx.digraph_bfs_layers(bare, [here])],
    )


def beside_networkx(graph: KnowledgeGraph, pivots: int) -> None:
    """Print communities and betweenness compared with NetworkX."""
    bare, _ = bare_graph(graph)
    other = graph.to_networkx()
    ours = timed(graph.communities)
    theirs = timed(lambda: list(networkx.community.asyn_lpa_communities(other, seed=1)))
    print(f"\ncommunities: {ours:.0f} ms; NetworkX, which draws lots: {theirs:.0f} ms")
    ours = timed(graph.betweenness_centrality)
    library = timed(lambda: rustworkx.digraph_betweenness_centrality(bare))
    count = min(pivots, len(graph)) or len(graph)
    simple = networkx.DiGraph(other)
    some = None if count == len(graph) else count
    sampled = timed(lambda: networkx.betweenness_centrality(simple, k=some, seed=1))
    scaled = sampled * len(graph) / count
    print(
        f"betweenness: {ours / 1000:.1f} s; library: {library / 1000:.1f} s ({ours / library:.2f}x); NetworkX: "
        f"{scaled / 1000:.0f} s ({sampled / 1000:.1f} s for {count} of {len(graph)} sources), {scaled / ours:.0f}x"
    )


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--relations", type=int, default=50_000)
    parser.add_argument("--pivots", type=int, default=100)
    options = parser.parse_args()
    graph = made(options.entities, options.relations)
    print(f"{graph}; rustworkx {version('rustworkx')}, NetworkX {version('networkx')}\n")
    print(f"{'':34}{'ours':>10}{'library':>10}{'with names':>12}{'x bare':>10}{'x named':>10}")
    rows(graph)
    beside_networkx(graph, options.pivots)


if __name__ == "__main__":
    main()

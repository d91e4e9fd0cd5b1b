"""Random graphs, a model of what they should do, and nodes that end in a random order."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import combinations, pairwise, product
from random import Random
from typing import Annotated, Any

from msgspec import Struct, field

from ziggurat.plans import Graph, append
from ziggurat.plans.graph_parts import Join


class Trail(Struct):
    """The state: what each node has noted, and a field of its own for some nodes."""

    notes: Annotated[list[str], append] = []
    last: str = ""


class Declared(Struct):
    """A graph before it is built.

    Attributes:
        joins: Of each node.
        edges: From node to node, always taken.
        routes: By node, where its route may lead, and whether it chooses one alone.
        loops: Nodes whose route leads back, by node, and how often it does.
        writers: Nodes that write the field without a reducer.
    """

    joins: list[Join]
    edges: list[tuple[int, int]] = []
    routes: dict[int, tuple[list[int], bool]] = field(default_factory=dict)
    loops: dict[int, tuple[int, int]] = field(default_factory=dict)
    writers: list[int] = []


def declared(random: Random, joins: Sequence[Join], *, loops: bool) -> Declared:
    """Return a random graph; it may be one that is refused."""
    size = random.randint(2, 8)
    graph = Declared([random.choice(joins) for _ in range(size)])
    for target in range(1, size):
        for source in sorted(random.sample(range(target), min(target, random.choice([1, 1, 1, 2, 3])))):
            graph.edges.append((source, target))
    for source in range(size):
        targets = [target for each, target in graph.edges if each == source]
        if len(targets) > 1 and random.random() < 0.4:
            graph.edges = [each for each in graph.edges if each[0] != source]
            graph.routes[source] = (targets, random.random() < 0.7)
        elif loops and source not in graph.routes and random.random() < 0.25:
            graph.loops[source] = (random.randint(0, source), random.randint(1, 3))
    if random.random() < 0.3:
        graph.writers = sorted(random.sample(range(size), min(size, 2)))
    return graph


def chosen(graph: Declared, source: int, seen: Sequence[str]) -> list[int]:
    """Return where the route of a node leads, by what it sees."""
    targets, single = graph.routes[source]
    chance = Random(f"{source} {len(seen)}")
    return [chance.choice(targets)] if single else [each for each in targets if chance.random() < 0.6]


def built(graph: Declared, pause: Callable[[], Coroutine[Any, Any, None]], calls: list[int], **options: Any) -> Any:
    """Build a graph whose nodes note their number and all that they see."""
    builder = Graph(Trail)
    for number, join in enumerate(graph.joins):
        _add(builder, graph, number, join, pause, calls)
    for source, target in graph.edges:
        builder.edge(f"n{source}", f"n{target}")
    for source in graph.routes | graph.loops:
        _add_route(builder, graph, source)
    return builder.build("graph", **options)


def _add(
    builder: Graph[Trail],
    graph: Declared,
    number: int,
    join: Join,
    pause: Callable[[], Coroutine[Any, Any, None]],
    calls: list[int],
) -> None:
    async def node(state: Trail) -> dict[str, Any]:
        calls.append(number)
        await pause()
        changes = {"notes": [f"{number}:{'.'.join(note.partition(':')[0] for note in state.notes)}"]}
        return {**changes, "last": f"{number}{state.last}"} if number in graph.writers else changes

    writes = ("notes", "last") if number in graph.writers else ("notes",)
    builder.node(node, name=f"n{number}", writes=writes, join=join, rounds=20)


def _add_route(builder: Graph[Trail], graph: Declared, source: int) -> None:
    back, times = graph.loops.get(source, (0, 0))
    after = [f"n{target}" for each, target in graph.edges if each == source]

    def choose(state: Trail) -> Any:
        if source in graph.routes:
            names = [f"n{each}" for each in chosen(graph, source, state.notes)]
            return names[0] if graph.routes[source][1] else names
        runs = sum(note.startswith(f"{source}:") for note in state.notes)
        return f"n{back}" if runs % (times + 1) else "end"

    if source in graph.routes:
        choose.__annotations__["return"] = str if graph.routes[source][1] else list[str]
        builder.route(f"n{source}", choose, [f"n{each}" for each in graph.routes[source][0]])
    elif not after:
        choose.__annotations__["return"] = str
        builder.route(f"n{source}", choose, [f"n{back}", "end"])


def pausing(random: Random) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a pause of a random number of turns of the event loop."""

    async def pause() -> None:
        for _ in range(random.randrange(12)):
            await asyncio.sleep(0)

    return pause


Choices = Callable[[int, int], list[int]]
"""Returns where the route of a node leads, if so many nodes have run before it."""


def by_chance(graph: Declared) -> Choices:
    """Return what the routes of a built graph choose."""
    return lambda source, seen: chosen(graph, source, [""] * (seen + 1))


def model_of(graph: Declared, choices: Choices) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """Return which nodes of a graph without loops run, each with those that it sees, and what is settled before each.

    One after the other, by hand.
    """
    before: dict[int, set[int]] = {}  # what was settled before each node, without it
    runs: dict[int, set[int]] = {}
    live: dict[tuple[int, int], bool] = {}
    entries: dict[int, list[int]] = {number: [] for number in range(len(graph.joins))}
    edges = [*graph.edges, *((source, each) for source, (targets, _) in graph.routes.items() for each in targets)]
    for source, target in edges:
        entries[target].append(source)
    for number, join in enumerate(graph.joins):
        sources = entries[number]
        before[number] = set().union(*(before[each] | {each} for each in sources))
        lives = [live[each, number] for each in sources]
        if not sources or (all(lives) if join == "all" else any(lives)):
            runs[number] = {each for each in before[number] if each in runs}
        routed = number in graph.routes and number in runs
        targets = choices(number, len(runs[number])) if routed else []
        for source, target in edges:
            if source == number:
                live[source, target] = number in runs and (source not in graph.routes or target in targets)
    return runs, before


def is_refused(graph: Declared) -> bool:
    """Return whether a graph without loops has a node that never runs, by trying all that its routes may choose."""
    ways = [
        [[each] for each in targets] if single else [list(each) for each in subsets(targets)]
        for targets, single in graph.routes.values()
    ]
    running: set[int] = set()
    for way in product(*ways):
        choices = dict(zip(graph.routes, way, strict=True))
        runs, _ = model_of(graph, lambda source, _, choices=choices: choices[source])  # type: ignore[misc]
        running.update(runs)
    return len(running) < len(graph.joins)


def writes_at_once(graph: Declared) -> bool:
    """Return whether two nodes of a run write the field without a reducer, neither of them after the other."""
    runs, before = model_of(graph, by_chance(graph))
    return any(one not in before[other] for one, other in pairwise(each for each in graph.writers if each in runs))


def subsets(targets: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all sets of some targets."""
    for size in range(len(targets) + 1):
        yield from combinations(targets, size)

"""A state and nodes for tests: each node notes its name, and the first letters of all notes that it sees."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal

from msgspec import Struct

from ziggurat.plans import Graph, append, merge

NodeFunction = Callable[["State"], Coroutine[Any, Any, list[str]]]


class State(Struct):
    topic: str = ""
    count: int = 0
    notes: Annotated[list[str], append] = []
    scores: Annotated[dict[str, int], merge] = {}


def noting(name: str, turns: int = 0, calls: list[str] | None = None) -> NodeFunction:
    """Return a node that ends after some turns of the event loop."""

    async def node(state: State) -> list[str]:
        if calls is not None:
            calls.append(name)
        for _ in range(turns):
            await asyncio.sleep(0)
        return [f"{name}({''.join(note[0] for note in state.notes)})"]

    return node


def add(
    graph: Graph[State], *names: str, turns: int = 0, join: Literal["all", "any", "settled"] = "all", rounds: int = 100
) -> None:
    """Add such nodes."""
    for name in names:
        graph.node(noting(name, turns), name=name, writes="notes", join=join, rounds=rounds)


def draw(graph: Graph[State], nodes: str, *edges: str, **routes: Any) -> Graph[State]:
    """Add nodes, edges such as ``a > b c > d``, and routes by their nodes; return the graph."""
    add(graph, *nodes.split())
    for edge in edges:
        ends = [tuple(each.split()) for each in edge.split(" > ")]
        graph.edge(*(each if len(each) > 1 else each[0] for each in ends))
    for name, route in routes.items():
        graph.route(name, *(route if isinstance(route, tuple) else (route,)))
    return graph


async def notes_of(graph: Graph[State], state: State | None = None) -> list[str]:
    """Run a graph, and return its notes."""
    run = await graph.build("graph").run(state or State())
    run.raise_for_stop()
    assert isinstance(run.output, State)
    assert type(run.output.notes) is list
    return run.output.notes

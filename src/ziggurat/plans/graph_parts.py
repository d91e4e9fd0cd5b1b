"""The parts of a graph as they were declared, and the points of its runs."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.scope import Key

START = "start"
"""Where a graph begins: ``graph.edge(START, "plan")``. Without such edges it begins at the node added first."""

END = "end"
"""Where a graph ends, as the target of an edge or a route. A node without edges ends there, too."""

Join = Literal["all", "any", "settled"]
"""When a node with several edges starts: when all of them were taken, when any of them was, or when each was taken,
passed over or has failed, and at least one was not passed over."""

NodeCall = Callable[[Any, Context], Coroutine[Any, Any, Any]]
"""Calls a node with a state of its own, and returns its changes: a mapping, or several of a map."""


class GraphNode(Struct, frozen=True, eq=False):
    index: int
    name: str
    call: NodeCall
    writes: frozenset[str] | None
    join: Join
    rounds: int
    items: bool = False


class Edge(Struct, frozen=True):
    source: str
    target: str
    chosen: bool = False


class GraphRoute(Struct, frozen=True, eq=False):
    """Chooses among the edges of a node."""

    choose: Callable[[Any], Any]
    targets: tuple[str, ...]
    single: bool | None


def plural(names: Iterable[str]) -> str:
    """Return names as a text: ``a, b and c``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


class GraphPoint(Struct, frozen=True):
    """A point of a run, at which a node has ended.

    Attributes:
        number: The number of the node in the order in which nodes were begun, from 1; a fork at ``number + 1`` goes on
            after it.
        node: The name of the node.
        path: Where it was called.
        changes: What it changed of the state; of a map, once for each item.
        to: The nodes that its route has chosen.
        state: The state after it, as the nodes that follow it see it.
    """

    number: int
    node: str
    path: str
    changes: tuple[dict[str, Any], ...]
    to: tuple[str, ...]
    state: Any


HISTORY: Key[list[GraphPoint]] = Key("history of a graph")
"""Takes the points of a graph, as it is run again from its record."""

"""The parts of a graph as they were declared: nodes, edges and routes, and how nodes are called."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal

from msgspec import Struct

from ziggurat.core.context import Context

START = "start"
"""Where a graph begins: ``graph.edge(START, "plan")``. Without such edges it begins at the node added first."""

END = "end"
"""Where a graph ends, as the target of an edge or a route. A node without edges ends there, too."""

Join = Literal["all", "any", "settled"]
"""When a node with several edges starts: when all of them were taken, when any of them was, or when each was taken,
passed over or has failed, and at least one was not passed over."""

NodeCall = Callable[[Any, Context], Coroutine[Any, Any, Any]]
"""Calls a node with a state of its own, and returns its changes: a mapping, or several of a map."""


class Node(Struct, frozen=True, eq=False):
    """A node of a graph."""

    index: int
    name: str
    call: NodeCall
    writes: frozenset[str] | None
    join: Join
    rounds: int
    items: bool = False


class Edge(Struct, frozen=True):
    """An edge from a node to another one."""

    source: str
    target: str
    chosen: bool = False


class Route(Struct, frozen=True, eq=False):
    """Chooses among the edges of a node."""

    choose: Callable[[Any], Any]
    targets: tuple[str, ...]
    single: bool | None


def plural(names: Iterable[str]) -> str:
    """Return names as a text: ``a, b and c``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last

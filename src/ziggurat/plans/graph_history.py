"""The history of a run of a graph, read from its record: its nodes in order, and the state after each."""

from typing import Any

from msgspec import Struct

from ziggurat.core.scope import Key


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

"""The history of a run of a graph, read from its record: its nodes in order, and the state after each."""

__all__ = ["HISTORY", "GraphPoint", "marks_of"]

from typing import Any

from msgspec import Struct

from ziggurat.core.diagram import Mark
from ziggurat.core.journal import LocalJournal
from ziggurat.core.path import is_beneath
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


def marks_of(journal: LocalJournal, graph: str) -> dict[str, Mark]:
    """Return how far each node of a graph has come in a run; those that have not begun are left out.

    Args:
        journal: The record of the run.
        graph: The path of the graph.
    """
    marks: dict[str, Mark] = {}
    for path in journal.paths():
        if path != graph and is_beneath(path, graph):
            place = path[len(graph) + 1 :].partition("/")[0]
            record = journal.find(f"{graph}/{place}")
            ended = record is not None and record.result is not None
            failed = record is not None and record.has_failed
            marks[place.partition("#")[0]] = "done" if ended else "failed" if failed else "running"
    for pending in journal.pending():
        if is_beneath(pending.path, graph):
            marks[pending.path[len(graph) + 1 :].partition("/")[0].partition("#")[0]] = "waiting"
    return marks

"""The data types of a graph: entities and the relations between them."""

from math import isfinite
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import CallerError


class GraphError(CallerError):
    """Raised for what a knowledge graph cannot hold: an entity or a relation that is malformed, an ambiguous label."""


class EntityNotFound(GraphError):
    """Raised when a graph has no entity with an id or a label; the message lists similar ones."""


Origin = Literal["user", "model", "tool", "runtime"]
"""Who said it."""


class Entity(Struct, frozen=True, omit_defaults=True):
    """A node of the graph, of a unique id: ``Entity("alice", "Alice", properties={"role": "engineer"})``.

    Attributes:
        label: The name to show; empty to show the id.
        kind: What it is, such as ``"person"``; empty if unknown.
        properties: Facts about it, which can be written as JSON.
        origin: Who said it.
        taint: The tools whose results it came from; it must be treated as data, as they are.
    """

    id: str
    label: str = ""
    kind: str = ""
    properties: dict[str, Any] = {}
    origin: Origin = "user"
    taint: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id:
            raise GraphError("the id of an entity is a non-empty string, such as 'alice'")

    def updated(self, newer: "Entity") -> "Entity":
        """Return it updated by a newer one, whose label and kind win unless empty; properties and taint are merged."""
        return replace(newer, label=newer.label or self.label, kind=newer.kind or self.kind, **_both(self, newer))

    @property
    def title(self) -> str:
        """The label, or the id if there is none."""
        return self.label or self.id


class Relation(Struct, frozen=True, omit_defaults=True):
    """A directed, weighted edge between two entities, of which there can be one of each kind in each direction.

    Attributes:
        source: The id of the entity where it starts.
        target: The id of the entity where it ends.
        kind: What it says, such as ``"knows"``; not empty.
        weight: Its cost or strength; `shortest_path` can minimise the sum. Finite and not negative.
        properties, origin, taint: As of an `Entity`.

    Raises:
        GraphError: the kind or the weight cannot be.
    """

    source: str
    target: str
    kind: str
    weight: float = 1.0
    properties: dict[str, Any] = {}
    origin: Origin = "user"
    taint: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.kind:
            raise GraphError(f"{self.source!r} -> {self.target!r}: a relation has a kind, such as 'knows'")
        if not isfinite(self.weight) or self.weight < 0:
            raise GraphError(
                f"{self.source!r} -{self.kind}-> {self.target!r}: the weight is finite and at least 0, "
                f"got {self.weight!r}"
            )

    def updated(self, newer: "Relation") -> "Relation":
        """Return it updated by a newer one, whose weight wins; properties and taint are merged."""
        return replace(newer, **_both(self, newer))


def _both(older: Entity | Relation, newer: Entity | Relation) -> dict[str, Any]:
    taint = tuple(dict.fromkeys((*older.taint, *newer.taint)))
    return {"properties": {**older.properties, **newer.properties}, "taint": taint}

"""The data of a graph: entities and the relations between them."""

__all__ = ["Entity", "Origin", "Relation"]

from math import isfinite
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError

Origin = Literal["user", "model", "tool", "runtime"]
"""Who said it."""


class Entity(Struct, frozen=True, omit_defaults=True):
    """Something that is known of, such as a person, a place or a file.

    ::

        Entity("alice", "Alice", properties={"role": "engineer"})

    Attributes:
        id: Unique in its graph.
        label: How people call it; the id where it has none.
        kind: What it is, such as ``"person"``; empty where nobody said.
        properties: What is known of it, with a JSON form.
        origin: Who said it.
        taint: The tools by which it came here, so that it is data as their results are.

    Raises:
        ConfigurationError: the id is empty.
    """

    id: str
    label: str = ""
    kind: str = ""
    properties: dict[str, Any] = {}
    origin: Origin = "user"
    taint: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id:
            raise ConfigurationError("the id of an entity is a non-empty string, such as 'alice'")

    def updated(self, newer: "Entity") -> "Entity":
        """Return it with what a newer one says: its label and kind if it has any, its properties; the taint of both."""
        return replace(newer, label=newer.label or self.label, kind=newer.kind or self.kind, **_both(self, newer))

    @property
    def title(self) -> str:
        """Its label, or its id where it has none."""
        return self.label or self.id


class Relation(Struct, frozen=True, omit_defaults=True):
    """A directed edge with a kind: what one entity has to do with another.

    Between two entities there may be one relation of each kind, in each direction.

    Attributes:
        source: The id of the entity that it goes out from.
        target: The id of the entity that it leads to.
        kind: What it says, such as ``"knows"``.
        weight: What it costs to follow it, or how strong it is: for the cheapest path, finite and not negative.
        properties: What is known of it, with a JSON form.
        origin: Who said it.
        taint: The tools by which it came here, so that it is data as their results are.

    Raises:
        ConfigurationError: the weight is negative, infinite or not a number, or the kind is empty.
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
            raise ConfigurationError(f"{self.source!r} -> {self.target!r}: a relation has a kind, such as 'knows'")
        if not isfinite(self.weight) or self.weight < 0:
            raise ConfigurationError(
                f"{self.source!r} -{self.kind}-> {self.target!r}: the weight is finite and at least 0, "
                f"got {self.weight!r}"
            )

    def updated(self, newer: "Relation") -> "Relation":
        """Return it with what a newer one says: its weight, its properties; the taint of both."""
        return replace(newer, **_both(self, newer))


def _both(older: Entity | Relation, newer: Entity | Relation) -> dict[str, Any]:
    """Return the fields that are put together of both."""
    taint = tuple(dict.fromkeys((*older.taint, *newer.taint)))
    return {"properties": {**older.properties, **newer.properties}, "taint": taint}

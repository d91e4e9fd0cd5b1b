"""Facts about the innermost thing stay reachable through any number of layers, without magic.

A service states facts in an attribute `facts`; a layer or wrapper keeps what it wraps in an attribute `inner`.
"""

__all__ = ["COMPOSITE", "NAME", "RETURNS", "Fact", "fact", "name_of"]

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Fact(Generic[T]):
    """One thing that can be asked of a service, with the answer where nothing is stated."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: T) -> None:
        self.name = name
        self.default = default

    def __repr__(self) -> str:
        return f"Fact({self.name!r})"


def fact(service: object, what: Fact[T]) -> T:
    """Ask `service`, then what it wraps, and so on inwards; the first statement counts."""
    seen: object | None = service
    while seen is not None:
        facts: Mapping[Fact[Any], Any] | None = getattr(seen, "facts", None)
        if facts is not None and what in facts:
            return facts[what]  # type: ignore[no-any-return]
        seen = getattr(seen, "inner", None)
    return what.default


NAME: Fact[str] = Fact("name", "")
"""What the service is called: in paths, journals and messages; unique in an application."""

COMPOSITE: Fact[bool] = Fact("composite", False)
"""Whether it is made of other calls (an agent, a team): then it is entered again on resume, never redone blindly."""

RETURNS: Fact[type] = Fact("returns", object)
"""The type of its responses, by which a recorded one is read."""


def name_of(service: object) -> str:
    """Return the service's name: as stated, else that of the innermost function or class."""
    stated = fact(service, NAME)
    if stated:
        return stated
    innermost = service
    while (inner := getattr(innermost, "inner", None)) is not None:
        innermost = inner
    return str(getattr(innermost, "__name__", None) or type(innermost).__name__)

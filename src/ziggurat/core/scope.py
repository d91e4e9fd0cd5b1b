"""What belongs to a whole run: an immutable map keyed by objects, so that core names no room's nouns."""

__all__ = ["Key", "Scope"]

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

from ziggurat.core.errors import ConfigurationError

T = TypeVar("T")


class Key(Generic[T]):
    """Names one thing in a scope and its type; compared by identity, so two rooms never clash.

    >>> DATABASE = Key[str]("database")
    >>> Scope().with_value(DATABASE, "x.db")[DATABASE]
    'x.db'
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


class Scope:
    """An immutable map from keys to values; a changed copy is made by `with_value`."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Key[object], object] | None = None) -> None:
        self._values: dict[Key[object], object] = dict(values) if values else {}

    def get(self, key: Key[T]) -> T | None:
        """Return what is kept under `key`, or None."""
        return cast("T | None", self._values.get(cast("Key[object]", key)))

    def __getitem__(self, key: Key[T]) -> T:
        """Return what is kept under `key`.

        Raises:
            ConfigurationError: nothing is; the text says how to give it.
        """
        value = self._values.get(cast("Key[object]", key))
        if value is None:
            given = ", ".join(sorted(known.name for known in self._values)) or "nothing"
            raise ConfigurationError(
                f"this run was not given {key.name!r} (it has: {given}); pass it with run(..., deps={{KEY: value}})"
            )
        return cast("T", value)

    def with_value(self, key: Key[T], value: T) -> "Scope":
        """Return a copy in which `key` has `value`."""
        copy = Scope.__new__(Scope)
        copy._values = {**self._values, cast("Key[object]", key): value}
        return copy

    def with_values(self, values: Mapping[Any, object]) -> "Scope":
        """Return a copy with all of `values`."""
        copy = Scope.__new__(Scope)
        copy._values = {**self._values, **values}
        return copy

    def __repr__(self) -> str:
        return f"Scope({', '.join(sorted(key.name for key in self._values))})"

"""The scope of a run: an immutable map with typed keys, so that core needs no names from other packages."""

__all__ = ["Key", "Scope"]

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from ziggurat.core.errors import ConfigurationError

T = TypeVar("T")


class Key(Generic[T]):
    """The typed key of one value in a scope; compared by identity, so keys of different modules never clash.

    >>> DATABASE = Key[str]("database")
    >>> Scope().with_value(DATABASE, "x.db")[DATABASE]
    'x.db'
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a key has a name, a string such as in Key[Database]('database'); got {name!r}")
        self.name = name

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


class Scope(dict[Key[Any], Any]):
    """An immutable map from keys to values; `with_value` makes a changed copy.

    It is a dict, because every call reads it several times and nothing is faster.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def get(self, key: Key[T], default: None = None, /) -> T | None:  # type: ignore[override]
            """Return the value of `key`, or None."""

        def __getitem__(self, key: Key[T], /) -> T: ...

    def __missing__(self, key: Key[Any]) -> Any:
        name = getattr(key, "name", key)
        alike = any(known.name == name for known in self)
        other = ", but another key of this name was: make a key once, and import it where it is used" if alike else ""
        raise ConfigurationError(f"this run was not given {name!r}; pass it with run(..., deps={{KEY: value}}){other}")

    def with_value(self, key: Key[T], value: T) -> "Scope":
        """Return a copy with `key` set to `value`."""
        copy = Scope(self)
        dict.__setitem__(copy, key, value)
        return copy

    def with_values(self, values: Mapping[Key[Any], Any]) -> "Scope":
        """Return a copy with all of `values`."""
        copy = Scope(self)
        dict.update(copy, values)
        return copy

    def _immutable(self, *_: object) -> NoReturn:
        raise TypeError("a scope cannot be changed; make a copy with with_value(KEY, value)")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _immutable

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __repr__(self) -> str:
        return f"Scope({', '.join(sorted(key.name for key in self))})"

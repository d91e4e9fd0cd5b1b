"""The scope of a run: an immutable map with typed keys, so that core needs no names from other packages."""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    NewType,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)

from msgspec import Meta

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.rules import ValueRule, rule_of

T = TypeVar("T")


class Key(Generic[T]):
    """The typed key of one value in a scope; compared by identity, so keys of different modules never clash.

    >>> DATABASE = Key[str]("database")
    >>> Scope().with_value(DATABASE, "x.db")[DATABASE]
    'x.db'

    A key that is made as ``Key[Database]("database")`` also checks the dependencies of a run when they are passed.
    """

    # Python's typing sets __orig_class__ on what a subscribed class makes; nothing else knows T at run time
    __slots__ = ("__orig_class__", "_rule", "name")

    __orig_class__: Any
    _rule: ValueRule

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a key has a name, a string such as in Key[Database]('database'); got {name!r}")
        self.name: str = name

    def bind(self, value: T) -> "dict[Key[Any], Any]":
        """Return a mapping with `value` under this key, to pass as `deps` with a type that is checked statically.

        >>> DATABASE, LIMIT = Key[str]("database"), Key[int]("limit")
        >>> DATABASE.bind("x.db") | LIMIT.bind(3)
        {Key('database'): 'x.db', Key('limit'): 3}
        """
        return {self: value}

    def check(self, value: object) -> None:
        """Check a value by the type of this key: its class, but not what a collection contains.

        Raises:
            ConfigurationError: it has another type; the message names the key and both types.
        """
        try:
            rule = self._rule
        except AttributeError:
            (kind,) = get_args(getattr(self, "__orig_class__", None)) or (Any,)
            rule = self._rule = rule_of(_without_items(kind), {})
        if not rule.allows(value):
            actual = "a class" if isinstance(value, type) else f"of type {type(value).__qualname__}"
            raise ConfigurationError(f"deps: the value of {self!r} is {rule.words}; got {value!r:.100}, {actual}")

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


def _without_items(kind: Any) -> Any:
    """Return a type without what its collections contain: a dependency may be large, and each run checks it."""
    origin: Any = get_origin(kind)
    if origin is Annotated:
        return _without_items(kind.__origin__)
    if origin is Union or origin is UnionType:
        return Union[tuple(map(_without_items, get_args(kind)))]  # noqa: UP007 - made at run time
    if isinstance(kind, NewType):
        return _without_items(kind.__supertype__)
    if kind is float:
        return Annotated[float, Meta(extra={"infinite": True})]
    if is_typeddict(kind):
        return dict
    return origin if isinstance(origin, type) and origin is not Callable else kind


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

    # where a map is changed; the type says that a call never returns
    __setitem__: Any = _immutable
    __delitem__: Any = _immutable
    __ior__: Any = _immutable
    update: Any = _immutable
    pop: Any = _immutable
    popitem: Any = _immutable
    clear: Any = _immutable
    setdefault: Any = _immutable

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __repr__(self) -> str:
        return f"Scope({', '.join(sorted(key.name for key in self))})"

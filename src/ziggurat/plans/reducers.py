"""Reducers: how a field of a graph's state takes up updates; `append` and `merge`, and lists that grow at no cost."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, NoReturn, TypeVar, get_args, get_origin, overload

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

Reducer = Callable[[Any, Any], Any]
"""Returns the new value of a field, made of its value and an update."""


def append(current: Sequence[T], update: Iterable[T]) -> Sequence[T]:
    """Add the items of an update to the end of a list: ``notes: Annotated[list[str], append] = []``.

    >>> append(["a"], ["b"]) == ["a", "b"]
    True
    """
    if type(current) is not Appended:  # isinstance is slow for a class that is a Sequence
        current = Appended(list(current))
    return current.extended(update)


def merge(current: Mapping[K, V], update: Mapping[K, V]) -> dict[K, V]:
    """Add the entries of an update to a dictionary; of the same key, the update's holds.

    >>> merge({"a": 1, "b": 1}, {"b": 2})
    {'a': 1, 'b': 2}
    """
    return {**current, **update}


def reducer_of(annotation: object) -> tuple[Any, Reducer | None]:
    """Return the type in the annotation of a field, and its reducer if it has one."""
    if get_origin(annotation) is not Annotated:
        return annotation, None
    kind, *others = get_args(annotation)
    reducers = [each for each in others if callable(each) and not isinstance(each, type)]
    remaining = tuple(each for each in others if each not in reducers)
    bare = Annotated[(kind, *remaining)] if remaining else kind
    return bare, (reducers[0] if reducers else None)


def fitting(kind: object) -> Reducer | None:
    """Return which of `append` and `merge` fits a type: the one for lists, the other for dictionaries."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    whole = get_origin(kind) or kind
    return append if whole in (list, Sequence) else merge if whole in (dict, Mapping) else None


class Appended(Sequence[T]):
    """A list as the nodes of a graph see it: it cannot be changed, and one that is longer shares its items."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[T], length: int | None = None) -> None:
        self._items = items  # shared: the first ones are this list's
        self._length = len(items) if length is None else length

    def extended(self, more: Iterable[T]) -> "Appended[T]":
        """Return this list with more items at its end; this one stays as it is."""
        if len(self._items) != self._length:  # another branch has added to it already
            return Appended([*self, *more])
        self._items.extend(more)
        return Appended(self._items)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        items, length = self._items, self._length
        if isinstance(at, slice):
            return [items[number] for number in range(*at.indices(length))]
        if not -length <= at < length:
            raise IndexError("list index out of range")
        return items[at + length if at < 0 else at]

    def __iter__(self) -> "islice[T]":
        return islice(self._items, self._length)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Appended, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    def __hash__(self) -> NoReturn:
        raise TypeError("a list has no hash")

    def __add__(self, other: Iterable[T]) -> list[T]:
        return [*self, *other]

    def __radd__(self, other: Iterable[T]) -> list[T]:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))

    def to_json(self) -> list[T]:
        """Return the items, for JSON."""
        return list(self)

    def append(self, _: object) -> NoReturn:
        """Refuse to change the state."""
        raise TypeError("a node does not change the state: return the new items as its update of this field")

    extend = append

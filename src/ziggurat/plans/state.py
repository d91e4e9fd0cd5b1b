"""StateType: the state of a graph, its fields and their reducers `append` and `merge`; it checks updates."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints, overload

import msgspec
from msgspec import Struct

from ziggurat.core import codec
from ziggurat.core.errors import ConfigurationError, JournalCorrupt
from ziggurat.core.tasks import is_awaited
from ziggurat.tools.parameter import Parameter, read_back

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
    if get_origin(annotation) is not Annotated:
        return annotation, None
    kind, *others = get_args(annotation)
    reducers = [each for each in others if callable(each) and not isinstance(each, type)]
    remaining = tuple(each for each in others if each not in reducers)
    bare = Annotated[(kind, *remaining)] if remaining else kind
    return bare, (reducers[0] if reducers else None)


def fitting(kind: object) -> Reducer | None:
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
        return list(self)

    def append(self, _: object) -> NoReturn:
        raise TypeError("a node does not change the state: return the new items as its update of this field")

    extend = append


Values = dict[str, Any]
"""The values of a state's fields, by name."""


class StateField(Struct, frozen=True, eq=False):
    name: str
    kind: Any
    reducer: Reducer | None
    parameter: Parameter
    whole: Parameter | None  # of what a reducer of the user returns

    @classmethod
    def of(cls, name: str, annotation: object) -> "StateField":
        kind, reducer = reducer_of(annotation)
        if is_awaited(reducer):
            raise ConfigurationError(f"the reducer of the field {name!r} is not awaited: make it a function, not async")
        if reducer in (append, merge) and fitting(kind) is not reducer:
            raise ConfigurationError(
                f"the field {name!r} has the reducer {reducer.__name__}, which is for "
                f"{'lists' if reducer is append else 'dictionaries'}, and the type {kind!r:.100}: change one of them; "
                "a reducer may be any function (value, update) -> value"
            )
        update = _update_type(kind, reducer)
        parameter = Parameter.of_result(f"the field {name!r}", update)
        if reducer is None or reducer in (append, merge):
            return cls(name, kind, reducer, parameter, None)
        whole = parameter if update is kind else Parameter.of_result(f"the field {name!r}", kind)
        return cls(name, kind, reducer, parameter, whole)

    def reduced(self, value: Any, update: Any) -> Any:
        if self.reducer is None:
            return update
        result = self.reducer(value, update)
        if self.whole is None:
            return result
        try:
            _converted(self.whole, result)
        except (TypeError, ValueError) as error:
            name = getattr(self.reducer, "__name__", repr(self.reducer))
            raise ConfigurationError(
                f"the reducer {name} of the field {self.name!r} returned {result!r:.200}, which does not fit: {error}"
            ) from error
        return result


def _update_type(kind: Any, reducer: Reducer | None) -> Any:
    if reducer is None or not hasattr(reducer, "__annotations__") or reducer.__module__ == append.__module__:
        return kind
    hints = [each for name, each in get_type_hints(reducer).items() if name != "return"]
    return hints[1] if len(hints) > 1 else kind


def _converted(parameter: Parameter, value: object) -> object:
    refusal: Exception | None = None
    if parameter.check is None:
        try:
            return codec.convert(value, parameter.wire, dec_hook=read_back)
        except msgspec.ValidationError as error:  # also of some instances, such as those of an Enum within a union
            refusal = error
    try:
        parameter.recorded(value)
    except ConfigurationError:
        if refusal is None:
            raise
        raise refusal from None
    return value


class StateType:
    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.name: str = getattr(kind, "__name__", "")
        self.make: Callable[..., Any] = kind
        hints = get_type_hints(kind, include_extras=True) if isinstance(kind, type) else {}
        if isinstance(kind, type) and issubclass(kind, Struct):
            names = list(kind.__struct_fields__)
        elif dataclasses.is_dataclass(kind):
            names = [each.name for each in dataclasses.fields(kind) if each.init]
        elif hasattr(kind, "model_fields") and hasattr(kind, "model_construct"):
            names, self.make = list(kind.model_fields), kind.model_construct
            hints = {name: _of_model(kind.model_fields[name], hints[name]) for name in names}
        else:
            raise ConfigurationError(
                f"the state of a graph is a class with typed fields (a Struct, a dataclass, a pydantic model), got "
                f"{kind!r:.200}"
            )
        self.fields: dict[str, StateField] = {name: StateField.of(name, hints[name]) for name in names}
        parameters = {name: each.parameter for name, each in self.fields.items()}
        self.converted: dict[str, Parameter] = {
            name: each for name, each in parameters.items() if not each.is_scalar
        }  # whose values are recorded in another form

    def values_of(self, state: object) -> Values:
        values = {name: getattr(state, name) for name in self.fields}
        for name, field in self.fields.items():
            if field.reducer is append:
                values[name] = Appended(list(values[name]))
        return values

    def state_of(self, values: Values) -> Any:
        return self.make(**values)

    def finished(self, values: Values) -> Any:
        return self.make(**{name: list(each) if isinstance(each, Appended) else each for name, each in values.items()})

    def apply_all(self, values: Values, updates: Iterable[Mapping[str, Any]]) -> Values:
        for update in updates:
            values = self.apply(values, update)
        return values

    def apply(self, values: Values, update: Mapping[str, Any]) -> Values:
        if not update:
            return values
        values = values.copy()
        for name, value in update.items():
            values[name] = self.fields[name].reduced(values[name], value)
        return values

    def checked(self, update: Mapping[str, Any], node: str, writes: frozenset[str] | None) -> Values:
        values: Values = {}
        for name, value in update.items():
            field = self.fields.get(name)
            if field is None or (writes is not None and name not in writes):
                raise ConfigurationError(self._unknown(name, node, writes))
            try:
                values[name] = _converted(field.parameter, value)
            except (TypeError, ValueError) as error:
                raise ConfigurationError(
                    f"the node {node} returned {value!r:.200} for the field {name!r} of {self.name}, which does not "
                    f"fit: {error}"
                ) from error
        return values

    def recorded(self, updates: tuple[Values, ...]) -> tuple[Values, ...]:
        if not self.converted:
            return updates
        forms = self.converted
        return tuple(
            {name: forms[name].recorded(value) if name in forms else value for name, value in each.items()}
            for each in updates
        )

    def restored(self, updates: Iterable[Values], path: str) -> tuple[Values, ...]:
        fields = self.fields
        try:
            return tuple(
                {name: fields[name].parameter.revive(value) for name, value in each.items()} for each in updates
            )
        except (KeyError, TypeError, ValueError) as error:
            raise JournalCorrupt(
                f"the update recorded at {path} does not fit {self.name} as it is now: {error!r}"
            ) from error

    def _unknown(self, name: object, node: str, writes: frozenset[str] | None) -> str:
        if name in self.fields:
            declared = ", ".join(map(repr, sorted(writes or ()))) or "nothing"
            return f"the node {node} returned the field {name!r}, but declares that it writes {declared}: add it there"
        known = ", ".join(self.fields)
        return f"the node {node} writes the field {name!r}, which {self.name} does not have; it has {known}"

    def advice(self, name: str) -> str:
        kind = self.fields[name].kind
        title = getattr(kind, "__name__", str(kind)) if not hasattr(kind, "__args__") else str(kind)
        reducer = fitting(kind)
        if reducer is None:
            return f"give it a reducer, a function (value, update) -> value: {name}: Annotated[{title}, function]"
        return f"give it a reducer, such as {name}: Annotated[{title}, {reducer.__name__}]"

    def require(self, name: object, node: str) -> None:
        if name not in self.fields:
            raise ConfigurationError(self._unknown(name, node, None))


def _of_model(field: Any, hint: object) -> object:
    """Return the annotation of a pydantic field, from which pydantic may have taken the reducer."""
    _, reducer = reducer_of(hint)
    return hint if reducer is not None else field.annotation

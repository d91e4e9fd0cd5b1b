"""Settings: their types and bounds are declared in annotations, and checked when an object is made.

::

    class Bulkhead:
        @checked
        def __init__(self, limit: PositiveInt, *, queue: NonNegativeInt = 1_000) -> None: ...

A value that does not fit raises `ConfigurationError`: "Bulkhead(limit=...) is a whole number of at least 1; got 0". The
bounds are those of `msgspec.Meta`. A boolean is no number here, and a number is finite. Of functions it is not checked
what they take and return.
"""

import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS, iscoroutinefunction
from types import CodeType
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, Unpack, cast, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct, StructMeta

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.rules import ANYTHING, ValueRule, misfit, rule_of

P = ParamSpec("P")
R = TypeVar("R")

PositiveInt = Annotated[int, Meta(ge=1)]
"""A whole number of at least 1."""

NonNegativeInt = Annotated[int, Meta(ge=0)]
"""A whole number of at least 0."""

PositiveFloat = Annotated[float, Meta(gt=0)]
"""A number above 0."""

NonNegativeFloat = Annotated[float, Meta(ge=0)]
"""A number of at least 0."""

Fraction = Annotated[float, Meta(ge=0, le=1)]
"""A number from 0 to 1."""

Share = Annotated[float, Meta(gt=0, le=1)]
"""A number above 0 and up to 1."""

Seconds = Annotated[float, Meta(gt=0, title="number of seconds")]
"""A time in seconds, above 0."""

NonNegativeSeconds = Annotated[float, Meta(ge=0, title="number of seconds")]
"""A time in seconds, which may be 0."""

SecondsOrForever = Annotated[float, Meta(ge=0, title="number of seconds", extra={"infinite": True})]
"""A time in seconds, which may be 0 or infinite."""

NonEmptyText = Annotated[str, Meta(min_length=1)]
"""A text that is not blank."""

SecretText = Annotated[str, Meta(extra={"secret": True})]
"""A text such as a key; of what is passed in its place, only the type is shown."""

Decorated = Annotated[Callable[..., Any] | None, Meta(title="function; a name is passed as name=...")]
"""The function below a decorator; None where the decorator is called with settings first."""

SHARED = Meta(description="made once and passed to all that share it")
"""For objects that several layers or agents share."""


class Settings:
    """The rules of settings, read when they are first checked: of parameters of functions, or fields of classes."""

    def __init__(self, names: Iterable[str], *owners: Any) -> None:
        self._names = tuple(names)
        self._owners = owners
        self._rules: dict[str, ValueRule] | None = None

    def check(self, where: str, values: Iterable[tuple[str, object]]) -> None:
        """Check pairs of a name and a value; those of other names are ignored."""
        rules = self._rules
        if rules is None:
            rules = self._rules = self._read()
        for name, value in values:
            rule = rules.get(name)
            if rule is not None and not rule.allows(value):
                parameter = name if name.startswith("*") else f"{name}=..."
                raise ConfigurationError(f"{where}({parameter}) is {rule.words}; got {misfit(value, rule)}")

    def _read(self) -> dict[str, ValueRule]:
        rules: dict[str, ValueRule] = {}
        for owner in self._owners:
            for each in reversed(owner.__mro__[:-1]) if isinstance(owner, type) else (owner,):
                space = vars(sys.modules[each.__module__]) if isinstance(each, type) else each.__globals__
                annotations: dict[str, object] = getattr(each, "__annotations__", {})
                declared = [name for name in self._names if name.lstrip("*") in annotations]
                rules |= {name: rule_of(annotations[name.lstrip("*")], space) for name in declared}
        return {name: rule for name, rule in rules.items() if rule is not ANYTHING}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a constructor, or of a function such as `run`, by their annotations; defaults are not.

    Those of ``**arguments: Unpack[...]`` are checked by the TypedDict that declares them.
    """
    code: CodeType = function.__code__
    names = code.co_varnames
    count, listed = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    positional = names[:count]
    rest = f"*{names[listed]}" if code.co_flags & CO_VARARGS else ""
    others = f"**{names[listed + bool(rest)]}" if code.co_flags & CO_VARKEYWORDS else ""
    unpacked = function.__annotations__.get(others[2:])
    declared = get_args(unpacked) if get_origin(unpacked) is Unpack else ()
    known = frozenset(names[:listed]).union(*(each.__annotations__ for each in declared))
    settings = Settings([*known, rest, others], *declared, function)
    constructs = function.__name__ == "__init__"

    def check(args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        where = type(args[0]).__name__ if constructs else function.__name__
        if len(args) > count and not rest and listed > count:
            leading = " and ".join(name for name in positional if name not in ("self", "cls")) or "nothing"
            by_name = ", ".join(names[count:listed])
            raise TypeError(f"{where}() takes {leading} by position; pass the others by name: {by_name}")
        settings.check(where, zip(positional, args, strict=False))
        if kwargs:
            if declared or not others:
                _refuse_unknown(where, kwargs, known, function.__annotations__)
            settings.check(where, kwargs.items())
            settings.check(where, ((others, kwargs[name]) for name in kwargs.keys() - known))
        if rest:
            settings.check(where, ((rest, value) for value in args[count:]))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        check(args, kwargs)
        return function(*args, **kwargs)

    @wraps(function)
    async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
        check(args, kwargs)
        return await cast("Callable[P, Awaitable[Any]]", function)(*args, **kwargs)

    return cast("Callable[P, R]", call_async) if iscoroutinefunction(function) else call


def _refuse_unknown(
    where: str, keywords: Iterable[str], known: Collection[str], annotations: Mapping[str, object]
) -> None:
    """Raise TypeError for the first keyword that is not known; the message names the one that was probably meant."""
    for name in keywords:
        if name not in known:
            from ziggurat.core.habits import meant_by

            takes = {*known} - {"self", "cls"}
            meant = meant_by(name, takes) or _place_of(name, annotations) or f"; it takes {', '.join(sorted(takes))}"
            raise TypeError(f"{where}() got an unexpected keyword argument {name!r}{meant}") from None


def _place_of(name: str, annotations: Mapping[str, object]) -> str:
    """Return the argument whose settings have such a field, as the end of an error's text; empty if there is none."""
    for argument, annotation in annotations.items():
        for each in (annotation, *get_args(annotation)):
            if isinstance(each, _CheckedMeta) and name in each.__struct_fields__:
                return f"; write {argument}={each.__name__}({name}=...)"
    return ""


_FIELDS: dict[type, tuple[Settings, tuple[tuple[str, object], ...]]] = {}


class _CheckedMeta(StructMeta):
    """Names the field that was probably meant by a misspelt one; msgspec names the misspelt one only."""

    if not TYPE_CHECKING:  # type checkers know the fields

        def __call__(self, *values, **fields):
            try:
                return super().__call__(*values, **fields)
            except TypeError:
                _refuse_unknown(self.__name__, fields, self.__struct_fields__, {})
                raise


class CheckedStruct(Struct, frozen=True, metaclass=_CheckedMeta):
    """A struct whose fields, but not defaults, are checked by their annotations when it is made.

    Raises:
        ConfigurationError: a field has a wrong value.
    """

    def __post_init__(self) -> None:
        kind = type(self)
        checks = _FIELDS.get(kind)
        if checks is None:
            names, defaults = kind.__struct_fields__, kind.__struct_defaults__
            padded = [NODEFAULT] * (len(names) - len(defaults)) + list(defaults)
            checks = _FIELDS[kind] = Settings(names, kind), tuple(zip(names, padded, strict=True))
        settings, fields = checks
        values = [(name, value) for name, default in fields if (value := getattr(self, name)) is not default]
        settings.check(kind.__name__, values)

"""Facts: typed metadata of a service, readable through any number of layers.

A service has its facts in an attribute `facts`; a layer or wrapper has the wrapped service in an attribute `inner`.
"""

from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.protocols import is_protocol
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.core.verb import without_await

T = TypeVar("T")


class Fact(Generic[T]):
    """The key of one fact, with the default for services that do not state it.

    Raises:
        ConfigurationError: the name is no text, or empty.
    """

    __slots__ = ("default", "name")

    @checked
    def __init__(self, name: NonEmptyText, default: T) -> None:
        self.name: str = name
        self.default: T = default

    def __repr__(self) -> str:
        return f"Fact({self.name!r})"


def fact(service: object, what: Fact[T]) -> T:
    """Return a fact of `service`: the first value found on it and on what it wraps, outermost first."""
    seen: object | None = service
    while seen is not None:
        facts = facts_of(seen)
        if what in facts:
            return facts[what]  # type: ignore[no-any-return]
        seen = wrapped_in(seen)
    return what.default


def facts_of(service: object) -> Mapping[Fact[Any], Any]:
    """Return the facts that a service states itself, not those of what it wraps."""
    return (service.facts if hasattr(service, "facts") else None) or {}  # as `protocols.StatesFacts` has them


def wrapped_in(service: object) -> object | None:
    """Return what a service wraps, as a layer does (`protocols.Wraps`); None if it wraps nothing."""
    return service.inner if hasattr(service, "inner") else None


NAME: Fact[str] = Fact("name", "")
"""The name of the service in paths, journals and messages; unique in an application."""

ALTERNATIVES: Fact[tuple[str, ...]] = Fact("alternatives", ())
"""The names of the services of which a combinator calls one or several; empty for all others."""

COMPOSITE: Fact[bool] = Fact("composite", False)
"""Whether it is made of other calls (an agent, a team): resume enters it again; its parts answer from the record."""

RETURNS: Fact[type] = Fact("returns", object)
"""The type of its responses, used to decode recorded ones."""


Effect = Literal["none", "repeatable", "once"]
"""The side effect of a call: none, one that may be repeated, or one that must happen only once."""

EFFECT: Fact[Effect] = Fact("effect", "none")
"""The side effect of a call: none, one that may be repeated under the same key, or one that must happen only once."""


def strongest(services: Iterable[object]) -> Effect:
    """Return the strongest effect among several services."""
    known: tuple[Effect, ...] = get_args(Effect)
    return max((fact(each, EFFECT) for each in services), key=known.index, default="none")


def innermost(service: object) -> object:
    """Return what is inside all layers of a service; itself if there are none."""
    while (inner := wrapped_in(service)) is not None:
        service = inner
    return service


def returns_of(service: object) -> type:
    """Return the type of the service's responses: as stated, else as its function is annotated, else ``object``."""
    stated = fact(service, RETURNS)
    if stated is not object:
        return stated
    function = innermost(service)
    function = function if hasattr(function, "__code__") else type(function).__call__
    try:
        annotated = get_type_hints(function).get("return", object)
    except (NameError, TypeError):  # a name known only to the type checker, or an object without annotations
        return object
    if get_origin(annotated) in (Awaitable, Coroutine):
        annotated = get_args(annotated)[-1]
    return object if annotated is Any or isinstance(annotated, TypeVar) else annotated


def returned_instead(service: object, kind: type) -> str:
    """Return the name of the type that a service answers with, if it cannot be `kind`; else an empty text."""
    returns = returns_of(service)
    if any(issubclass(each, kind) or issubclass(kind, each) for each in _classes_of(returns)):
        return ""
    return getattr(returns, "__name__", None) or str(returns)


@cache
def _classes_of(annotation: Any) -> tuple[type, ...]:
    """Return the classes whose instances may be values of an annotated type; ``object`` where that is not known."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _classes_of(get_args(annotation)[0])
    if annotation is Any or is_protocol(annotation):
        return (object,)
    if hasattr(annotation, "__get_pydantic_core_schema__") and not hasattr(annotation, "model_fields"):
        return (object,)  # such as AwareDatetime, whose values are of another class
    if isinstance(annotation, type) and origin is None:
        if is_typeddict(annotation):
            return (dict,)
        return (float, int) if annotation is float else (annotation,)
    if origin in (Union, UnionType):
        return tuple(each for part in get_args(annotation) for each in _classes_of(part))
    return _classes_of(origin) if isinstance(origin, type) else (object,)


_PLAIN = (dict, list, str, int, float, NoneType)
"""The types of answers that are read from a store as they were, also if it is not known what a service returns."""


def must_be(value: object, returns: type, name: str, ctx: Context, *, stored: bool = False) -> None:
    """Raise ConfigurationError unless the answer of a call has the type `returns`; of ``list[int]`` that is a list."""
    if type(value) is not returns and not isinstance(value, _classes_of(returns)):
        kind = getattr(returns, "__name__", None) or str(returns)
        why = without_await(value)
        got = type(value).__name__ + (why and f": {why}")
        raise ConfigurationError(f"{name} at {ctx.path} must return a {kind}, got a {got}")
    if stored and returns is object and not isinstance(value, _PLAIN):
        kind = type(value).__name__
        raise ConfigurationError(
            f"{name} at {ctx.path} returned a value of the type {kind}, which can be recorded only if it is known what "
            f"to read: annotate what {name} returns, -> {kind}"
        )


def name_of(service: object) -> str:
    """Return the service's name: as stated, else that of the innermost function or class."""
    stated = fact(service, NAME)
    if stated:
        return stated
    inside = innermost(service)
    return str(getattr(inside, "__name__", None) or type(inside).__name__)

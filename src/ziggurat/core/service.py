"""Services: their protocol, their facts, and layers around them, which keep their request and response types."""

import inspect
import typing
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from copy import copy
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import Settings, checked, is_protocol, is_typed_dict
from ziggurat.core.tasks import closed, is_awaited, without_await

Q = TypeVar("Q")
R = TypeVar("R")
Q_contra = TypeVar("Q_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
P = ParamSpec("P")


class Service(Protocol[Q_contra, R_co]):
    """The protocol of all services, an ``async def f(request, ctx)`` or an object with such a ``__call__``.

    A model, a tool, a step, an agent and a team of agents are services, so that a layer can wrap any of them. A service
    returns its whole response; progress is emitted as events, through ``ctx.emit``.
    """

    def __call__(self, request: Q_contra, ctx: Context, /) -> Coroutine[Any, Any, R_co]:
        """Return the response to `request`; the context has the path of this call, its listeners and its deadline."""
        ...


class _Checked(Generic[Q, R]):
    """A service made of what may turn out not to be async, such as a lambda; what it returns is looked at."""

    __slots__ = ("inner",)

    def __init__(self, inner: Service[Q, R]) -> None:
        self.inner: Service[Q, R] = inner

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        answer: object = self.inner(request, ctx)
        if not isinstance(answer, Awaitable):
            raise ConfigurationError(
                f"{ctx.path or 'root'}: {name_of(self.inner)} is called as a service, and returned a "
                f"{type(answer).__name__}, which cannot be awaited: write it as async def (request, ctx)"
            )
        return await answer  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return shown(self.inner)


def as_service(value: Service[Q, R]) -> Service[Q, R]:
    """Return a service; one that may turn out not to be async, such as a lambda, raises ConfigurationError then."""
    return value if hasattr(value, "inner") or is_awaited(value) else _Checked(value)


class Fact(Struct, Generic[T], frozen=True, eq=False):
    """The key of one fact, with the default for services that do not state it."""

    name: str
    default: T


def fact(service: object, what: Fact[T]) -> T:
    """Return a fact of `service`: the first value found on it and on what it wraps, outermost first."""
    seen: object | None = service
    while seen is not None:
        facts: Mapping[Fact[Any], T] | None = getattr(seen, "facts", None)
        if facts and what in facts:
            return facts[what]
        seen = getattr(seen, "inner", None)
    return what.default


NAME: Fact[str] = Fact("name", "")  # the name of the service in paths, journals and messages; unique in an application

ALTERNATIVES: Fact[tuple[str, ...]] = Fact("alternatives", ())
"""The names of the services of which a combinator calls one or several; empty for all others."""

COMPOSITE: Fact[bool] = Fact("composite", False)
"""Whether it is made of other calls (an agent, a team): resume enters it again; its parts answer from the record."""

RETURNS: Fact[type] = Fact("returns", object)  # the type of its responses, used to decode recorded ones


Effect = typing.Literal["none", "repeatable", "once"]
"""The side effect of a call: none, one that may be repeated, or one that must happen only once."""

EFFECT: Fact[Effect] = Fact("effect", "none")
"""The side effect of a call: none, one that may be repeated under the same key, or one that must happen only once."""


def strongest(services: Iterable[object]) -> Effect:
    known: tuple[Effect, ...] = typing.get_args(Effect)
    return max((fact(each, EFFECT) for each in services), key=known.index, default="none")


def innermost(service: object) -> object:
    """Return what is inside all layers of a service; itself if there are none."""
    while (inner := getattr(service, "inner", None)) is not None:
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
        annotated = typing.get_type_hints(function).get("return", object)
    except (NameError, TypeError):  # a name known only to the type checker, or an object without annotations
        return object
    if typing.get_origin(annotated) in (Awaitable, Coroutine):
        annotated = typing.get_args(annotated)[-1]
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
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _classes_of(typing.get_args(annotation)[0])
    if annotation is Any or is_protocol(annotation):
        return (object,)
    if hasattr(annotation, "__get_pydantic_core_schema__") and not hasattr(annotation, "model_fields"):
        return (object,)  # such as AwareDatetime, whose values are of another class
    if isinstance(annotation, type) and origin is None:
        if is_typed_dict(annotation):
            return (dict,)
        return (float, int) if annotation is float else (annotation,)
    if origin in (typing.Union, UnionType):
        return tuple(each for part in typing.get_args(annotation) for each in _classes_of(part))
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


class Layered(Generic[Q, R]):
    __slots__ = ("_body", "_title", "inner")

    def __init__(self, body: Callable[..., Coroutine[Any, Any, R]], title: str, inner: Service[Q, R]) -> None:
        self._body = body
        self._title = title
        self.inner: Service[Q, R] = inner

    def __call__(self, request: Q, ctx: Context, /) -> Coroutine[Any, Any, R]:
        return self._body(request, ctx, self.inner)

    def around(self, inner: Service[Q, R]) -> "Layered[Q, R]":
        return Layered(self._body, self._title, inner)

    def __repr__(self) -> str:
        return f"{self._title} > {shown(self.inner)}"


class Enclosed(Generic[Q, R]):
    """A service that a plain function made as a layer around `inner`, whose facts it has."""

    __slots__ = ("_layer", "_service", "inner")

    def __init__(
        self, layer: Callable[[Service[Q, R]], Service[Q, R]], service: Service[Q, R], inner: Service[Q, R]
    ) -> None:
        self._layer = layer
        self._service = service
        self.inner: Service[Q, R] = inner

    def __call__(self, request: Q, ctx: Context, /) -> Coroutine[Any, Any, R]:
        return self._service(request, ctx)

    def around(self, inner: Service[Q, R]) -> Service[Q, R]:
        return _around(self._layer, inner)

    def __repr__(self) -> str:
        return f"{shown(self._layer)} > {shown(self.inner)}"


def rewrapped(service: Service[Q, R], inner: Service[Q, R]) -> Service[Q, R] | None:
    """Return the outermost layer of a service around another one; None if its `inner` cannot be replaced."""
    if isinstance(service, (Layered, Enclosed)):
        return service.around(inner)
    layered = copy(service)
    try:
        layered.inner = inner  # type: ignore[attr-defined]
    except AttributeError:
        return None
    return layered


class _Configured:
    __slots__ = ("_body", "_title")

    def __init__(self, body: Callable[..., Coroutine[Any, Any, Any]], settings: dict[str, object]) -> None:
        self._body = partial(body, **settings)
        arguments = ", ".join(f"{name}={shown(value)}" for name, value in settings.items())
        self._title = f"{getattr(body, '__name__', 'layer')}({arguments})"

    def __call__(self, inner: Service[Any, Any], /) -> Layered[Any, Any]:
        if not callable(inner) or isinstance(inner, (_Configured, type)):
            raise ConfigurationError(
                f"{self._title} wraps a service, an async callable (request, ctx); got {shown(inner)}"
            )
        return Layered(self._body, self._title, as_service(inner))

    def __repr__(self) -> str:
        return self._title


def shown(value: object) -> str:
    """Return the name of a function or a class; other values as Python shows them."""
    name = getattr(value, "__name__", None) if callable(value) else None  # a coroutine has the name of its function
    return str(name or repr(value))


_Body = Callable[Concatenate[Q, Context, Service[Q, R], P], Awaitable[R]]
_Configure = Callable[P, Callable[[Service[Q, R]], Service[Q, R]]]


@overload
def layer(body: _Body[Q, R, P], /) -> _Configure[P, Q, R]: ...


@overload
def layer(*, check: Callable[..., None]) -> Callable[[_Body[Q, R, P]], _Configure[P, Q, R]]: ...


@checked
def layer(body: Any = None, /, *, check: Callable[..., None] | None = None) -> Any:
    """Make a layer from one flat async function.

    Its third argument is the wrapped service, named after its kind; settings are keyword-only, and their annotations
    say what is allowed (such as `core.PositiveInt`, or bounds of ``msgspec.Meta``)::

        @layer
        async def polite(request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse],
                         *, word: NonEmptyText = "please") -> ModelResponse:
            return await model(request, ctx)

        stack(model, polite(word="kindly"))

    Await the wrapped service in one place. Pass ``ctx.again()`` to make the same call again, ``await ctx.drop(error)``
    after it failed, and a child from ``ctx.under("alt-1")`` to ask for another answer.

    Args:
        check: Called with all settings as keywords when the layer is made, for what annotations cannot say, such as how
            settings relate to each other; must raise for wrong values.

    Raises:
        ConfigurationError: the function does not have this form.
    """
    if body is None:
        return lambda body: _layer(body, check)
    return _layer(body, check)


def _layer(
    body: Callable[..., Coroutine[Any, Any, Any]], check: Callable[..., None] | None
) -> Callable[..., _Configured]:
    code = getattr(body, "__code__", None)
    if code is None or code.co_argcount != 3 or code.co_flags & 0x04:
        raise ConfigurationError(
            f"a layer is a function (request, ctx, inner, *, settings...); {name_of(body)!r} is not: "
            "it takes exactly three positional arguments, all settings are keyword-only"
        )
    if not inspect.iscoroutinefunction(body):
        raise ConfigurationError(f"a layer awaits what it wraps: write async def {name_of(body)}(...), not def")
    names = code.co_varnames[3 : 3 + code.co_kwonlyargcount]
    defaults: dict[str, object] = getattr(body, "__kwdefaults__", None) or {}
    needed = [name for name in names if name not in defaults]
    declared = Settings(names, body)

    def configure(*args: object, **settings: object) -> _Configured:
        title = name_of(body)
        if args:
            raise ConfigurationError(
                f"{title} is a layer that is not called yet: pass {title}(...) with its settings, as in "
                f"stack(service, {title}(...)); it takes the keywords {', '.join(names) or 'none'}"
            )
        unknown = [name for name in settings if name not in names]
        missing = [name for name in needed if name not in settings]
        if unknown or missing:
            problem = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
            raise ConfigurationError(f"{title}() takes the keywords {', '.join(names) or 'none'}; {problem}")
        declared.check(title, settings.items())
        if check is not None:
            check(**{**defaults, **settings})
        return _Configured(body, settings)

    configure.__name__ = configure.__qualname__ = name_of(body)
    configure.__doc__ = body.__doc__
    configure.__module__ = body.__module__
    # What `help` shows: the settings of the function, with their types and defaults.
    parameters = inspect.signature(body, follow_wrapped=False).parameters
    configure.__signature__ = inspect.Signature([parameters[name] for name in names])  # type: ignore[attr-defined]
    configure.__annotations__ = {name: body.__annotations__[name] for name in names if name in body.__annotations__}
    return configure


def stack(service: Service[Q, R], *layers: Callable[[Service[Q, R]], Service[Q, R]]) -> Service[Q, R]:
    """Put layers around a service; the first listed meets the request first.

    ``stack(model, retry(attempts=3), timeout(seconds=30))`` gives every try 30 seconds; in the other order all
    tries together have 30. ``print`` shows the stack in this order. Recommended, outermost first:

    1. cache, then dedupe: an answered request, or one in progress, costs nothing further in;
    2. a timeout for everything: it limits tries, waits and queues together;
    3. backpressure: a refused call has cost nothing and is not retried here;
    4. retry: every try passes the layers below again;
    5. circuit breaker: it counts every try, and while it is open the service is not called;
    6. a timeout for each try: the breaker counts a late try as a failure;
    7. concurrency limit: a pause between tries holds no slot, and the timeout limits the wait for one;
    8. rate limit: only calls that are really made count.

    A tap goes where you want to observe: outside a retry it sees calls, inside it sees tries. fallback, hedge and
    steer take services that are stacked already.

    Raises:
        ConfigurationError: the first argument is not a service, or another one is not a layer.
    """
    if not callable(service) or isinstance(service, (_Configured, type)):
        raise ConfigurationError(f"stack() needs a service first{_describe_first(service)}")
    service = as_service(service)
    for each in reversed(layers):
        wrapped = hasattr(each, "inner") and not isinstance(each, type)
        if wrapped or not callable(each) or inspect.iscoroutinefunction(each):
            raise ConfigurationError(f"stack() needs layers after the service, such as retry(attempts=3); got {each!r}")
        service = _around(each, service)
    return service


def _around(each: Callable[[Service[Q, R]], Service[Q, R]], service: Service[Q, R]) -> Service[Q, R]:
    try:
        outcome: object = each(service)
    except TypeError as error:
        raise ConfigurationError(
            f"stack() needs layers after the service, such as retry(attempts=3); {shown(each)} is called with the "
            f"service alone, and failed: {error}"
        ) from error
    if not callable(outcome) or isinstance(outcome, type):
        raise ConfigurationError(f"a layer returns a service; {shown(each)} returned {shown(closed(outcome))}")
    if outcome is service or hasattr(outcome, "inner") or hasattr(outcome, "facts"):
        return outcome
    return Enclosed(each, as_service(outcome), service)


def _describe_first(value: object) -> str:
    if isinstance(value, str):
        return f", got the string {value!r}; ziggurat.providers.resolve({value!r}) returns the model of that name"
    if isinstance(value, type):
        return f", got the class {value.__name__}; make an object of it"
    return f", got {shown(value)}"

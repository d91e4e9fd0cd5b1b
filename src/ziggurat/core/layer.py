"""Layers: functions that wrap a service and keep its request and response types."""

from collections.abc import Awaitable, Callable, Coroutine
from copy import copy
from functools import partial
from inspect import Parameter, Signature
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.facts import name_of
from ziggurat.core.protocols import closed
from ziggurat.core.service import Service, as_service
from ziggurat.core.settings import Settings, checked

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")


class Layer(Protocol[Q, R]):
    """The protocol of layers: the wrapped service takes the same requests and returns the same responses."""

    def __call__(self, inner: Service[Q, R], /) -> Service[Q, R]:
        """Return `inner`, wrapped."""
        ...


class Layered(Generic[Q, R]):
    """A service with one layer around it; `inner` is the wrapped service."""

    __slots__ = ("_body", "_title", "inner")

    def __init__(self, body: Callable[..., Coroutine[Any, Any, R]], title: str, inner: Service[Q, R]) -> None:
        self._body = body
        self._title = title
        self.inner: Service[Q, R] = inner

    def __call__(self, request: Q, ctx: Context, /) -> Coroutine[Any, Any, R]:
        """Send the request through the layer."""
        return self._body(request, ctx, self.inner)

    def around(self, inner: Service[Q, R]) -> "Layered[Q, R]":
        """Return the same layer around another service."""
        return Layered(self._body, self._title, inner)

    def __repr__(self) -> str:
        return f"{self._title} > {_describe(self.inner)}"


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
        """Send the request through the layer."""
        return self._service(request, ctx)

    def around(self, inner: Service[Q, R]) -> Service[Q, R]:
        """Return the same layer around another service."""
        return _around(self._layer, inner)

    def __repr__(self) -> str:
        return f"{_describe(self._layer)} > {_describe(self.inner)}"


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
        arguments = ", ".join(f"{name}={_describe(value)}" for name, value in settings.items())
        self._title = f"{getattr(body, '__name__', 'layer')}({arguments})"

    def __call__(self, inner: Service[Any, Any], /) -> Layered[Any, Any]:
        if not callable(inner) or isinstance(inner, (_Configured, type)):
            raise ConfigurationError(
                f"{self._title} wraps a service, an async callable (request, ctx); got {_describe(inner)}"
            )
        return Layered(self._body, self._title, as_service(inner))

    def __repr__(self) -> str:
        return self._title


def _describe(value: object) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return repr(value)


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
    say what is allowed (`core.settings`)::

        @layer
        async def polite(request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse],
                         *, word: NonEmptyText = "please") -> ModelResponse:
            return await model(request, ctx)

        stack(model, polite(word="kindly"))

    Await the wrapped service in one place. Pass ``ctx.again()`` to make the same call again, ``await ctx.drop(error)``
    after it failed, and a child from ``ctx.under("alt-1")`` to ask for another answer.

    Args:
        body: The function.
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
    if not _is_coroutine_function(body):
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
    return _signed(configure, body, names, defaults)


def _signed(
    configure: Callable[..., _Configured],
    body: Callable[..., Coroutine[Any, Any, Any]],
    names: tuple[str, ...],
    defaults: dict[str, object],
) -> Callable[..., _Configured]:
    """Give a layer the signature that `help` shows: the settings of its function, with their types and defaults."""
    types = body.__annotations__
    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=defaults.get(name, Parameter.empty),
            annotation=types.get(name, Parameter.empty),
        )
        for name in names
    ]
    configure.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    configure.__annotations__ = {name: types[name] for name in names if name in types}
    return configure


def _is_coroutine_function(value: object) -> bool:
    code = getattr(value, "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)


def stack(service: Service[Q, R], *layers: Callable[[Service[Q, R]], Service[Q, R]]) -> Service[Q, R]:
    """Put layers around a service; the first listed meets the request first.

    ``stack(model, retry(attempts=3), timeout(seconds=30))`` gives every try 30 seconds; in the other order all
    tries together have 30. ``print`` shows the stack in this order. Recommended, outermost first:

    1. cache, then dedupe: an answered request, or one in progress, costs nothing further in;
    2. a timeout for everything: it limits tries, waits and queues together;
    3. backpressure, load shedding: a refused call has cost nothing and is not retried here;
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
        if wrapped or not callable(each) or _is_coroutine_function(each):
            raise ConfigurationError(f"stack() needs layers after the service, such as retry(attempts=3); got {each!r}")
        service = _around(each, service)
    return service


def _around(each: Callable[[Service[Q, R]], Service[Q, R]], service: Service[Q, R]) -> Service[Q, R]:
    try:
        outcome: object = each(service)
    except TypeError as error:
        raise ConfigurationError(
            f"stack() needs layers after the service, such as retry(attempts=3); {_describe(each)} is called with the "
            f"service alone, and failed: {error}"
        ) from error
    if not callable(outcome) or isinstance(outcome, type):
        raise ConfigurationError(f"a layer returns a service; {_describe(each)} returned {_describe(closed(outcome))}")
    if outcome is service or hasattr(outcome, "inner") or hasattr(outcome, "facts"):
        return outcome
    return Enclosed(each, as_service(outcome), service)


def _describe_first(value: object) -> str:
    if isinstance(value, str):
        return f", got the string {value!r}; ziggurat.models.resolve({value!r}) returns the model of that name"
    if isinstance(value, type):
        return f", got the class {value.__name__}; make an object of it"
    return f", got {_describe(value)}"

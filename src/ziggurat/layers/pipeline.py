"""Pipeline, steer and tap: the way of a request through services, to one of several, and past your functions."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, overload

from ziggurat.core.combinator import Combinator, annotate
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.failures import noting_mistakes, usage_of
from ziggurat.core.log import logger
from ziggurat.core.service import (
    COMPOSITE,
    EFFECT,
    NAME,
    RETURNS,
    Fact,
    Service,
    as_service,
    fact,
    layer,
    name_of,
    returns_of,
    shown,
    strongest,
)
from ziggurat.core.settings import checked

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


class _Pipeline:
    def __init__(self, stages: tuple[Service[Any, Any], ...]) -> None:
        self.parts = [(name_of(stage), as_service(stage), returns_of(stage)) for stage in stages]
        self.facts: dict[Fact[Any], object] = {
            NAME: f"pipeline({', '.join(name for name, *_ in self.parts)})",
            COMPOSITE: any(fact(stage, COMPOSITE) for stage in stages),
            EFFECT: strongest(stages),
            RETURNS: returns_of(stages[-1]),
        }

    async def __call__(self, request: Any, ctx: Context, /) -> Any:
        kind, lost = type(request), False
        for number, (name, stage, returns) in enumerate(self.parts, 1):
            if lost and type(request) is kind:  # inside a model call, another call of a model
                ctx.admit()
                lost = False
            try:
                request = await ctx.under(f"stage-{number}").once(name, request, stage, returns=returns, composite=True)
            except Exception as error:
                annotate(error, [f"in stage {number} of {len(self.parts)}: {name}"])
                raise
            usage = usage_of(request)
            if number < len(self.parts) and usage is not None:  # only the last answer states its usage itself
                ctx.lose(usage)
                lost = True
        return request

    def __repr__(self) -> str:
        return f"pipeline({', '.join(shown(stage) for _, stage, _ in self.parts)})"


@overload
def pipeline(first: Service[A, B], second: Service[B, C], /) -> Service[A, C]: ...
@overload
def pipeline(first: Service[A, B], second: Service[B, C], third: Service[C, D], /) -> Service[A, D]: ...
@overload
def pipeline(
    first: Service[A, B], second: Service[B, C], third: Service[C, D], fourth: Service[D, E], /
) -> Service[A, E]: ...
@checked
def pipeline(*stages: Service[Any, Any]) -> Service[Any, Any]:
    """Call services in sequence, each with the answer of the one before, and return the last answer.

    ::

        async def numbers(text: str, ctx: Context) -> list[int]: ...
        async def total(numbers: list[int], ctx: Context) -> int: ...

        sum_up = pipeline(numbers, total)      # from str to int

    The first error ends it, with a note that names the stage. Each stage is a separate call, at ``stage-1``,
    ``stage-2`` and so on, and not run again on resume; recorded answers are read as the annotated type. The type
    checker follows up to four stages; for more, nest pipelines.
    """
    if len(stages) < 2:
        raise ConfigurationError("pipeline() needs at least two stages; with one, use it as it is")
    return _Pipeline(stages)


Q = TypeVar("Q")
R = TypeVar("R")

Pick = Callable[[Q, Context], str | Awaitable[str]]


class _Steer(Combinator[Q, R]):
    title = "steer"

    def __init__(self, pick: Pick[Q], routes: Mapping[str, Service[Q, R]]) -> None:
        super().__init__(*routes.values())
        self._pick = pick
        self._routes = {name: index for index, name in enumerate(routes)}

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        place = ctx.under("pick")
        picked = await place.once("pick", request, self._call_pick, returns=str)
        if picked not in self._routes:  # a recorded pick whose route was removed since
            raise self._unknown(picked, place)
        return await self.ask(self._routes[picked], request, ctx.under(picked))

    async def _call_pick(self, request: Q, ctx: Context) -> str:
        with noting_mistakes():
            picked = self._pick(request, ctx)
            if isinstance(picked, Awaitable):
                picked = await picked
        if not isinstance(picked, str) or picked not in self._routes:
            raise self._unknown(picked, ctx)
        return picked

    def _unknown(self, picked: object, ctx: Context) -> ConfigurationError:
        return ConfigurationError(
            f"{ctx.path}: {shown(self._pick)} picked {picked!r}; there are {', '.join(map(repr, self._routes))}"
        )

    def __repr__(self) -> str:
        routes = (f"{name}={shown(self.alternatives[index])}" for name, index in self._routes.items())
        return f"steer({shown(self._pick)}, {', '.join(routes)})"


@checked
def steer(pick: Pick[Q], /, **routes: Service[Q, R]) -> Service[Q, R]:
    """Send each request to the service that `pick` names.

    ::

        def by_length(request: ModelRequest, ctx: Context) -> str:
            return "long" if len(request.messages) > 20 else "short"

        model = steer(by_length, short=openai("gpt-5-mini"), long=anthropic("claude-sonnet-4-5"))

    The pick is recorded, at ``pick``, so a resumed run takes the same route; the call is at the name of its route.

    Args:
        pick: Called with the request and a context; returns the name of a route, sync or async.
        routes: The services by name.

    Raises:
        ConfigurationError: there is no route; when called, `pick` returned an unknown name.
    """
    if not routes:
        raise ConfigurationError("steer() needs routes, such as steer(pick, short=..., long=...)")
    return _Steer(pick, routes)


Look = Callable[[Any, Context], object]
"""Called with a request, a response or an error, and the call's context; an awaitable that it returns is awaited."""


@layer
async def tap(
    request: Q,
    ctx: Context,
    inner: Service[Q, R],
    *,
    on_request: Look | None = None,
    on_response: Look | None = None,
    on_error: Look | None = None,
) -> R:
    """Pass requests, responses and errors to your functions, sync or async; the call is not affected.

    What they return is ignored, and what they raise is logged::

        stack(model, tap(on_response=lambda response, ctx: print(ctx.path, response.usage)))

    Args:
        on_request, on_response: Called with the request or the response, and the context.
        on_error: Called with the error and the context when the call fails; not when it is cancelled or suspended.
    """
    if on_request is not None:
        await _show(on_request, request, ctx)
    try:
        response = await inner(request, ctx)
    except Exception as error:
        if on_error is not None:
            await _show(on_error, error, ctx)
        raise
    if on_response is not None:
        await _show(on_response, response, ctx)
    return response


async def _show(look: Look, what: object, ctx: Context) -> None:
    try:
        seen = look(what, ctx)
        if isinstance(seen, Awaitable):
            await seen
    except Exception:
        name = getattr(look, "__name__", "function")
        logger.warning("a tap (%s) failed at %s; the call goes on", name, ctx.path, exc_info=True)

"""Steer: sends each request to one of several services."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ziggurat.core.combinator import Combinator, shown
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.failures import noting_mistakes
from ziggurat.core.service import Service
from ziggurat.core.settings import checked

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

    The pick is a separate call, at ``pick``; the service's call is at the name of its route. The pick is recorded,
    so a resumed run takes the same route without calling `pick` again.

    Args:
        pick: Called with the request and a context; returns the name of a route, sync or async.
        routes: The services by name.

    Raises:
        ConfigurationError: there is no route, or something is not a service; when called, `pick` returned an unknown
            name.
    """
    if not routes:
        raise ConfigurationError("steer() needs routes, such as steer(pick, short=..., long=...)")
    return _Steer(pick, routes)

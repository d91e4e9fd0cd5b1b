"""The protocol of services, ``async (request, context) -> response``: everything that runs is one."""

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from ziggurat.core.context import Context

Q_contra = TypeVar("Q_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Service(Protocol[Q_contra, R_co]):
    """The protocol of a service: an ``async def f(request, ctx)``, or an object with such a ``__call__``.

    A model, a tool, a step, an agent and a team of agents are services, so that a layer can wrap any of them. A service
    returns its whole response; progress is emitted as events, through ``ctx.emit``.
    """

    def __call__(self, request: Q_contra, ctx: Context, /) -> Coroutine[Any, Any, R_co]:
        """Return the response to `request`; the context has the path of this call, its listeners and its deadline."""
        ...

"""``async (request, context) -> response``: the one shape of everything that runs."""

__all__ = ["Service"]

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from ziggurat.core.context import Context

Q_contra = TypeVar("Q_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Service(Protocol[Q_contra, R_co]):
    """Answers a request; a plain ``async def f(request, ctx)`` is one, and so is any object with such a call.

    A model, a tool, a step, an agent and a team of agents are services, so that whatever wraps one (a layer)
    wraps them all. A service returns its whole response; what happens meanwhile goes out through ``ctx.emit``.
    A call of it is a coroutine, so it can be made a task at once: ``group.create_task(service(request, ctx))``.
    """

    def __call__(self, request: Q_contra, ctx: Context, /) -> Coroutine[Any, Any, R_co]:
        """Answer `request`; the context says where this call stands, who listens, and when it must stop."""
        ...

"""The protocol of services, ``async (request, context) -> response``: everything that runs is one."""

from collections.abc import Awaitable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.facts import name_of
from ziggurat.core.protocols import is_awaited

Q = TypeVar("Q")
R = TypeVar("R")

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
        return str(getattr(self.inner, "__name__", None) or repr(self.inner))


def as_service(value: Service[Q, R]) -> Service[Q, R]:
    """Return a service; one that may turn out not to be async, such as a lambda, raises ConfigurationError then."""
    return value if hasattr(value, "inner") or is_awaited(value) else _Checked(value)

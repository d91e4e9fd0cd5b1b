"""`everywhere`: layers as middleware, inherited by every model, tool or agent below."""

from collections.abc import Callable, Sequence
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Service, stack
from ziggurat.core.settings import checked
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse

ModelLayer = Callable[[Service[ModelRequest, ModelResponse]], Service[ModelRequest, ModelResponse]]
ToolLayer = Callable[[Service[ToolCall, ToolResult]], Service[ToolCall, ToolResult]]
AgentLayer = Callable[[Service[AgentRequest, AgentRun]], Service[AgentRequest, AgentRun]]


@checked
def everywhere(
    *, model: Sequence[ModelLayer] = (), tool: Sequence[ToolLayer] = (), agent: Sequence[AgentLayer] = ()
) -> Middleware:
    """Make a middleware of layers that wrap every call of their kind, in every nested agent too.

    The first listed layer gets the request first; a service's own layers are inside these. Objects that layers share
    (a limiter, a breaker) are shared by all those calls.

    ::

        Agent(model, tools=[researcher], middleware=[everywhere(model=[retry(attempts=3)], tool=[timeout(seconds=9)])])

    Args:
        model: Layers around each model.
        tool: Layers around each tool, agents as tools included.
        agent: Layers around each agent, including the one with this middleware.
    """
    given: dict[str, Sequence[Any]] = {"model": model, "tool": tool, "agent": agent}
    chosen = {kind: tuple(layers) for kind, layers in given.items() if layers}
    if not chosen:
        raise ConfigurationError("everywhere() has nothing to do: give it layers, such as model=[retry(attempts=3)]")
    for layers in chosen.values():
        stack(_nothing, *layers)
    shown = ", ".join(f"{kind}=[{', '.join(map(repr, layers))}]" for kind, layers in chosen.items())
    # a class with only the wraps that have layers: each one that there is costs time in every call
    wraps: dict[str, Any] = {f"wrap_{kind}": _wrap(layers) for kind, layers in chosen.items()}
    middleware: Middleware = type(
        "everywhere", (Middleware,), {"__repr__": lambda _: f"everywhere({shown})", **wraps}
    )()
    return middleware


def _wrap(layers: tuple[Any, ...]) -> Callable[..., Any]:
    async def wrap(self: Middleware, request: Any, ctx: Context, service: Service[Any, Any]) -> Any:
        return await stack(service, *layers)(request, ctx)

    return wrap


async def _nothing(request: Any, ctx: Context) -> Any:
    """A placeholder for the service, so that wrong layers raise when the middleware is made."""

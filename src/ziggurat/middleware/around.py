"""`everywhere`: layers as middleware, inherited by every model, tool or agent below."""

from collections.abc import Callable, Sequence
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Service, stack
from ziggurat.core.settings import checked
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.parts import ToolCall, ToolResult

ModelLayer = Callable[[Service[ModelRequest, ModelResponse]], Service[ModelRequest, ModelResponse]]
ToolLayer = Callable[[Service[ToolCall, ToolResult]], Service[ToolCall, ToolResult]]
AgentLayer = Callable[[Service[AgentRequest, AgentRun]], Service[AgentRequest, AgentRun]]


class _Everywhere(Middleware):
    """The base of the classes made by `everywhere`; they override only the wraps that have layers, for speed."""

    def __init__(self, model: Sequence[ModelLayer], tool: Sequence[ToolLayer], agent: Sequence[AgentLayer]) -> None:
        self._model = tuple(model)
        self._tool = tuple(tool)
        self._agent = tuple(agent)

    @property
    def name(self) -> str:
        return "everywhere"

    def __repr__(self) -> str:
        groups = (("model", self._model), ("tool", self._tool), ("agent", self._agent))
        settings = [f"{what}=[{', '.join(map(repr, layers))}]" for what, layers in groups if layers]
        return f"everywhere({', '.join(settings)})"


class _Models(_Everywhere):
    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        return await stack(model, *self._model)(request, ctx)


class _Tools(_Everywhere):
    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        return await stack(tool, *self._tool)(call, ctx)


class _Agents(_Everywhere):
    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        return await stack(agent, *self._agent)(request, ctx)


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

    Raises:
        ConfigurationError: there is no layer, or something that is not a layer.
    """
    chosen: list[Any] = [kind for kind, layers in ((_Models, model), (_Tools, tool), (_Agents, agent)) if layers]
    if not chosen:
        raise ConfigurationError("everywhere() has nothing to do: give it layers, such as model=[retry(attempts=3)]")
    for layers in (model, tool, agent):
        stack(_nothing, *layers)
    kind = type("everywhere", tuple(chosen), {})
    middleware: Middleware = kind(model, tool, agent)
    return middleware


async def _nothing(request: Any, ctx: Context) -> Any:
    """A placeholder for the service, so that wrong layers raise when the middleware is made."""

"""What a client of a provider's API adds to an agent for one run: instructions, an output schema, tools of its own."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents import loop_settings
from ziggurat.agents.loop import AgentLoop
from ziggurat.agents.runnable import Runnable
from ziggurat.agents.stop import BasePolicy
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.awaited import ask
from ziggurat.calls.enter import AgentService
from ziggurat.calls.hooks import HookChain, chained
from ziggurat.core import codec, errors
from ziggurat.core.context import Context
from ziggurat.core.service import fact, innermost
from ziggurat.messages.agent import AgentRequest, AgentRun, PendingItem
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import OUTPUT_MODES, ModelRequest, OutputSchema, ToolSpec
from ziggurat.tools.decisions import question_of
from ziggurat.tools.function import FunctionTool, raw_tool
from ziggurat.tools.toolbox import Toolbox


class ClientCall(Struct, frozen=True):
    call: str
    arguments: dict[str, Any]


def client_calls(pending: tuple[PendingItem, ...]) -> dict[str, ClientCall]:
    calls: dict[str, ClientCall] = {}
    for item in pending:
        if item.stage == "question":
            try:
                calls[item.id] = codec.decode(question_of(item.call).question, ClientCall)
            except errors.JournalCorrupt:  # a question to a person
                continue
    return calls


def with_client(agent: Runnable[Any], request: ModelRequest) -> Runnable[Any]:
    loop = innermost(agent)
    if not (request.tools or request.output or request.instructions):
        return agent
    if not isinstance(loop, AgentLoop):
        raise errors.ConfigurationError(f"{agent.name} is not a single agent: it takes only messages of a client")
    tools = Toolbox([_client_tool(spec) for spec in request.tools])
    loop.settings.tools.joined(tools)  # refuses a name that is taken
    native = request.output if "native" in fact(loop.settings.model, OUTPUT_MODES) else None
    texts = (request.instructions, None if native else _asking_for(request.output))
    additions = HookChain((_Additions("\n\n".join(text for text in texts if text), native),))
    extra = loop_settings.ExtraTools(0, tools, BasePolicy())

    return hooked(agent, additions, lambda ctx: ctx.within(loop_settings.EXTRA_TOOLS, extra))


def hooked(
    agent: Runnable[Any], hooks: HookChain, within: Callable[[Context], Context] = lambda ctx: ctx
) -> Runnable[Any]:

    def layer(inner: AgentService) -> AgentService:
        async def service(request: AgentRequest, ctx: Context) -> AgentRun:
            return await inner(request, chained(within(ctx), hooks))

        return service

    return agent.layered(layer)


def _client_tool(spec: ToolSpec) -> FunctionTool:
    async def wait_for_client(arguments: dict[str, Any]) -> str:
        return await ask(codec.canonical(ClientCall(spec.name, arguments)).decode())

    return raw_tool(
        wait_for_client, name=spec.name, description=spec.description, parameters=spec.parameters, permissions=()
    )


def _asking_for(output: OutputSchema | None) -> str | None:
    if output is None:
        return None
    schema = codec.canonical(output.schema).decode()
    return f"Answer with one JSON value that fits this JSON Schema, and nothing else:\n{schema}"


def file_part(url: str, name: object, *, is_image: bool) -> dict[str, Any]:
    if is_image:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file_data" if url.startswith("data:") else "file_url": url, "filename": name}


class _Additions(Middleware):
    """Adds a client's instructions and output schema to the requests of the agent itself, not of those below it."""

    def __init__(self, text: str, output: OutputSchema | None) -> None:
        self._text = text
        self._output = output

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        if ctx.scope[AGENT_CALL].depth:
            return None
        texts = [text for text in (request.instructions, self._text) if text]
        return replace(request, instructions="\n\n".join(texts) or None, output=request.output or self._output)

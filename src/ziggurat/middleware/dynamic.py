"""Middleware that chooses the instructions and the tools of each model call, and the tools that may be called."""

from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.core.similar import check_patterns
from ziggurat.messages.message import ToolCall
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import FINAL_ANSWER, ModelRequest

Write = Callable[[ModelRequest, Context], str | Awaitable[str | None] | None]
"""Returns the instructions for a model request, or None to leave them unchanged."""


class DynamicPrompt(Middleware):
    """Replaces the instructions of each model request by those that a function returns.

    ::

        DynamicPrompt(lambda request, ctx: f"{request.instructions}\\nThe user is {ctx.scope[USER].name}.")

    Instructions that differ from step to step make a provider's prompt cache useless.

    Args:
        write: Called with the request and the context; sync or async. None leaves the instructions unchanged.
    """

    @checked
    def __init__(self, write: Write) -> None:
        self._write = write

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        written = self._write(request, ctx)
        text = await written if isinstance(written, Awaitable) else written
        if text is not None and not isinstance(text, str):
            raise ConfigurationError(f"the function of DynamicPrompt returns text or None, got {text!r}")
        return None if text is None else replace(request, instructions=text)


class AllowTools(Middleware):
    """Allows only certain tools, at any depth: others are hidden from models, and calls of them are refused.

    Agents used as tools must be named too. Several `AllowTools` allow only tools that each of them allows.

    Args:
        patterns: Names of tools, with ``*`` and ``?``; without any, all tools are forbidden.
    """

    @checked
    def __init__(self, *patterns: Annotated[NonEmptyText, Meta(description="such as 'read_*'")]) -> None:
        self.patterns = patterns

    def allows(self, name: str) -> bool:
        """Return whether a tool may be called."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        return _with_tools(request, {tool.name for tool in request.tools if self.allows(tool.name)})

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        """Refuse calls of tools that are not allowed.

        Raises:
            Denied: the tool is not allowed; the model gets the message.
        """
        if not self.allows(call.name):
            raise Denied(f"the tool {call.name!r} is not allowed here; allowed: {', '.join(self.patterns) or 'none'}")


Choose = Callable[[ModelRequest, Context], Iterable[str] | Awaitable[Iterable[str]]]
"""Returns the names of the tools to show to the model in this step."""


class DynamicTools(Middleware):
    """Shows models in each step only the tools that a function chooses.

    It does not forbid calls: a model can still call a hidden tool that it knows of. To forbid tools use `AllowTools`.

    Args:
        choose: Called with the request and the context; sync or async. Unknown names are
            ignored, with a warning.
    """

    @checked
    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        chosen = self._choose(request, ctx)
        if isinstance(chosen, Awaitable):
            chosen = await chosen
        if isinstance(chosen, str) or not isinstance(chosen, Iterable):
            raise ConfigurationError(f"the function of DynamicTools returns a list of names, got {chosen!r:.100}")
        names = set(chosen)
        check_patterns("DynamicTools: the request", names, {tool.name for tool in request.tools}, None)
        return _with_tools(request, names)


def _with_tools(request: ModelRequest, names: set[str]) -> ModelRequest | None:
    tools = tuple([tool for tool in request.tools if tool.name in names or tool.name == FINAL_ANSWER])
    if len(tools) == len(request.tools):
        return None
    settings = request.settings
    forced = settings.tool_choice
    hidden = forced in {tool.name for tool in request.tools} - {tool.name for tool in tools}
    if hidden or (forced == "required" and not tools):
        settings = replace(settings, tool_choice=None)
    return replace(request, tools=tools, settings=settings)

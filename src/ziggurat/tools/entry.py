"""What an agent is given as tools: each as it is called, and sources of tools that are known only when a run begins."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import COMPOSITE, Service, fact, innermost, name_of, rewrapped
from ziggurat.core.settings import advice
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import AS_TOOL, NORMALIZE, SPEC, ToolSpec
from ziggurat.tools.function import FunctionTool, guard_call, tool
from ziggurat.tools.signature import plain_form

SEARCH_TOOLS = "search_tools"  # the name of the tool that finds others; its result is a list of objects with a `name`


class Offer(Struct, frozen=True, eq=False):
    """The tools of sources, in one run.

    Attributes:
        tools: The tools, each with a name of its own.
        hidden: The names of those that a model is not shown before it has found them with `SEARCH_TOOLS`.
    """

    tools: tuple[Service[ToolCall, ToolResult], ...] = ()
    hidden: frozenset[str] = frozenset()


class ToolSource(Protocol):
    """Tools that are known only when a run begins, such as those of a server."""

    def offer_tools(self, sources: Sequence[Any], taken: Collection[str], ctx: Context, /) -> Awaitable[Offer]:
        """Return the tools of all sources of this kind, given the names that other tools have."""
        ...


def is_source(tool: object) -> bool:
    return hasattr(type(tool), "offer_tools")


async def offered(sources: Sequence[ToolSource], taken: Collection[str], ctx: Context) -> Offer:
    """Return the tools of sources; none is named as another tool of the agent, whose names are `taken`."""
    found = Offer()
    for kind in dict.fromkeys(map(type, sources)):
        alike = [source for source in sources if type(source) is kind]
        more = await alike[0].offer_tools(alike, (*taken, *map(name_of, found.tools)), ctx)
        found = Offer((*found.tools, *more.tools), found.hidden | more.hidden)
    return found


Tool = Service[ToolCall, ToolResult] | Callable[..., Any] | ToolSource
"""A tool as it is passed to an agent: a service, a function, or a source of tools."""


class ToolStatistics(Struct, eq=False):
    """How often a tool was called, how often it failed, and how long it took."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0

    @property
    def mean_seconds(self) -> float:
        """The mean time of a call in seconds, 0 if there was none."""
        return self.seconds / self.calls if self.calls else 0.0

    def add(self, seconds: float, result: ToolResult) -> None:
        self.calls += 1
        self.seconds += seconds
        if result.error is not None:
            self.errors += 1


class ToolEntry(Struct, frozen=True, eq=False):
    service: Service[ToolCall, ToolResult]
    spec: ToolSpec
    normalize: Callable[[ToolCall], ToolCall]
    composite: bool
    statistics: ToolStatistics


def _as_function_tool(each: Any) -> Any:
    inner = getattr(each, "inner", None)
    layered = None if inner is None else rewrapped(each, _as_function_tool(inner))
    return tool(each) if layered is None else layered


def entry_of(each: Tool) -> ToolEntry:
    service: Any = each
    spec = fact(each, SPEC)
    if spec is None:
        if not callable(each) or isinstance(each, type):
            raise ConfigurationError(
                "a tool is a typed function, something made by @tool, or an agent; got "
                + (f"the class {each.__name__}" if isinstance(each, type) else f"{type(each).__name__}: {each!r:.200}")
                + advice(each)
            )
        convert = fact(each, AS_TOOL)
        if convert is None and hasattr(inner := innermost(each), "facts") and not isinstance(inner, FunctionTool):
            raise ConfigurationError(
                f"{name_of(each)} is a service, but not a tool: it has no name, description and arguments; call it in "
                "a typed function, and give that"
            )
        service = each
        if not isinstance(each, FunctionTool):
            service = _as_function_tool(each) if convert is None else convert(each)
        spec = fact(service, SPEC)
        if spec is None:
            raise ConfigurationError(
                f"{name_of(service)} is a method: give that of an instance, tools=[it.{name_of(service)}]"
            )
    composite = fact(service, COMPOSITE)
    if not composite and not isinstance(innermost(service), FunctionTool):
        service = guard_call(service)
    normalize = fact(service, NORMALIZE) or plain_form
    return ToolEntry(service, spec, normalize, composite, ToolStatistics())

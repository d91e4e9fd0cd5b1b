"""Sources of tools: servers, and whatever else has tools that are known only when a run begins."""

from collections.abc import Awaitable, Collection, Sequence
from typing import Any, Protocol

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.service import Service, name_of
from ziggurat.messages.message import ToolCall, ToolResult

SEARCH_TOOLS = "search_tools"
"""The name of the tool that finds others; its result is a list of objects with a `name`."""


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
    """Return whether what an agent is given as a tool is a source of tools."""
    return hasattr(type(tool), "offer_tools")


async def offered(sources: Sequence[ToolSource], taken: Collection[str], ctx: Context) -> Offer:
    """Return the tools of sources; none is named as another tool of the agent, whose names are `taken`."""
    found = Offer()
    for kind in dict.fromkeys(map(type, sources)):
        alike = [source for source in sources if type(source) is kind]
        more = await alike[0].offer_tools(alike, (*taken, *map(name_of, found.tools)), ctx)
        found = Offer((*found.tools, *more.tools), found.hidden | more.hidden)
    return found

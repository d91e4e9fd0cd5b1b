"""Sources of tools: servers, and whatever else has tools that are known only when a run begins."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.facts import Fact, fact, name_of
from ziggurat.core.service import Service
from ziggurat.messages.parts import ToolCall, ToolResult


class ToolSource(Protocol):
    """Tools that are known only when a run begins, such as those of a server; it states the fact `OFFER`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def facts(self) -> Mapping[Fact[Any], Any]:
        """Its facts."""
        ...


class Offer(Struct, frozen=True, eq=False):
    """The tools of sources, in one run.

    Attributes:
        tools: The tools, each with a name of its own.
        hidden: The names of those that a model is not shown before it has found them with `SEARCH_TOOLS`.
    """

    tools: tuple[Service[ToolCall, ToolResult], ...] = ()
    hidden: frozenset[str] = frozenset()


SEARCH_TOOLS = "search_tools"
"""The name of the tool that finds others; its result is a list of objects with a `name`."""

OFFER: Fact[Callable[[Sequence[Any], Collection[str], Context], Awaitable[Offer]] | None] = Fact("offer", None)
"""Returns the tools of several sources, given the names that other tools have."""


async def offered(sources: Sequence[ToolSource], taken: Collection[str], ctx: Context) -> Offer:
    """Return the tools of sources; none is named as another tool of the agent, whose names are `taken`."""
    found = Offer()
    for make in dict.fromkeys(fact(source, OFFER) for source in sources):
        assert make is not None
        names = (*taken, *map(name_of, found.tools))
        more = await make([source for source in sources if fact(source, OFFER) is make], names, ctx)
        found = Offer((*found.tools, *more.tools), found.hidden | more.hidden)
    return found

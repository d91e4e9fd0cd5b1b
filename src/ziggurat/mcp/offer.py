"""The tools of servers as tools of a run: named, checked, and recorded when the run begins."""

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from math import log
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, MissingExtra, Timeout, ToolError
from ziggurat.core.log import logger
from ziggurat.core.service import Effect
from ziggurat.core.similar import check_patterns
from ziggurat.core.visible import visible
from ziggurat.mcp import wire
from ziggurat.mcp.client import McpClient
from ziggurat.mcp.settings import Settings
from ziggurat.messages.message import ToolResult
from ziggurat.tools.entry import SEARCH_TOOLS, Offer
from ziggurat.tools.function import FunctionTool, raw_tool

MANY = 40  # how many tools of one server a model is shown at once; of a server with more it searches those it needs
_MISSPELT = 0.4  # the likeness from which a name in the settings is refused: all tools of the server are known
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 8_000
_OVERVIEW = 12_000  # characters of the list of tools in the description of the tool that finds them
_FOUND = 10
_QUERY = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do, or its name."}},
    "required": ["query"],
    "additionalProperties": False,
}


class _Listing(Struct, frozen=True):
    server: str
    tools: tuple[wire.ServerTool, ...]


class _Listings(Struct, frozen=True):
    servers: tuple[_Listing, ...]


async def offer(servers: Sequence[McpClient], taken: Collection[str], ctx: Context) -> Offer:
    """Return the tools of servers; what they list is recorded, so that a run goes on with the tools it began with."""
    names = [server.name for server in servers]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"two MCP servers have the same name: {', '.join(names)}; mcp(..., name=...) sets it")

    async def ask(_: list[str], ctx: Context) -> _Listings:
        return _Listings(tuple(await asyncio.gather(*(_listing(server, ctx) for server in servers))))

    listings = await ctx.at("mcp").once("mcp tools", names, ask, returns=_Listings)
    by_name = {each.server: each.tools for each in listings.servers}
    listed = [(server, tool) for server in servers for tool in by_name.get(server.name, ())]
    called = _names(listed, taken)
    box: list[FunctionTool] = []
    hidden: list[FunctionTool] = []
    for server in servers:
        _check_settings(server, by_name.get(server.name, ()), called)
        only = server.settings.only
        own = [tool for tool in by_name.get(server.name, ()) if any(fnmatchcase(tool.name, each) for each in only)]
        tools = [made for tool in own if (made := _made(server, tool, called[server.name, tool.name])) is not None]
        box += tools
        if len(tools) > MANY if server.settings.search is None else server.settings.search:
            hidden += tools
    if hidden:
        box.append(_search(hidden))
    return Offer(tuple(box), frozenset(each.spec.name for each in hidden))


async def _listing(server: McpClient, ctx: Context) -> _Listing:
    try:
        return _Listing(server.name, tuple(replace(tool, output_schema=None) for tool in await server.tools(ctx)))
    except (ToolError, Timeout) as error:
        if server.settings.required:
            raise
        logger.warning("a run has no tools of the MCP server %s: %s", server.name, error)
        return _Listing(server.name, ())


def _check_settings(
    server: McpClient, listed: Sequence[wire.ServerTool], called: Mapping[tuple[str, str], str]
) -> None:
    """Check that settings of single tools name tools that there are: an approval that nothing asks for is dangerous."""
    settings = server.settings
    given = {
        "only": settings.only,
        "approval": () if isinstance(settings.approval, bool) else settings.approval,
        "effect": settings.effect if isinstance(settings.effect, Mapping) else (),
    }
    names = {name for tool in listed for name in (tool.name, called[server.name, tool.name])}
    for setting, patterns in given.items():
        if listed:
            check_patterns(f"mcp({setting}=): the server {server.name!r}", patterns, names, _MISSPELT)


# -- names -----------------------------------------------------------------------------------------------------------


def _names(listed: Sequence[tuple[McpClient, wire.ServerTool]], taken: Collection[str]) -> dict[tuple[str, str], str]:
    """Return the name of each tool for models: its own, with the server's before it if another one has that, too."""
    plain = {(server.name, tool.name): _fitting(tool.name) for server, tool in listed}
    counts = Counter([*taken, SEARCH_TOOLS, *plain.values()])
    used = {*taken, SEARCH_TOOLS}
    names: dict[tuple[str, str], str] = {}
    for server, tool in listed:
        key = server.name, tool.name
        if key in names:
            continue
        name = plain[key]
        if server.settings.prefix or counts[name] > 1:
            name = _fitting(f"{server.name}_{tool.name}")
        base, number = name, 1
        while name in used:
            number += 1
            name = f"{base[: _LONGEST_NAME - len(str(number)) - 1]}_{number}"
        used.add(name)
        names[key] = name
    return names


def _fitting(name: str) -> str:
    """Return a name that models take; a long one ends with a digest of what was cut."""
    fit = re.sub(r"[^A-Za-z0-9_-]", "_", name) or "_"
    if len(fit) <= _LONGEST_NAME:
        return fit
    return f"{fit[: _LONGEST_NAME - 9]}_{blake2b(name.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"


# -- tools -----------------------------------------------------------------------------------------------------------


def _made(server: McpClient, tool: wire.ServerTool, name: str) -> FunctionTool | None:
    """Return a tool that can be called; None, with a warning, if its schema is broken."""
    settings = server.settings

    async def call(arguments: dict[str, Any], ctx: Context) -> ToolResult:
        result = await server.call(tool.name, arguments, ctx)
        return replace(result, name=name, origin=wire.origin_of(server.name, tool.name))

    approval = settings.approval if isinstance(settings.approval, bool) else _is_named(tool, name, settings.approval)
    try:
        return raw_tool(
            call,
            name=name,
            description=visible(tool.description or tool.title or "")[:_LONGEST_DESCRIPTION],
            parameters=tool.input_schema,
            effect=_effect(tool, name, settings),
            permissions=settings.permissions,
            approval=approval,
        )
    except MissingExtra:
        raise
    except ConfigurationError as error:
        logger.warning("the tool %s of the MCP server %s is left out: %s", tool.name, server.name, error)
        return None


def _is_named(tool: wire.ServerTool, name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(each, pattern) for pattern in patterns for each in (tool.name, name))


def _effect(tool: wire.ServerTool, name: str, settings: Settings) -> Effect:
    """Return the effect of a tool: as set; else as far as the server says, which may be wrong, of the cautious kind."""
    given = settings.effect
    if isinstance(given, str):
        return given
    if given is not None and (found := [given[each] for each in given if _is_named(tool, name, [each])]):
        return found[0]
    hints = tool.annotations
    if hints is None:
        return "repeatable"
    if hints.read_only_hint:
        return "none"
    return "once" if hints.destructive_hint and not hints.idempotent_hint else "repeatable"


# -- search ----------------------------------------------------------------------------------------------------------


def _words(text: str) -> set[str]:
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return {
        word[:-1] if len(word) > 3 and word.endswith("s") else word for word in re.findall(r"[^\W_]+", apart.lower())
    }


def _search(tools: Iterable[FunctionTool]) -> FunctionTool:
    words = {each.spec.name: _words(f"{each.spec.name} {each.spec.description}") for each in tools}
    specs = {each.spec.name: each.spec for each in tools}
    counts = Counter(word for found in words.values() for word in found)

    def search(arguments: dict[str, Any]) -> list[dict[str, str]]:
        query = _words(str(arguments["query"]))
        scores = {
            name: sum(log(1 + len(words) / counts[word]) for word in query & found) + 10 * (name in arguments["query"])
            for name, found in words.items()
        }
        best = sorted((name for name, score in scores.items() if score), key=lambda name: (-scores[name], name))
        return [{"name": name, "description": specs[name].description} for name in best[:_FOUND]]

    names = ", ".join(specs)
    overview = names if len(names) <= _OVERVIEW else f"{names[:_OVERVIEW].rpartition(',')[0]}, and others"
    description = (
        f"Find tools by what they do. Each tool that is found can be called from then on. There are {len(specs)}: "
        f"{overview}."
    )
    return raw_tool(
        search, name=SEARCH_TOOLS, description=description, parameters=_QUERY, effect="none", permissions=()
    )

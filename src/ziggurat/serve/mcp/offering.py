"""McpServer: what an MCP server offers beside the agents that it serves."""

import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonEmptyText, NonNegativeSeconds, checked
from ziggurat.messages.message import ToolResult
from ziggurat.serve.mcp.offered import Offered, offered_agent, offered_function
from ziggurat.tools.entry import Tool
from ziggurat.tools.toolbox import Toolbox

_VARIABLE = re.compile(r"\{([A-Za-z_]\w*)\}")


class Resource(Struct, frozen=True, eq=False):
    """A resource, or one for each value of the variables in its address; made by `resource`."""

    uri: str
    name: str
    description: str
    media_type: str | None
    _box: Toolbox
    _pattern: "re.Pattern[str]"

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(_VARIABLE.findall(self.uri))

    @property
    def schema(self) -> dict[str, Any]:
        return self._box.specs[0].parameters

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of an address's variables, each one name in a path; None if it is another resource's."""
        match = self._pattern.fullmatch(uri)
        if match is None:
            return None
        values = {name: unquote(value) for name, value in match.groupdict().items()}
        safe = all(value not in (".", "..") and not re.search(r"[/\\\x00-\x1f]", value) for value in values.values())
        return values if safe else None

    async def read(self, values: dict[str, str]) -> ToolResult:
        return await self._box.call(self.name, values)


@checked
def resource(
    uri: NonEmptyText, *, name: NonEmptyText | None = None, media_type: NonEmptyText | None = None
) -> Callable[[Callable[..., Any]], Resource]:
    """Make a resource of a typed function, for `McpServer`::

        @serve.resource("notes://{title}")
        def note(title: str) -> str:
            "One of my notes."
            return (FOLDER / f"{title}.md").read_text()

    The function is called whenever the resource is read. It returns text, a value, or parts such as `Image` and `File`.

    Args:
        uri: Its address. Each ``{variable}`` is a parameter of the function, and stands for one name: a value never has
            a slash, nor is it ``..``.
        name: Its name; that of the function by default.
        media_type: The type of its contents; by default that of the parts, or ``text/plain``.

    Raises:
        ConfigurationError: the variables are not the parameters of the function.
    """

    def make(function: Callable[..., Any]) -> Resource:
        box = Toolbox([function])
        (spec,) = box.specs
        variables, parameters = set(_VARIABLE.findall(uri)), set(spec.parameters.get("properties", {}))
        if variables != parameters:
            raise ConfigurationError(
                f"the resource {uri} has the variables {sorted(variables)}, and its function the parameters "
                f"{sorted(parameters)}: they must be the same"
            )
        pieces = _VARIABLE.split(uri)
        pattern = "".join(f"(?P<{each}>[^/]+)" if odd % 2 else re.escape(each) for odd, each in enumerate(pieces))
        return Resource(uri, spec.name, spec.description, media_type, box, re.compile(pattern))

    return make


class McpServer:
    """What a server offers to clients of the Model Context Protocol, beside the agents that it serves::

        offer = serve.McpServer(tools=[search], resources=[note], prompts=[summarize])
        application = serve.app([desk], mcp=offer)

    A call of a tool is a run: it is on record, its approvals and questions are put to the client, and a client that
    knows tasks gets one if it takes long.

    Args:
        tools: Functions, tools, and agents as tools.
        resources: Made by `resource`.
        prompts: Typed functions that return the text of a prompt, or parts of it; their parameters are its arguments.
        name: The name of the server, for people.
        instructions: How models should use it.
        task_after: Seconds after which a call becomes a task, if the client knows tasks.
        tasks: Names of tools whose calls are always tasks; clients that do not know tasks are refused.

    Raises:
        ConfigurationError: something is not a tool, a prompt or a resource, or there are two of one name.
    """

    @checked
    def __init__(
        self,
        *,
        tools: Iterable[Tool] = (),
        resources: Iterable[Resource] = (),
        prompts: Iterable[Callable[..., Any]] = (),
        name: NonEmptyText = "ziggurat",
        instructions: str = "",
        task_after: NonNegativeSeconds = 5.0,
        tasks: Iterable[str] = (),
    ) -> None:
        self.name: str = name
        self.instructions: str = instructions
        self.task_after: float = task_after
        self.tools: tuple[Offered, ...] = tuple(
            offered_agent(each) if isinstance(each, Runnable) else offered_function(each) for each in tools
        )
        self.resources: tuple[Resource, ...] = tuple(resources)
        self.prompts: tuple[Offered, ...] = tuple(offered_function(each, "prompts/get") for each in prompts)
        self.tasks: frozenset[str] = frozenset(tasks)
        self._followers: set[Callable[[str], None]] = set()
        for kind, names in (
            ("tools", [each.spec.name for each in self.tools]),
            ("prompts", [each.spec.name for each in self.prompts]),
            ("resources", [each.uri for each in self.resources]),
        ):
            twice = {each for each in names if names.count(each) > 1}
            if twice:
                raise ConfigurationError(f"two {kind} are named {sorted(twice)[0]!r}; give one another name")
        unknown = self.tasks.difference(each.spec.name for each in self.tools)
        if unknown:
            raise ConfigurationError(f"tasks= has {sorted(unknown)[0]!r}, and there is no such tool")

    def updated(self, uri: str) -> None:
        """Tell clients that follow a resource that it has changed; called in the event loop of the server."""
        for follower in list(self._followers):
            follower(uri)

    def follow(self, follower: Callable[[str], None]) -> Callable[[], None]:
        """Call a function with the address of each resource that changes; return what ends that."""
        self._followers.add(follower)
        return lambda: self._followers.discard(follower)

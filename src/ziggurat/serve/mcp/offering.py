"""McpServer: what an MCP server offers beside the agents that it serves."""

from collections.abc import Callable, Iterable
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonEmptyText, NonNegativeSeconds, checked
from ziggurat.serve.mcp.offered import Offered, offered_agent, offered_function
from ziggurat.serve.mcp.resources import Resource
from ziggurat.tools.entry import Tool


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

"""McpServer: what an MCP server offers beside the agents that it serves."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal
from urllib.parse import unquote

from msgspec import Struct

from ziggurat.agents import as_tool
from ziggurat.agents.flow import Flow
from ziggurat.agents.flow_program import flow_program
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.agent_call import place_of
from ziggurat.calls.tool_call import act
from ziggurat.core import errors, settings
from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.service import fact
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import AS_TOOL, ToolSpec
from ziggurat.serve.mcp import contents
from ziggurat.serve.narration import error_of
from ziggurat.tools.entry import Tool
from ziggurat.tools.results import error_result
from ziggurat.tools.toolbox import Toolbox
from ziggurat.wires import jsonrpc

Kind = Literal["tools/call", "prompts/get"]


class Offered(Struct, frozen=True, eq=False):
    spec: ToolSpec
    runnable: Runnable[Any]
    prompt: Callable[[str], str]
    is_function: bool
    kind: Kind = "tools/call"
    output: contents.Json | None = None

    def answer(self, run: AgentRun) -> contents.Json:
        if self.is_function and isinstance(run.stop, stops.Failed):
            raise jsonrpc.JsonRpcError(error_of(run) or "it failed")
        if isinstance(run._answer, ToolResult):
            result = run._answer
        elif run.error is not None:
            result = ToolResult("", self.spec.name, error_of(run), "permanent")
        else:
            result = as_tool.result_of_run(self._call, run)
        return self._written(result)

    def misfit(self, error: errors.InvalidArguments) -> contents.Json:
        return self._written(error_result(error, self._call))

    def _written(self, result: ToolResult) -> contents.Json:
        if self.kind == "tools/call":
            return contents.result_of(result, structured=self.output is not None)
        if result.error is not None:
            raise jsonrpc.JsonRpcError(
                result.text, jsonrpc.INVALID_PARAMS if result.error == "invalid_arguments" else jsonrpc.INTERNAL_ERROR
            )
        return {"messages": contents.messages_of(result)}

    @property
    def _call(self) -> ToolCall:
        return ToolCall("", self.spec.name)


def offered_agent(agent: Runnable[Any]) -> Offered:
    tool = (fact(agent, AS_TOOL) or as_tool.AgentTool)(agent)
    return Offered(tool.spec, agent, tool.prompt, is_function=False, output=contents.output_schema(agent))


def offered_function(tool: Tool, kind: Kind = "tools/call") -> Offered:
    """Return a tool whose calls are runs, so that they are on record, wait for approvals and answers, and go on."""
    box = Toolbox([tool])
    (spec,) = box.specs

    async def call(ctx: Context, arguments: dict[str, Any]) -> ToolResult:
        made = ToolCall("mcp", spec.name, encode(arguments).decode())
        return await act(box, made, place_of(ctx, spec.name))

    name = spec.name if kind == "tools/call" else f"prompt {spec.name}"
    hints = {"ctx": Context, "arguments": dict[str, Any], "return": ToolResult}
    program, takes = flow_program(call, hints, name, {}, {"description": spec.description})
    flow: Flow[Any, Any] = Flow(program, takes, name=name, store=None)
    return Offered(
        spec, flow, lambda text: text, True, kind, contents.output_schema(tool) if kind == "tools/call" else None
    )


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


@settings.checked
def resource(
    uri: settings.NonEmptyText,
    *,
    name: settings.NonEmptyText | None = None,
    media_type: settings.NonEmptyText | None = None,
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
            raise errors.ConfigurationError(
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

    @settings.checked
    def __init__(
        self,
        *,
        tools: Iterable[Tool] = (),
        resources: Iterable[Resource] = (),
        prompts: Iterable[Callable[..., Any]] = (),
        name: settings.NonEmptyText = "ziggurat",
        instructions: str = "",
        task_after: settings.NonNegativeSeconds = 5.0,
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
                raise errors.ConfigurationError(f"two {kind} are named {sorted(twice)[0]!r}; give one another name")
        unknown = self.tasks.difference(each.spec.name for each in self.tools)
        if unknown:
            raise errors.ConfigurationError(f"tasks= has {sorted(unknown)[0]!r}, and there is no such tool")

    def updated(self, uri: str) -> None:
        """Tell clients that follow a resource that it has changed; called in the event loop of the server."""
        for follower in list(self._followers):
            follower(uri)

    def follow(self, follower: Callable[[str], None]) -> Callable[[], None]:
        """Call a function with the address of each resource that changes; return what ends that."""
        self._followers.add(follower)
        return lambda: self._followers.discard(follower)

"""Methods that both eras of the protocol have: what is offered, and the parts of it that are read."""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from ziggurat.core.errors import CallerError, ConfigurationError, LimitExceeded, ZigguratError
from ziggurat.core.log import logger
from ziggurat.journal.store import Store
from ziggurat.mcp.headers import HeaderOf, headers_in
from ziggurat.serve.mcp.caller import Params, Signer, invalid
from ziggurat.serve.mcp.calls import Calls
from ziggurat.serve.mcp.contents import Json, resource_contents, tool_of
from ziggurat.serve.mcp.offering import McpServer, Offered, Resource, offered_agent
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, JsonRpcError

_MOST_VALUES = 100  # values of a completion, as the protocol has it


class Methods:
    def __init__(self, agents: ServedAgents, server: McpServer, token: str, store: Store | None = None) -> None:
        self.server = server
        self.identity: Json = {"name": server.name, "version": version("ziggurat")}
        self.signer: Signer = Signer(token)
        tools = [*_agents_as_tools(agents), *server.tools]
        if not (agents.agents or server.tools or server.prompts or server.resources):
            raise ConfigurationError("a server needs at least one agent")
        self.offered: dict[str, dict[str, Offered]] = {
            "tools/call": {each.spec.name: each for each in tools},
            "prompts/get": {each.spec.name: each for each in server.prompts},
        }
        if len(self.offered["tools/call"]) < len(tools):
            raise ConfigurationError("a tool of the MCP server has the name of an agent; give one another name")
        try:
            self.headers: dict[str, tuple[HeaderOf, ...]] = {
                each.spec.name: headers_in(each.spec.parameters) for each in tools
            }
        except ValueError as error:
            raise ConfigurationError(f"a tool of the MCP server: {error}") from error
        for each in (*server.tools, *server.prompts):
            agents.add(each.runnable if store is None else each.runnable.with_store(store))
        self.agents = agents
        self.calls: Calls = Calls(agents, {each.runnable.name: each for each in (*tools, *server.prompts)}, self.signer)
        self._methods: dict[str, Callable[[Params], Json]] = {
            "tools/list": lambda _: {
                "tools": [tool_of(each.spec, each.output) for each in self.offered["tools/call"].values()]
            },
        }
        if server.prompts:
            self._methods["prompts/list"] = lambda _: {"prompts": [_prompt(each) for each in server.prompts]}
        if server.resources:
            self._methods["resources/list"] = lambda _: {"resources": self._resources(templates=False)}
            self._methods["resources/templates/list"] = lambda _: {"resourceTemplates": self._resources(templates=True)}
        if server.prompts or server.resources:
            self._methods["completion/complete"] = self._complete

    def capabilities(self) -> Json:
        fixed = {"listChanged": False}  # what is offered is settled when the server is made
        can: Json = {"tools": fixed}
        if self.server.resources:
            can["resources"] = {"subscribe": True} | fixed
        if self.server.prompts:
            can["prompts"] = fixed
        return can | ({"completions": {}} if "completion/complete" in self._methods else {})

    async def answer(self, method: str, params: Params) -> Json:
        if method == "resources/read" and self.server.resources:
            return await self._read(params.uri)
        if method not in self._methods:
            raise JsonRpcError(f"there is no method {method[:100]!r}", METHOD_NOT_FOUND)
        if params.cursor is not None:
            raise invalid("the list has one page, and no cursor")
        return self._methods[method](params)

    def find(self, method: str, name: str) -> Offered:
        found = self.offered[method].get(name)
        if found is None:
            what = "tool" if method == "tools/call" else "prompt"
            raise invalid(f"there is no {what} {name[:100]!r} here")
        return found

    def resource_at(self, uri: str) -> tuple[Resource, dict[str, str]]:
        for each in self.server.resources:
            if (values := each.match(uri)) is not None:
                return each, values
        raise invalid("there is no resource at this address", {"uri": uri[:1000]})

    async def _read(self, uri: str) -> Json:
        found, values = self.resource_at(uri)
        result = await found.read(values)
        if result.error is not None:
            raise JsonRpcError(f"the resource cannot be read: {result.text}", INTERNAL_ERROR, {"uri": uri})
        return {"contents": resource_contents(result, uri, found.media_type)}

    def _resources(self, *, templates: bool) -> list[Json]:
        chosen = [each for each in self.server.resources if bool(each.variables) == templates]
        return [_resource(each, "uriTemplate" if templates else "uri") for each in chosen]

    def _complete(self, params: Params) -> Json:
        """Return the values that an argument can have and that begin as the given one, where its type lists them."""
        kind, name, value = params.ref.get("type"), params.argument.get("name"), str(params.argument.get("value", ""))
        if kind == "ref/prompt":
            schema = self.find("prompts/get", str(params.ref.get("name"))).spec.parameters
        elif kind == "ref/resource":
            uri = str(params.ref.get("uri"))
            schema = next((each.schema for each in self.server.resources if each.uri == uri), {})
        else:
            raise invalid(f"what is completed is a ref/prompt or a ref/resource, got {kind!r:.50}")
        listed = schema.get("properties", {}).get(name, {}).get("enum", ())
        values = [each for each in listed if isinstance(each, str) and each.startswith(value)]
        more = len(values) > _MOST_VALUES
        return {"completion": {"values": values[:_MOST_VALUES], "total": len(values), "hasMore": more}}


def _agents_as_tools(agents: ServedAgents) -> Iterator[Offered]:
    """Yield the agents as tools; those that cannot be one, as their input is no object, are served otherwise only."""
    for agent in agents.agents.values():
        try:
            yield offered_agent(agent)
        except ConfigurationError as error:
            logger.info("%s is not offered by MCP: %s", agent.name, error)


def _prompt(prompt: Offered) -> Json:
    fields: Mapping[str, Any] = prompt.spec.parameters.get("properties", {})
    required = prompt.spec.parameters.get("required", ())
    arguments = [
        {"name": name, "description": field.get("description", ""), "required": name in required}
        for name, field in fields.items()
    ]
    return {"name": prompt.spec.name, "description": prompt.spec.description, "arguments": arguments}


def _resource(resource: Resource, key: str) -> Json:
    shown = {key: resource.uri, "name": resource.name, "description": resource.description}
    return shown if resource.media_type is None else shown | {"mimeType": resource.media_type}


def error_for(error: Exception) -> JsonRpcError:
    """Return the error for a client: what it has done wrong is explained, what we have, logged."""
    if isinstance(error, JsonRpcError):
        return error
    if isinstance(error, LimitExceeded):
        return JsonRpcError(f"{error}", INTERNAL_ERROR, {"retryAfterMs": 1_000})
    if isinstance(error, CallerError):
        return invalid(str(error))
    if not isinstance(error, ZigguratError):
        logger.error("a request of MCP failed", exc_info=error)
    return JsonRpcError("internal error", INTERNAL_ERROR)

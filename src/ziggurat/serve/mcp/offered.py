"""Tools and prompts as they are offered: every call of one is a run, of an agent or of what stands for a function."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from ziggurat.agents.as_tool import AgentTool, result_of_run
from ziggurat.agents.flow import Flow
from ziggurat.agents.flow_program import flow_program
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.agent_call import place_of
from ziggurat.calls.tool_call import act
from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments
from ziggurat.core.service import fact
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import AS_TOOL, ToolSpec
from ziggurat.serve.mcp.contents import Json, messages_of, output_schema, result_of
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
    output: Json | None = None

    def answer(self, run: AgentRun) -> Json:
        if self.is_function and isinstance(run.stop, stops.Failed):
            raise jsonrpc.JsonRpcError(error_of(run) or "it failed")
        if isinstance(run._answer, ToolResult):
            result = run._answer
        elif run.error is not None:
            result = ToolResult("", self.spec.name, error_of(run), "permanent")
        else:
            result = result_of_run(self._call, run)
        return self._written(result)

    def misfit(self, error: InvalidArguments) -> Json:
        return self._written(error_result(error, self._call))

    def _written(self, result: ToolResult) -> Json:
        if self.kind == "tools/call":
            return result_of(result, structured=self.output is not None)
        if result.error is not None:
            raise jsonrpc.JsonRpcError(
                result.text, jsonrpc.INVALID_PARAMS if result.error == "invalid_arguments" else jsonrpc.INTERNAL_ERROR
            )
        return {"messages": messages_of(result)}

    @property
    def _call(self) -> ToolCall:
        return ToolCall("", self.spec.name)


def offered_agent(agent: Runnable[Any]) -> Offered:
    tool = (fact(agent, AS_TOOL) or AgentTool)(agent)
    return Offered(tool.spec, agent, tool.prompt, is_function=False, output=output_schema(agent))


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
    return Offered(spec, flow, lambda text: text, True, kind, output_schema(tool) if kind == "tools/call" else None)

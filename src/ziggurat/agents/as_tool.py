"""AgentTool: an agent as a tool; its input is one text or a typed value, its result the agent's answer."""

from typing import Any

from msgspec.structs import replace

from ziggurat.agents.continued import continued
from ziggurat.agents.tool_input import AGENT_INPUT, TOOL_INPUT, input_of
from ziggurat.calls.enter import AGENT, AgentService, enter
from ziggurat.calls.once import after_acts
from ziggurat.core import service
from ziggurat.core.codec import encode
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.settings import checked
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.message import ToolCall, ToolResult, user
from ziggurat.messages.model import NORMALIZE, SPEC, ToolSpec
from ziggurat.tools.function import checked_spec
from ziggurat.tools.guarded_call import APPROVED_CALL
from ziggurat.tools.results import kind_of, text_of_error


class AgentTool:
    """A tool that passes its input to an agent, whose name and description it has by default, and returns the answer.

    Args:
        agent: The agent, with any layers.
        input_type: What it takes: a Struct, dataclass, TypedDict or pydantic model, or a function whose parameters it
            takes; one text by default, or what the flow takes. The agent gets it as JSON in its prompt, and as a value
            in ``ctx.scope[AGENT_INPUT]``: an instance of the type, or the arguments of the function by name.
        keep_conversation: Whether the agent goes on with its conversation at the next call, within a run of the agent
            that calls it. Calls of one reply go on apart from each other, and are all there for the next reply. Of
            earlier runs it has the questions and answers that the conversation of that agent has, such as its session.

    Raises:
        ConfigurationError: the input is neither text nor an object, or the conversation of a flow is to be kept, which
            has none.
    """

    @checked
    def __init__(
        self,
        agent: AgentService,
        *,
        name: str | None = None,
        description: str | None = None,
        input_type: Any = None,
        keep_conversation: bool = False,
    ) -> None:
        parts = service.fact(agent, AGENT)
        if parts is None:
            raise ConfigurationError(
                f"an agent as a tool needs a name and a description; {service.name_of(agent)} has none of its own, "
                "so wrap it: Runnable(..., name='...')"
            )
        self.inner = agent
        self.name: str = parts.name if name is None else name
        self.entered_as: str = parts.name
        takes = service.fact(agent, TOOL_INPUT)
        if takes is not None and keep_conversation:
            raise ConfigurationError(f"{parts.name} is a flow, which has no conversation: remove keep_conversation=")
        self._input = input_of(takes() if takes is not None and input_type is None else input_type, self.name)
        self._keep = keep_conversation
        spec = ToolSpec(
            self.name,
            (parts.description or f"Ask {self.name}.") if description is None else description,
            self._input.schema,
            permissions=tuple(sorted(parts.permissions)),
            declared=True,
        )
        self.spec: ToolSpec = checked_spec(spec)
        self.facts: dict[service.Fact[Any], Any] = {
            SPEC: self.spec,
            service.COMPOSITE: True,
            service.NAME: self.name,
            NORMALIZE: self._normalize,
        }

    def prompt(self, arguments: str) -> str:
        """Return the prompt that the agent gets for a call; raise InvalidArguments if its arguments do not fit."""
        return self._input.prompt(self._input.normal(arguments))

    def _normalize(self, call: ToolCall) -> ToolCall:
        return ToolCall(call.id, call.name, self._input.normal(call.arguments))

    async def __call__(self, call: ToolCall, ctx: Context, /) -> ToolResult:
        approved = ctx.scope.get(APPROVED_CALL)
        if approved is not None:
            approved.use(call, ctx)
        arguments = self._input.normal(call.arguments)
        request = AgentRequest((user(self._input.prompt(arguments)),))
        ctx = ctx.under(self.entered_as).within(AGENT_INPUT, self._input.value(arguments))
        agent = continued(self.inner, self.name, self._input, ctx) if self._keep else self.inner
        result = result_of_run(call, await enter(agent, request, ctx))
        if result.error is None or JOURNAL not in ctx.scope:
            return result
        # A model that does not know what was done would have it done again.
        stopped = await after_acts(ToolError(result.text, kind=result.error), ctx)
        return replace(result, content=text_of_error(stopped), error=kind_of(stopped))

    def __repr__(self) -> str:
        return f"{self.inner!r}.as_tool({self.name!r})"


def result_of_run(call: ToolCall, run: AgentRun) -> ToolResult:
    if isinstance(run.stop, (stops.Completed, stops.ToolCalled, stops.StopCondition)):
        answer = run._answer
        text = answer if isinstance(answer, str) else encode(answer).decode()
        return ToolResult(call.id, call.name, text, None, call.name)
    if run.pending:  # only outside of all runs; within one, the whole run waits
        names = ", ".join(item.call.name for item in run.pending)
        fault = f"{call.name} waits for a decision on {names}: resume its run {run.id!r}"
        return ToolResult(call.id, call.name, fault, "permanent", call.name)
    fault = f"{call.name} stopped before it was done ({stops.status_of(run.stop)}); so far: {run.text}"
    return ToolResult(call.id, call.name, fault, "permanent", call.name)

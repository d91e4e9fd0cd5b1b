"""The function of a flow as a service."""

import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ziggurat.agents.continue_as_new import ContinueAsNew
from ziggurat.agents.inherited import InheritedArguments, agent_parts, facts_of
from ziggurat.agents.program import run_program
from ziggurat.agents.tool_input import TOOL_INPUT
from ziggurat.agents.values import FlowInput, OutputForm
from ziggurat.calls.agent_call import AGENT_CALL, counted_steps
from ziggurat.calls.deltas import emit_deltas
from ziggurat.calls.enter import AgentParts
from ziggurat.core.codec import canonical
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.service import Fact
from ziggurat.journal.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message, assistant
from ziggurat.tools.parameter import Parameter

_COMPLETED = stops.Completed()


class FlowArguments(InheritedArguments, total=False):
    """The arguments of `flow` and of graphs, besides the name and the store; see `flow`."""

    description: str | None


class FlowProgram(Struct, eq=False):
    function: Callable[..., Any]
    parts: AgentParts
    takes: FlowInput
    returns: Parameter
    context: str | None
    text: Callable[[Any], str] | None = None
    has_node: Callable[[str], bool] | None = None
    facts: dict[Fact[Any], Any] = {}

    def __post_init__(self) -> None:
        self.facts = facts_of(self.parts, "repeatable")  # as tools by default
        self.facts[TOOL_INPUT] = lambda: self.takes.tool_input(self.parts.name)

    async def __call__(self, request: AgentRequest, ctx: Context, /) -> AgentRun:
        arguments: dict[str, Any] = {} if self.context is None else {self.context: ctx}
        if self.takes.kind is not None:
            arguments[self.takes.parameter.name] = self._value(request, ctx)
        call = ctx.scope[AGENT_CALL]
        call.so_far = lambda: self._run_of(request, ctx)
        try:
            output = await run_program(
                lambda: self.function(**arguments), ctx, has_node=self.has_node, setup=self.parts.setup
            )
        except ContinueAsNew as asked:
            stop = await asked.begin(ctx, lambda value: self.takes.prompt(value, {}))
            call.so_far = None
            return self._run_of(request, ctx, stop=stop)
        reply = assistant(self._text_of(output))
        if ctx.listens(Delta):
            await emit_deltas(reply, ctx.at("step-1").at("model"))  # as `emit_recorded` does
        call.so_far = None
        return self._run_of(request, ctx, output, reply)

    def _run_of(
        self,
        request: AgentRequest,
        ctx: Context,
        output: object = None,
        *replies: Message,
        stop: stops.Stop = _COMPLETED,
    ) -> AgentRun:
        return AgentRun(
            Transcript.of(*request.messages, *replies),
            stop,
            output,
            steps=counted_steps(ctx),
            id=ctx.run_id,
            agent=self.parts.name,
            start=len(request.messages),
            seconds=journal_of(ctx).watch.elapsed - ctx.scope[AGENT_CALL].began,
        )

    def _value(self, request: AgentRequest, ctx: Context) -> object:
        try:
            return self.takes.value(request)
        except InvalidArguments as error:
            if not journal_of(ctx).reopened:
                raise
            why = f"the recorded input of {ctx.path} is not of the flow's type: {error}"
            raise journal_of(ctx).refuse(why) from error

    def _text_of(self, output: object) -> str:
        if self.text is not None:
            return self.text(output)
        if isinstance(output, str) and self.returns.wire is str:
            return output
        try:
            return canonical(self.returns.given(output)).decode()
        except ConfigurationError as error:
            why = str(error).removeprefix(f"{self.returns.name}: ")
            raise ConfigurationError(
                f"the flow {self.parts.name} returned {output!r:.200}, whose JSON does not fit its annotation: {why}"
            ) from error

    def __repr__(self) -> str:
        return f"flow({self.parts.name})"


def flow_program(
    function: Callable[..., Any],
    hints: dict[str, Any],
    name: str,
    setup: dict[str, str],
    arguments: FlowArguments,
    permissions: frozenset[str] = frozenset(),
    text: Callable[[Any], str] | None = None,
    has_node: Callable[[str], bool] | None = None,
) -> tuple[FlowProgram, FlowInput]:
    returns = Parameter.of_result(f"the result of the flow {name}", hints["return"])
    takes, context = FlowInput.of(list(inspect.signature(function).parameters), hints, name)
    description = arguments.get("description")
    parts = agent_parts(
        name,
        arguments,
        setup=lambda: {"flow": name, "input": takes.digest, **setup},
        description=inspect.getdoc(function) or "" if description is None else description,
        permissions=permissions,
        read=OutputForm(returns).read,
        keep=OutputForm(returns).keep,
    )
    return FlowProgram(function, parts, takes, returns, context, text, has_node), takes

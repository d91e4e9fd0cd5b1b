"""The input of a flow, a typed value that travels as the text of a message; and its function as a service."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ziggurat.agents.continue_as_new import ContinueAsNew
from ziggurat.agents.inherited import facts_of
from ziggurat.agents.program import run_program
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.enter import AgentParts
from ziggurat.calls.places import counted_steps
from ziggurat.core.codec import canonical, digest
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.facts import Fact
from ziggurat.journal.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.delta import deltas_of
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message, assistant, user
from ziggurat.tools.arguments import read
from ziggurat.tools.parameter import Parameter

_COMPLETED = stops.Completed()


class FlowInput(Struct, frozen=True, eq=False):
    """The input of a flow."""

    kind: Any
    parameter: Parameter

    @classmethod
    def of(cls, names: list[str], hints: Mapping[str, Any], title: str) -> "tuple[FlowInput, str | None]":
        """Return the input among the parameters, and the name of the one for the Context, if there is one."""
        context = next((each for each in names if hints.get(each) is Context), None)
        inputs = [each for each in names if each != context]
        if len(inputs) > 1:
            raise ConfigurationError(
                f"the flow {title} takes one input, got {', '.join(inputs)}: put them into one Struct or dataclass"
            )
        if inputs and inputs[0] not in hints:
            raise ConfigurationError(f"the input {inputs[0]!r} of the flow {title} needs an annotation")
        kind = hints[inputs[0]] if inputs else None
        return cls(kind, Parameter.of(inputs[0] if inputs else "input", kind, required=True)), context

    @property
    def digest(self) -> str:
        """A digest of its schema, which differs when the type has changed."""
        return digest(self.parameter.schema)[:8]

    def prompt(self, value: object, arguments: Mapping[str, Any]) -> str | Message | None:
        """Return the prompt for an input; None if a recorded run is continued."""
        if value is None and self.kind is not None and arguments.get("run_id") is not None:
            return None
        if value is None and (arguments.get("decisions") or arguments.get("strict")):
            return None
        if isinstance(value, Message):
            return value
        if self.kind is str:
            if not isinstance(value, str):
                raise ConfigurationError(f"the flow takes text, got {value!r:.200}")
            return value
        try:
            if isinstance(value, str):
                accepted = read(value)
                plain = self.parameter.recorded(self.parameter.convert(accepted), accepted)
            else:
                plain = self.parameter.given(value)
        except (TypeError, ValueError, ConfigurationError) as error:  # ValueError: Problem, InvalidArguments
            instead = f"pass {self.parameter.name} as a value of its type, or as JSON text"
            if self.kind is None:
                instead = "it takes no input"
            raise ConfigurationError(f"the input of the flow does not fit: {error}; {instead}") from error
        return user(canonical(plain).decode())

    def value(self, request: AgentRequest) -> Any:
        """Return the input in a request."""
        text = request.messages[-1].text
        return text if self.kind is str else self._decode(text)

    def _decode(self, text: str) -> Any:
        try:
            return self.parameter.revive(read(text))
        except InvalidArguments:
            raise
        except ValueError as error:  # Problem
            raise InvalidArguments(str(error)) from error

    def tool_input(self, name: str) -> Any:
        """Return the type of input as `AgentTool` takes it."""
        if self.kind is str:
            return None
        if self.parameter.root.get("type") != "object":
            raise ConfigurationError(
                f"the flow {name} cannot be a tool as it is: the input of a tool is text or an object (a Struct, "
                "dataclass, TypedDict or pydantic model)"
            )
        return self.kind


class FlowProgram(Struct, eq=False):
    """The function of a flow: a service from AgentRequest to AgentRun."""

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

    async def __call__(self, request: AgentRequest, ctx: Context, /) -> AgentRun:
        """Run the function; its result is the output of the run, and as text the last message."""
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
            at = ctx.at("step-1").at("model").path  # as `emit_recorded` does
            for delta in deltas_of(reply):
                await ctx.emit(Delta(at, delta))
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
        """Return the run as far as the function has come; its caller knows how it ends."""
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
            raise ConfigurationError(
                f"the flow {self.parts.name} returned {output!r:.200}, which is not what it is annotated with: {error}"
            ) from error

    def __repr__(self) -> str:
        return f"flow({self.parts.name})"

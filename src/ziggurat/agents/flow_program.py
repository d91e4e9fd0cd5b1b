"""FlowProgram: runs the function of a flow as the service of an agent."""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from ziggurat.agents.flow_input import FlowInput
from ziggurat.agents.program import run_program
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.enter import AGENT, AgentParts
from ziggurat.calls.step import counted_steps
from ziggurat.core.codec import canonical
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments, JournalMismatch
from ziggurat.core.facts import EFFECT, NAME, Fact
from ziggurat.core.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.delta import deltas_of
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message, assistant
from ziggurat.tools.parameter import Parameter


class FlowProgram(Struct, eq=False):
    """The function of a flow: a service from AgentRequest to AgentRun."""

    function: Callable[..., Any]
    parts: AgentParts
    takes: FlowInput
    returns: Parameter
    context: str | None
    text: Callable[[Any], str] | None = None
    facts: dict[Fact[Any], Any] = {}

    def __post_init__(self) -> None:
        self.facts = {AGENT: self.parts, NAME: self.parts.name, EFFECT: "repeatable"}  # as tools by default

    async def __call__(self, request: AgentRequest, ctx: Context, /) -> AgentRun:
        """Run the function; what it returns is the output of the run, and as text the last message."""
        arguments: dict[str, Any] = {} if self.context is None else {self.context: ctx}
        if self.takes.kind is not None:
            arguments[self.takes.parameter.name] = self._value(request, ctx)
        call = ctx.scope[AGENT_CALL]
        call.so_far = partial(self._run_of, request, ctx)
        output = await run_program(lambda: self.function(**arguments), ctx)
        reply = assistant(self._text_of(output))
        if ctx.listens(Delta):
            at = ctx.at("step-1").at("model").path  # as `emit_recorded` does
            for delta in deltas_of(reply):
                await ctx.emit(Delta(at, delta))
        call.so_far = None
        return self._run_of(request, ctx, output, reply)

    def _run_of(self, request: AgentRequest, ctx: Context, output: object = None, *replies: Message) -> AgentRun:
        """Return the run as far as the function has come; its caller knows how it ends."""
        return AgentRun(
            Transcript.of(*request.messages, *replies),
            stops.Completed(),
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
            raise JournalMismatch(f"the recorded input of {ctx.path} is not of the flow's type: {error}") from error

    def _text_of(self, output: object) -> str:
        if self.text is not None:
            return self.text(output)
        if isinstance(output, str) and self.returns.wire is str:
            return output
        try:
            plain = self.returns.plain(output)
            self.returns.restore(plain)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the flow {self.parts.name} returned {output!r:.200}, which is not what it is annotated with: {error}"
            ) from error
        return canonical(plain).decode()

    def __repr__(self) -> str:
        return f"flow({self.parts.name})"

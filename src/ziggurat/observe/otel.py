"""Spans and metrics of OpenTelemetry for agents, model calls and tool calls."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ziggurat.core import errors
from ziggurat.core.context import RUN_ID, Context, Key
from ziggurat.core.service import Service, name_of
from ziggurat.core.settings import checked
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.middleware import CALLER, Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.stops import status_of
from ziggurat.observe import conventions as otel

if TYPE_CHECKING:
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Tracer

_PARENT: "Key[TraceContext]" = Key("parent of spans")
"""The context of OpenTelemetry in which a call's span is the current one, for the spans of the calls below."""


@runtime_checkable
class TracerProvider(Protocol):
    """OpenTelemetry's ``trace.TracerProvider``, as far as it is used."""

    def get_tracer(self, library: str, /) -> "Tracer": ...


@runtime_checkable
class MeterProvider(Protocol):
    """OpenTelemetry's ``metrics.MeterProvider``, as far as it is used."""

    def get_meter(self, library: str, /) -> "Meter": ...


class OpenTelemetry(Middleware):
    """Reports agents, model calls and tool calls, at any depth, as spans and metrics of OpenTelemetry.

    ::

        agent = Agent("openai:gpt-5", tools=[search], middleware=[OpenTelemetry()])

    The spans are ``invoke_agent NAME``, ``chat MODEL`` and ``execute_tool NAME``. Each is the child of the call that
    made it; that of a run is the child of the span that is current where the run is driven. The span of a tool call is
    current while the tool's function runs, so that its own spans become children; no other is ever made current.

    All tries that a layer makes are one span. What is answered from a record makes none. A span that ends because a
    decision is awaited has ``ziggurat.suspended``; the run goes on in a trace of its own, with the same
    ``ziggurat.run.id``.

    Args:
        tracer_provider: Where spans go; by default the global provider. The SDK and the exporters are yours to set up.
        meter_provider: Where metrics go; by default the global provider.
        content: Whether spans have what was sent and received, masked like the record if the run has `Redaction`.
        conventions: The version of OpenTelemetry's conventions for generative AI.

    Raises:
        MissingExtra: the extra ``otel`` is not installed.
        ConfigurationError: an argument has a wrong value.
    """

    @checked
    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool = False,
        conventions: otel.ConventionVersion = "latest",
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace
        except ImportError as error:
            raise errors.MissingExtra("OpenTelemetry", "otel") from error
        self._in_context = trace.set_span_in_context
        self._attach, self._detach = context.attach, context.detach
        self._kinds = dict(trace.SpanKind.__members__)
        self._tracer = (tracer_provider or trace.get_tracer_provider()).get_tracer("ziggurat")
        self._content = content
        self._names = otel.CONVENTIONS[conventions]
        self._instruments = otel.Instruments(
            (meter_provider or metrics.get_meter_provider()).get_meter("ziggurat"), self._names
        )

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        if ctx.replayed:
            return await agent(request, ctx)
        name = ctx.scope[CALLER].agent
        labels = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        with self._call(f"invoke_agent {name}", "INTERNAL", labels, ctx) as call:
            run = await agent(request, ctx.within(_PARENT, self._in_context(call.span)))
            call.end(otel.of_run(run, self._names), None if run.error is None else status_of(run.stop))
        self._instruments.count_agent(run, labels)
        return run

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        name = name_of(model)
        labels = otel.of_model(name)
        kind = "INTERNAL" if otel.is_local(name) else "CLIENT"
        chosen = otel.of_settings(request.settings)
        with self._call(f"chat {labels['gen_ai.request.model']}", kind, labels, ctx, chosen) as call:
            first = otel.FirstChunk(ctx)
            try:
                response = await model(request, first.context)
            finally:
                if first.seconds is not None:
                    call.add({"gen_ai.response.time_to_first_chunk": first.seconds})
                    self._instruments.record_first_chunk(first.seconds, labels)
            call.end(otel.of_response(response, self._names))
            if self._content:
                call.add(otel.content_of_request(request, ctx), otel.content_of_response(response, ctx))
        self._instruments.count_tokens(response.usage, labels)
        return response

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        labels = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
        }
        with self._call(
            f"execute_tool {call.name}", "INTERNAL", labels, ctx, {"gen_ai.tool.call.id": call.id}
        ) as reported:
            if self._content:
                reported.add(otel.content_of_call(call, ctx))
            current = self._in_context(reported.span)
            token = self._attach(current)
            try:
                result = await tool(call, ctx.within(_PARENT, current))
            finally:
                self._detach(token)
            reported.end({}, result.error)
            if self._content:
                reported.add(otel.content_of_result(result, ctx))
        return result

    def _call(
        self, name: str, kind: str, labels: dict[str, str], ctx: Context, group: otel.Attributes | None = None
    ) -> "_Call":
        place = {"ziggurat.run.id": ctx.scope.get(RUN_ID) or "", "ziggurat.path": ctx.path}
        facts = {**labels, **place, **(group or {})}
        span = self._tracer.start_span(name, ctx.scope.get(_PARENT), self._kinds[kind], facts, record_exception=False)
        return _Call(span, labels, self._instruments, ctx)


class _Call:
    __slots__ = ("_ctx", "_failure", "_instruments", "_labels", "_started", "span")

    def __init__(self, span: "Span", labels: dict[str, str], instruments: otel.Instruments, ctx: Context) -> None:
        self.span = span
        self._labels = labels
        self._instruments = instruments
        self._ctx = ctx
        self._failure: str | None = None
        self._started = ctx.clock.monotonic()

    def add(self, *groups: otel.Attributes) -> None:
        if any(groups) and self.span.is_recording():
            for group in groups:
                self.span.set_attributes(group)

    def end(self, group: otel.Attributes, failure: str | None = None) -> None:
        self.add(group)
        self._failure = failure

    def __enter__(self) -> "_Call":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.Suspend):
            self.span.set_attribute("ziggurat.suspended", True)
            self.span.end()
            return
        failure = self._failure if error is None else errors.type_name_of(error)
        if failure is not None:
            from opentelemetry.trace import StatusCode

            self.span.set_attribute("error.type", failure)
            self.span.set_status(StatusCode.ERROR)
        self.span.end()
        self._instruments.record_duration(self._ctx.clock.monotonic() - self._started, self._labels, failure)

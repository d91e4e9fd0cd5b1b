"""What telemetry costs beside a step of one model call and one tool call.

    python -P benchmarks/telemetry.py

CPU time in microseconds for a step, the least of some rounds in which all alternate. The model and the tool answer at
once, and spans are exported to nowhere. Two bare spans of the SDK are the floor of what is traced.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from ziggurat.agents.agent import Agent
from ziggurat.core.context import Context
from ziggurat.messages.message import assistant, tool_call
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.observe.metrics import Metrics
from ziggurat.observe.otel import OpenTelemetry

ROUNDS = 25
STEPS = 200
NAMES = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "ziggurat", "gen_ai.request.model": "model"}

Work = Callable[[], Awaitable[object]]


class Nowhere(SpanExporter):
    """Exports nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Return that it succeeded."""
        return SpanExportResult.SUCCESS


def tracers() -> TracerProvider:
    """Return a provider of the SDK whose spans are recorded and exported to nowhere."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Nowhere()))
    return provider


def run_of(*middleware: Middleware) -> Work:
    """Return a run of the number of steps."""
    call, answer = ModelResponse(assistant(tool_call("look")), "tool_calls"), ModelResponse(assistant("Done."), "stop")

    async def look() -> str:
        """Look."""
        return "nothing"

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        return answer if len(request.messages) > 2 * STEPS else call

    agent = Agent(model, tools=[look], middleware=middleware, max_steps=STEPS + 1)
    return lambda: agent.run("Go.")


def bare_spans() -> Work:
    """Return two spans of the SDK for each step, with three attributes, and nothing else."""
    tracer = tracers().get_tracer("bare")

    async def work() -> None:
        for _ in range(2 * STEPS):
            tracer.start_span("chat", None, attributes=NAMES).end()

    return work


async def measure(works: dict[str, Work]) -> dict[str, float]:
    """Return the least CPU time of each for a step, in microseconds."""
    least = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            gc.collect()
            gc.disable()
            started = time.process_time()
            await work()
            least[name] = min(least[name], (time.process_time() - started) / STEPS * 1e6)
            gc.enable()
    return least


def main() -> None:
    """Measure, and print a table."""
    logging.disable()
    meters = MeterProvider([InMemoryMetricReader()])
    works = {
        "no telemetry": run_of(),
        "middleware without hooks": run_of(Middleware()),
        "Metrics": run_of(Metrics()),
        "OpenTelemetry, API only": run_of(OpenTelemetry()),
        "OpenTelemetry, spans": run_of(OpenTelemetry(tracer_provider=tracers())),
        "OpenTelemetry, spans and metrics": run_of(OpenTelemetry(tracer_provider=tracers(), meter_provider=meters)),
        "two bare spans": bare_spans(),
    }
    for name, least in asyncio.run(measure(works)).items():
        print(f"{name:<34} {least:8.2f}")


if __name__ == "__main__":
    main()

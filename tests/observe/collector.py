"""Providers of OpenTelemetry of which everything can be read."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ziggurat.observe import OpenTelemetry
from ziggurat.observe.conventions import ConventionVersion


class Collector(SpanProcessor):
    """Providers of which everything can be read."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracers.add_span_processor(self)
        self.started = 0
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])

    def telemetry(self, *, content: bool = False, conventions: ConventionVersion = "latest") -> OpenTelemetry:
        return OpenTelemetry(
            tracer_provider=self.tracers, meter_provider=self.meters, content=content, conventions=conventions
        )

    def on_start(self, span: Span, parent_context: object = None) -> None:
        self.started += 1

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    @property
    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        resources = [] if data is None else data.resource_metrics
        return {
            metric.name: metric.data for each in resources for scope in each.scope_metrics for metric in scope.metrics
        }

"""Listeners and middleware that report the events of a run and change nothing."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "observe.console": ("ConsoleView",),
        "observe.jsonl": ("JsonLines",),
        "observe.logs": ("JsonFormatter", "RunFilter"),
        "observe.metrics": ("CallStatistics", "Metrics"),
        "observe.otel": ("MeterProvider", "OpenTelemetry", "TracerProvider"),
        "messages.price": ("cost",),
        "observe.picture": ("diagram_svg",),
        "observe.price": ("Costs",),
        "observe.run_node": ("NodeKind", "RunNode"),
        "observe.tree": ("RunTree", "run_tree"),
    },
)

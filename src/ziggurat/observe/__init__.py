"""Listeners: they report the events of a run and change nothing.

- On a terminal or in a notebook: `console`, written to a `screen`; `multiplexer` shows several models that stream
  at the same time.
- As lines of JSON: `jsonl`. As costs: `price`. Which run a log record is of, and log records as JSON: `logs`.
- As a tree of its calls, made of its record: `tree`, of nodes (`run_node`), drawn by `tree_drawing`.
- As spans and metrics of OpenTelemetry: `otel`, with `otel_attributes` and `otel_metrics`. As metrics in memory:
  `metrics`, as text by `prometheus`. Their names are in `conventions`; both use `first_chunk`. Both are middleware,
  because it learns of the end of a call that is cancelled.
"""

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
        "observe.price": ("Costs",),
        "observe.run_node": ("NodeKind", "RunNode"),
        "observe.tree": ("RunTree", "run_tree"),
    },
)

# Written by tests/test_names.py from __init__.py.
from ziggurat.messages.price import cost as cost
from ziggurat.observe.console import ConsoleView as ConsoleView
from ziggurat.observe.jsonl import JsonLines as JsonLines
from ziggurat.observe.logs import JsonFormatter as JsonFormatter
from ziggurat.observe.logs import RunFilter as RunFilter
from ziggurat.observe.metrics import CallStatistics as CallStatistics
from ziggurat.observe.metrics import Metrics as Metrics
from ziggurat.observe.otel import MeterProvider as MeterProvider
from ziggurat.observe.otel import OpenTelemetry as OpenTelemetry
from ziggurat.observe.otel import TracerProvider as TracerProvider
from ziggurat.observe.picture import diagram_svg as diagram_svg
from ziggurat.observe.price import Costs as Costs
from ziggurat.observe.run_node import NodeKind as NodeKind
from ziggurat.observe.run_node import RunNode as RunNode
from ziggurat.observe.tree import RunTree as RunTree
from ziggurat.observe.tree import run_tree as run_tree

__all__: list[str]

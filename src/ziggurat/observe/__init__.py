"""Listeners and middleware that report the events of a run and change nothing."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.usage import cost as cost
    from ziggurat.observe.console import ConsoleView as ConsoleView
    from ziggurat.observe.jsonl import JsonFormatter as JsonFormatter, JsonLines as JsonLines, RunFilter as RunFilter
    from ziggurat.observe.metrics import Metrics as Metrics
    from ziggurat.observe.otel import OpenTelemetry as OpenTelemetry
    from ziggurat.observe.picture import diagram_svg as diagram_svg
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)

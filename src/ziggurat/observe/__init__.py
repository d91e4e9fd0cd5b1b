"""Listeners: they report the events of a run and change nothing.

- On a terminal or in a notebook: `console`, written to a `screen`; `line_wrapper` wraps text that streams in,
  `multiplexer` shows several models that stream at the same time.
- As lines of JSON: `jsonl`. As costs: `price`.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.observe.console import ConsoleView
    from ziggurat.observe.jsonl import JsonLines
    from ziggurat.observe.price import Costs, cost
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "observe.console": ("ConsoleView",),
            "observe.jsonl": ("JsonLines",),
            "observe.price": ("Costs", "cost"),
        },
    )

__all__ = [
    "ConsoleView",
    "Costs",
    "JsonLines",
    "cost",
]

"""Listeners: they report the events of a run and change nothing.

- On a terminal or in a notebook: `console`, written to a `screen`; `line_wrapper` wraps text that streams in,
  `multiplexer` shows several models that stream at the same time.
- As lines of JSON: `jsonl`. As costs: `price`.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "observe.console": ("ConsoleView",),
        "observe.jsonl": ("JsonLines",),
        "messages.price": ("cost",),
        "observe.price": ("Costs",),
    },
)

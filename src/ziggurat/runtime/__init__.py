"""What connects many coroutines of one process: a bus for messages, and a directory of who can do what.

Its names have `Runtime`, too, an agent put together of many parts: it is in the room of the agents.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.runtime": ("Runtime",),
        "runtime.bus": (
            "Address",
            "Broadcast",
            "Bus",
            "BusClosed",
            "BusMessage",
            "BusStatistics",
            "Lagged",
            "Role",
            "Specific",
            "Subscription",
        ),
        "runtime.directory": ("Directory", "Health", "Match", "Registration"),
    },
)

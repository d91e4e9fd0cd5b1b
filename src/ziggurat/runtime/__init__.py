"""What connects many coroutines of one process: a bus for messages, and a directory of who can do what."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
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

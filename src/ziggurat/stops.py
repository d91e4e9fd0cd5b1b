"""Stops: the reasons why a run ended, as values of `run.stop`."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "messages.stops": (
            "BudgetExceeded",
            "Cancelled",
            "Completed",
            "Failed",
            "Incomplete",
            "LoopDetected",
            "MaxSteps",
            "ModelCallDenied",
            "Stop",
            "StopCondition",
            "Suspended",
            "TimedOut",
            "ToolCalled",
            "status_of",
        ),
    },
)

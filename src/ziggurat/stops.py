"""Stops: the reasons why a run ended, as values of `run.stop`."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.stops import (
        BudgetExceeded,
        Cancelled,
        Completed,
        Failed,
        Incomplete,
        LoopDetected,
        MaxSteps,
        ModelCallDenied,
        Stop,
        StopCondition,
        Suspended,
        TimedOut,
        ToolCalled,
        status_of,
    )
else:
    __getattr__, __dir__ = lazy(
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

__all__ = [
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
]

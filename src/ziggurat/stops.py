"""Stops: the reasons why a run ended, as values of `run.stop`."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.stops import (
        BudgetExceeded as BudgetExceeded,
        Cancelled as Cancelled,
        Completed as Completed,
        Continued as Continued,
        Failed as Failed,
        Incomplete as Incomplete,
        LoopDetected as LoopDetected,
        MaxSteps as MaxSteps,
        ModelCallDenied as ModelCallDenied,
        Stop as Stop,
        StopCondition as StopCondition,
        Suspended as Suspended,
        TimedOut as TimedOut,
        ToolCalled as ToolCalled,
        status_of as status_of,
    )
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)

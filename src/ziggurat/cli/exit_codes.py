"""Exit codes of the command line; they are part of its interface."""

__all__ = ["COMPLETED", "INTERRUPTED", "STOPPED", "SUSPENDED", "USAGE", "code_of"]

from ziggurat.messages import stops

COMPLETED = 0
"""There is an answer, or the run ended where it was told to."""

STOPPED = 1
"""The run failed or was stopped early."""

USAGE = 2
"""Something was asked wrongly, or is not installed."""

SUSPENDED = 3
"""The run waits for decisions."""

INTERRUPTED = 130
"""Somebody pressed Ctrl-C."""


def code_of(stop: stops.Stop) -> int:
    """Return the exit code for a stop."""
    if isinstance(stop, (stops.Completed, stops.ToolCalled, stops.StopCondition)):
        return COMPLETED
    if isinstance(stop, stops.Suspended):
        return SUSPENDED
    return INTERRUPTED if isinstance(stop, stops.Cancelled) else STOPPED

"""Exit codes of the command line; they are part of its interface."""

from ziggurat.messages import stops

COMPLETED = 0
"""There is an answer, or the run stopped where it should."""

STOPPED = 1
"""The run failed or was stopped early."""

USAGE = 2
"""Wrong usage, or something is not installed."""

SUSPENDED = 3
"""The run waits for decisions."""

INTERRUPTED = 130
"""The user pressed Ctrl-C."""


def code_of(stop: stops.Stop) -> int:
    """Return the exit code for the way a run stopped."""
    if isinstance(stop, (stops.Completed, stops.ToolCalled, stops.StopCondition)):
        return COMPLETED
    if isinstance(stop, stops.Suspended):
        return SUSPENDED
    return INTERRUPTED if isinstance(stop, stops.Cancelled) else STOPPED

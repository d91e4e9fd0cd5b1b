"""Durable flows: plain async functions whose steps are recorded, so that they go on after a crash."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.flow import Flow, flow
    from ziggurat.calls.step import Arguments, Step, step
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "agents.flow": ("Flow", "flow"),
            "calls.step": ("Arguments", "Step", "step"),
        },
    )

__all__ = ["Arguments", "Flow", "Step", "flow", "step"]

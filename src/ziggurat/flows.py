"""Durable flows: plain async functions whose steps are recorded, so that they go on after a crash."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.flow": ("Flow", "flow"),
        "calls.gather": ("first", "gather", "quorum", "settled"),
        "calls.question": ("Question", "ask", "question_of"),
        "calls.step": ("Arguments", "Step", "step"),
        "calls.timer": ("sleep",),
    },
)

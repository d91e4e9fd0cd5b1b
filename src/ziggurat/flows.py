"""Durable flows: plain async functions whose steps are recorded, so that they go on after a crash."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.flow": ("Flow", "flow"),
        "agents.schedule": ("Schedule", "schedule"),
        "calls.call_decision": ("Question", "question_of"),
        "calls.event": ("event",),
        "calls.gather": ("first", "gather", "quorum", "settled"),
        "calls.question": ("ask",),
        "calls.step": ("Arguments", "Step", "step"),
        "calls.waiting": ("sleep",),
        "core.clock": ("Cron", "Every", "Recurrence", "cron", "due_ticks", "every"),
        "runs.sending": ("send",),
    },
)

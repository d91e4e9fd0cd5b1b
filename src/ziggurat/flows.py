"""Durable flows: plain async functions whose steps are recorded, so that they go on after a crash."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.continue_as_new import continue_as_new as continue_as_new
    from ziggurat.agents.flow import Flow as Flow, flow as flow
    from ziggurat.agents.recurrence import cron as cron, every as every
    from ziggurat.agents.schedule import schedule as schedule
    from ziggurat.calls.awaited import ask as ask, event as event, sleep as sleep
    from ziggurat.calls.gather import first as first, gather as gather, quorum as quorum, settled as settled
    from ziggurat.calls.step import step as step
    from ziggurat.runs.sending import send as send
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)

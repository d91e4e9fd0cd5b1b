"""Recovery: go on with the runs whose process has ended without ending them."""

import sys
from typing import Any, Generic

from msgspec import Struct

from ziggurat.agents.starter import Starter
from ziggurat.agents.worker import Worker
from ziggurat.core.errors import LeaseHeld, RunNotFound
from ziggurat.core.queue import Claim
from ziggurat.messages.agent import AgentRun, Out
from ziggurat.runs.options import RunOptions


class Recovery(Struct, Generic[Out], frozen=True, eq=False):
    """What became of the runs that were recovered.

    Attributes:
        runs: The runs that were continued, by their ids; why each stopped is in its ``stop``.
        errors: By the ids of runs that could not go on: a damaged record, or a mistake such as missing dependencies.
    """

    runs: dict[str, AgentRun[Out]]
    errors: dict[str, Exception]


async def recover_runs(
    starter: Starter, options: RunOptions, concurrency: int, attempts: int, cancelled: bool
) -> Recovery[Any]:
    """Continue the runs of an agent that are due; see `RunQueue.recover`."""
    recovery: Recovery[Any] = Recovery({}, {})

    def report(run_id: str, outcome: AgentRun[Any] | Exception) -> None:
        if isinstance(outcome, Exception):
            recovery.errors[run_id] = outcome
        else:
            recovery.runs[run_id] = outcome

    worker: Worker[Any] = Worker(starter, options, concurrency, attempts, 0.0, report=report)
    await worker.run_due(await _interrupted(starter) if cancelled else ())
    return recovery


async def _interrupted(starter: Starter) -> list[Claim]:
    """Lease the runs that were cancelled from outside; the one that has waited longest is the first."""
    runs, claims = starter.opener.runs, list[Claim]()
    for info in reversed(await runs.list(starter.name, "Cancelled", None, sys.maxsize)):
        if not await runs.was_interrupted(info):
            continue
        try:
            epoch = await runs.store.lease(info.log)
        except (LeaseHeld, RunNotFound):  # another process has it, or it was deleted
            continue
        now = await runs.find(info.id)
        if now is not None and now.count == info.count:
            claims.append(Claim(info.log, epoch))
        else:  # another process has driven it meanwhile
            await runs.store.release(info.log, epoch)
    return claims

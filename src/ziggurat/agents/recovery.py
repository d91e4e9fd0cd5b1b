"""Recovery: go on with the runs whose process has ended without ending them."""

__all__ = ["Recovery", "recover_runs"]

import asyncio
import logging
import sys
from functools import partial
from typing import Any, Generic

from msgspec import Struct

from ziggurat.agents.starter import Starter
from ziggurat.core.errors import ConfigurationError, LeaseHeld, RunNotFound
from ziggurat.messages.agent import AgentRun, Out
from ziggurat.runs.options import RunOptions
from ziggurat.runs.recovering import Recovering

logger: logging.Logger = logging.getLogger("ziggurat")


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
    """Continue the runs of an agent that are on record as running and that no process drives; see `Runnable.recover`.

    A run is taken under its lease, so that of several processes that recover at the same time one gets it.
    """
    runs = starter.opener.runs
    if not runs.keeps_ended:
        raise ConfigurationError(
            f"{starter.name} has no store, so its runs end with their process and there is nothing to recover: "
            "give it one, as in Agent(..., store='sqlite:///agents.db')"
        )
    listed = [*await runs.list(agent=starter.name, status="running", limit=sys.maxsize)]
    if cancelled:
        for info in await runs.list(agent=starter.name, status="Cancelled", limit=sys.maxsize):
            if await runs.was_interrupted(info):
                listed.append(info)
        listed.sort(key=lambda info: -info.updated)
    waiting = [info.id for info in listed]  # the one that has waited longest is the last
    recovery: Recovery[Any] = Recovery({}, {})
    recovering = Recovering(attempts, cancelled)

    async def work() -> None:
        while waiting:
            run_id = waiting.pop()
            if runs.is_in_progress(run_id):
                continue
            reopen = partial(starter.opener.reopen, run_id, options, recovering=recovering)
            try:
                recovery.runs[run_id] = await starter.drive_apart(reopen, "recovered")
            except (LeaseHeld, RunNotFound):  # another process has it, or it was deleted
                continue
            except Exception as error:  # noqa: BLE001 - whatever is wrong with this run, the others go on
                if isinstance(error, ConfigurationError) and runs.is_in_progress(run_id):
                    continue  # it was continued here since we looked
                logger.error("the run %s could not be recovered: %s", run_id, error)
                recovery.errors[run_id] = error

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(waiting))):
            group.create_task(work())
    return recovery

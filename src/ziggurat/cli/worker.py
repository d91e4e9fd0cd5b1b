"""``ziggurat submit`` and ``worker``: leave a run to workers, and drive the runs that are due."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.agents.schedule import Schedule
from ziggurat.agents.worker import Worker
from ziggurat.cli.agent_options import AgentOptions
from ziggurat.cli.build import agent_of, in_store
from ziggurat.cli.exit_codes import COMPLETED, INTERRUPTED
from ziggurat.cli.load import load_agent_or_schedule
from ziggurat.cli.store import closed, labels_from
from ziggurat.cli.terminal import note, write
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.visible import visible_line


def submit_run(
    agent: str,
    prompt: str,
    store: str | None,
    *,
    run_id: str | None,
    labels: Sequence[str] | None,
    not_before: str | None,
    priority: int,
) -> int:
    """Store a run for a worker, and write its id; return the exit code."""
    place = agent_of(AgentOptions(agent=agent), store)
    due = None if not_before is None else _time(not_before)

    async def submit() -> str:
        try:
            submitted = await place.submit(
                prompt, run_id=run_id, labels=labels_from(labels) or None, not_before=due, priority=priority
            )
            return submitted.id
        finally:
            await closed(place.store)

    write(visible_line(asyncio.run(submit())))
    return COMPLETED


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"--not-before is a date, or a date and a time, as in 2030-01-31T08:00; got {text!r}"
        ) from None
    return time.astimezone()  # without a zone it is in local time


def run_workers(agents: Sequence[str], store: str | None, *, concurrency: int, attempts: int, grace: float) -> int:
    """Drive what is due for agents, and submit what is due of schedules, until a signal comes; return the exit code."""
    runnables, schedules = dict[str, Runnable](), dict[str, list[Schedule]]()
    for spec in agents:
        loaded = load_agent_or_schedule(spec)
        if isinstance(loaded, Schedule):
            runnable = runnables.setdefault(loaded.runnable.name, in_store(loaded.runnable, store))
            schedules.setdefault(runnable.name, []).append(loaded.with_store(runnable.store))
        else:
            runnable = agent_of(AgentOptions(agent=spec), store)
            runnables.setdefault(runnable.name, runnable)
    workers = [
        runnable.worker(
            concurrency=concurrency, attempts=attempts, grace=grace, schedules=schedules.get(runnable.name, ())
        )
        for runnable in runnables.values()
    ]
    return asyncio.run(_work(list(runnables.values()), workers, grace))


async def _work(agents: Sequence[Runnable], workers: Sequence[Worker[Any]], grace: float) -> int:
    working = asyncio.gather(*(worker.run() for worker in workers))
    signalled = False

    def stop() -> None:
        nonlocal signalled
        if signalled:
            working.cancel()
        signalled = True
        note(f"draining: runs have {grace:g} s to end; a second signal gives them back at once")
        for worker in workers:
            worker.drain()

    with suppress(NotImplementedError):  # where the event loop takes no signals, Ctrl-C cancels
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)
    note(f"working on the runs of {', '.join(visible_line(agent.name) for agent in agents)}")
    try:
        await working
    except asyncio.CancelledError:
        if not signalled:
            raise
        return INTERRUPTED
    finally:
        for agent in agents:
            await closed(agent.store)
    return COMPLETED

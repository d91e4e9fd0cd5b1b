"""``ziggurat submit``, ``worker`` and ``recover``: leave runs to workers, and drive the runs that are due."""

import asyncio
from datetime import datetime
from typing import Annotated

from typer import Argument, Option

from ziggurat.cli import options
from ziggurat.cli.agents import agent_of
from ziggurat.cli.outcome import COMPLETED, STOPPED
from ziggurat.cli.store import labels_from, require_lasting, then_closed
from ziggurat.cli.supervised import loaded_all, supervised
from ziggurat.cli.terminal import note, write
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.visible import visible_line
from ziggurat.journal.store import UNFINISHED
from ziggurat.messages import stops
from ziggurat.messages.formatting import plural


def submit(
    agent: options.Named,
    prompt: Annotated[str, Argument(help="The question or task, or the input of a flow as JSON, in quotes.")],
    run_id: Annotated[str | None, Option("--run-id", metavar="ID", help="Its id; the same is submitted once.")] = None,
    label: Annotated[list[str] | None, Option("--label", metavar="NAME=VALUE", help="A label of the run.")] = None,
    not_before: Annotated[str | None, Option("--not-before", metavar="WHEN", help="As in 2030-01-31T08:00.")] = None,
    priority: Annotated[int, Option("--priority", min=-100, max=100, metavar="N", help="The highest come first.")] = 0,
    store: options.Store = None,
) -> None:
    """Store a run for a worker to drive, and write its id.

    \b
    Examples:
      ziggurat submit desk.py:agent "Write the report" --run-id report-7
      ziggurat submit orders.py:order '{"item": "lamp"}' --not-before 2030-01-31T08:00
    """
    place = agent_of(options.AgentOptions(agent=agent), store)
    require_lasting(place.store, "submit", "run", "--store")
    due = None if not_before is None else _time(not_before)
    labels = labels_from(label) or None
    submitting = place.submit(prompt, run_id=run_id, labels=labels, not_before=due, priority=priority)
    write(visible_line(then_closed(place.store, submitting).id))


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"--not-before is a date, or a time as 2030-01-31T08:00; got {text!r}") from None
    return time.astimezone()  # without a zone it is in local time


def worker(
    agents: Annotated[list[str], Argument(metavar="FILE.PY:NAME...", help="Agents and schedules to work for.")],
    concurrency: options.Concurrency = 10,
    attempts: options.Attempts = 3,
    grace: options.Grace = 30.0,
    store: options.Store = None,
) -> int:
    """Drive the runs of agents that are due, until a signal to end.

    Due are those that were submitted, those whose timer has fired, and those whose process was lost. Any number of
    workers may share a store and schedules. At SIGTERM or Ctrl-C no more are taken; a second signal does not wait.

    \b
    Examples:
      ziggurat worker desk.py:agent orders.py:order reports.py:nightly --concurrency 20
    """
    runnables, schedules = loaded_all(agents, store)
    for each in runnables.values():
        require_lasting(each.store, "worker", "run", "--store")
    workers = [
        each.worker(schedules=schedules.get(name, ()), concurrency=concurrency, attempts=attempts, grace=grace)
        for name, each in runnables.items()
    ]
    note(f"working on the runs of {', '.join(map(visible_line, runnables))}")
    return asyncio.run(supervised(workers, grace))


def recover(
    agent: options.Named,
    concurrency: options.Concurrency = 10,
    attempts: options.Attempts = 3,
    cancelled: Annotated[bool, Option("--cancelled", help="Also runs that a shutdown has cancelled.")] = False,
    store: options.Store = None,
) -> int:
    """Go on with the runs of an agent that are due: what a worker does, once.

    These are the runs whose process has ended without ending them, those that were submitted, and those whose timer has
    fired. Runs that another process drives are left alone, so several processes may recover at the same time. One line
    per run says how it stopped. Exit code: 1 if a run failed or could not go on, else 0.

    \b
    Examples:
      ziggurat recover desk.py:agent --store sqlite:///agents.db
    """
    runnable = agent_of(options.AgentOptions(agent=agent), store)
    recovering = runnable.recover(concurrency=concurrency, attempts=attempts, cancelled=cancelled)
    recovery = then_closed(runnable.store, recovering)
    for run_id, run in recovery.runs.items():
        write(f"{visible_line(run_id)}  {type(run.stop).__name__}")
    for run_id, error in recovery.errors.items():
        write(f"{visible_line(run_id)}  {type(error).__name__}: {visible_line(str(error))}")
    if not recovery.runs and not recovery.errors:
        note("no interrupted run to recover")
        return COMPLETED
    note(f"{plural(len(recovery.runs), 'run')} recovered, {len(recovery.errors)} could not be")
    waiting = UNFINISHED - {stops.Suspended.__name__}  # a run that waits for a decision has done what it could
    failed = any(type(run.stop).__name__ in waiting for run in recovery.runs.values())
    return STOPPED if failed or recovery.errors else COMPLETED

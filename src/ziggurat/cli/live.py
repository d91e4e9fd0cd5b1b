"""Runs on the terminal: shown while they happen, with questions to the person there; or as lines of JSON."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any, TextIO

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.cli import outcome, terminal
from ziggurat.cli.approve import Ask, Say, ask_decisions, by_hand
from ziggurat.cli.store import is_kept
from ziggurat.core.event import Listener
from ziggurat.core.path import escaped
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.events import AgentEnded
from ziggurat.observe.console import ConsoleView
from ziggurat.observe.jsonl import JsonLines
from ziggurat.runs.drive import partial_of
from ziggurat.tools.approval import Approvals

Begin = Callable[[Sequence[Listener]], Coroutine[Any, Any, AgentRun]]
"""Starts or continues a run with the given listeners."""


class OutputOptions(Struct, frozen=True):
    """What to write; `where` are the options with which another command finds the run."""

    json: bool = False
    quiet: bool = False
    where: str | None = None


def show_run(agent: Runnable, begin: Begin, output: OutputOptions, approvals: Approvals | None, run_id: str) -> int:
    with live_view(quiet=output.quiet or output.json) as (out, view, whole):
        if output.json:
            return in_json(agent, begin, out, run_id, output.where)
        with asyncio.Runner() as runner:
            try:
                run = answered(runner, agent, begin, view, approvals, terminal.read_line, terminal.write)
            except KeyboardInterrupt:
                return outcome.report_interrupted(
                    run_id, output.where if runner.run(is_kept(agent.store, run_id)) else None
                )
            finally:
                runner.run(agent.store.close())
    return outcome.write_outcome(run, out, output.where, was_shown=whole)


@contextmanager
def live_view(*, quiet: bool) -> Iterator[tuple[TextIO, ConsoleView | None, bool]]:
    """Yield standard output, the view of a run, and whether that shows the answer too, as it does on a terminal."""
    out = sys.stdout
    whole = out.isatty() and not quiet
    view = None if quiet else ConsoleView(out if whole else sys.stderr, text=whole, reasons=False)
    with ExitStack() if whole else redirect_stdout(sys.stderr):  # what tools print must not mix with the answer
        yield out, view, whole


def answered(
    runner: asyncio.Runner,
    agent: Runnable,
    begin: Begin,
    view: ConsoleView | None,
    approvals: Approvals | None,
    ask: Ask,
    say: Say,
) -> AgentRun:
    listeners: list[Listener] = [] if view is None else [view]
    going = begin(listeners)
    while True:
        with view or ExitStack():
            run = runner.run(going)
        if not (outcome.undecided(run) and by_hand()):
            return run
        decisions = ask_decisions(agent, run, ask, say)
        going = agent.resume(run.id, decisions, approvals=approvals, listeners=listeners)


def in_json(agent: Runnable, begin: Begin, out: TextIO, run_id: str, where: str | None) -> int:
    """Write every event of a run as a line; the last line is always the agent's AgentEnded."""
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8")
    kept = pipe_closed = False

    async def written() -> AgentRun:
        nonlocal kept
        task = asyncio.current_task()

        def on_closed() -> None:
            nonlocal pipe_closed
            pipe_closed = True
            if task is not None:
                task.cancel()

        lines = JsonLines(out, on_closed=on_closed)
        try:
            return await begin([lines])
        except (Exception, asyncio.CancelledError) as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            kept = cancelled and await is_kept(agent.store, run_id)
            begun = partial_of(error)
            if begun is not None and lines.written:  # the agent could not write its end
                stop = stops.Cancelled() if cancelled else stops.Failed(str(error), type(error).__name__)
                lines(AgentEnded(escaped(agent.name), replace(begun, stop=stop)))
            raise
        finally:
            await agent.store.close()

    try:
        run = asyncio.run(written())
    except asyncio.CancelledError:
        if not pipe_closed:
            raise
    except KeyboardInterrupt:
        return outcome.report_interrupted(run_id, where if kept else None)
    if pipe_closed:
        raise BrokenPipeError
    return outcome.report(run, where)

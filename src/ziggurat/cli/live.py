"""Runs on the terminal: shown while they happen, with questions to the person there; or as lines of JSON."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import TextIO

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.cli.approve import Ask, Say, ask_decisions, by_hand
from ziggurat.cli.lines import Begin, in_json
from ziggurat.cli.outcome import report_interrupted, undecided, write_outcome
from ziggurat.cli.store import is_kept
from ziggurat.cli.terminal import read_line, write
from ziggurat.core.event import Listener
from ziggurat.messages.agent import AgentRun
from ziggurat.observe.console import ConsoleView
from ziggurat.tools.approval import Approvals


class OutputOptions(Struct, frozen=True):
    """What to write; `where` are the options with which another command finds the run."""

    json: bool = False
    quiet: bool = False
    where: str | None = None


def show_run(agent: Runnable, begin: Begin, output: OutputOptions, approvals: Approvals | None, run_id: str) -> int:
    """Show a run live and write its answer; return the exit code."""
    with live_view(quiet=output.quiet or output.json) as (out, view, whole):
        if output.json:
            return in_json(agent, begin, out, run_id, output.where)
        with asyncio.Runner() as runner:
            try:
                run = answered(runner, agent, begin, view, approvals, read_line, write)
            except KeyboardInterrupt:
                return report_interrupted(run_id, output.where if runner.run(is_kept(agent.store, run_id)) else None)
            finally:
                runner.run(agent.store.close())
    return write_outcome(run, out, output.where, was_shown=whole)


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
    """Run to the end, asking for pending decisions if there is a person to ask."""
    listeners: list[Listener] = [] if view is None else [view]
    going = begin(listeners)
    while True:
        with view or ExitStack():
            run = runner.run(going)
        if not (undecided(run) and by_hand()):
            return run
        decisions = ask_decisions(agent, run, ask, say)
        going = agent.resume(run.id, decisions, approvals=approvals, listeners=listeners)

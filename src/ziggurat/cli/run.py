"""``ziggurat run``: one question, one answer, and an exit code."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from typing import Any, TextIO

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.cli.approve import ask_decisions, by_hand, undecided
from ziggurat.cli.exit_codes import COMPLETED, INTERRUPTED, code_of
from ziggurat.cli.store import closed, is_kept, tell_if_busy
from ziggurat.cli.terminal import note, read_line, shell_word, write, write_json
from ziggurat.core.clock import new_id
from ziggurat.core.codec import encode
from ziggurat.core.event import Listener
from ziggurat.core.path import escaped
from ziggurat.core.store import UNFINISHED
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, PendingItem
from ziggurat.messages.events import AgentEnded
from ziggurat.messages.formatting import call_text, plural, stop_text
from ziggurat.observe.console import ConsoleView
from ziggurat.observe.jsonl import JsonLines
from ziggurat.runs.drive import partial_of
from ziggurat.tools.approval import Approvals


class OutputOptions(Struct, frozen=True):
    """What to write where."""

    json: bool = False
    quiet: bool = False
    where: str | None = None


Begin = Callable[[Sequence[Listener]], Coroutine[Any, Any, AgentRun]]
"""Starts or continues a run with the given listeners."""


def run_question(
    agent: Runnable,
    question: str,
    output: OutputOptions,
    approvals: Approvals | None = None,
    labels: Mapping[str, object] | None = None,
    session: str | None = None,
) -> int:
    """Ask an agent, in a stored session if one is named, and write its answer; return the exit code."""
    run_id = new_id()

    async def begin(listeners: Sequence[Listener]) -> AgentRun:
        if session is not None:
            await tell_if_busy(agent.store, session)
        return await agent.run(
            question, approvals=approvals, labels=labels, listeners=listeners, run_id=run_id, session=session
        )

    return show_run(agent, begin, output, approvals, run_id)


def show_run(agent: Runnable, begin: Begin, output: OutputOptions, approvals: Approvals | None, run_id: str) -> int:
    """Show a run live and write its answer; return the exit code."""
    out = sys.stdout
    whole = out.isatty() and not output.json and not output.quiet
    with ExitStack() as stack:
        if not whole:  # what tools print must not mix with the answer on a pipe
            stack.enter_context(redirect_stdout(sys.stderr))
        if output.json:
            return _in_json(agent, begin, out, run_id, output.where)
        view = None
        if not output.quiet:
            view = ConsoleView(out if whole else sys.stderr, text=whole, reasons=False)
        run = _by_hand(agent, begin, view, approvals, run_id)
        if isinstance(run, bool):
            stack.close()
            return _report_interrupted(run_id, output.where if run else None)
    return _finish(agent, run, out, output.where, was_shown=whole)


def _by_hand(
    agent: Runnable, begin: Begin, view: ConsoleView | None, approvals: Approvals | None, run_id: str
) -> AgentRun | bool:
    """Run to the end, asking for pending decisions if there is a person to ask."""
    listeners: list[Listener] = [] if view is None else [view]
    with asyncio.Runner() as runner, ExitStack() as stack:
        stack.callback(lambda: runner.run(closed(agent.store)))
        try:
            with view or ExitStack():
                run = runner.run(begin(listeners))
            while undecided(run) and by_hand():
                decisions = ask_decisions(agent, run, read_line, write)
                with view or ExitStack():
                    run = runner.run(agent.resume(run.id, decisions, approvals=approvals, listeners=listeners))
        except KeyboardInterrupt:
            return runner.run(is_kept(agent.store, run_id))
    return run


def _report_interrupted(run_id: str, where: str | None) -> int:
    """Report that a run was interrupted, and how to continue it if it is stored."""
    note("interrupted")
    tell_how_to_go_on(run_id, where)
    return INTERRUPTED


def tell_how_to_go_on(run_id: str, where: str | None, pending: Sequence[PendingItem] = ()) -> None:
    """Write the command that continues a stored run."""
    if where is None:
        return
    how = f"ziggurat resume {shell_word(run_id)}{where}"
    if pending:
        which = f" {shell_word(pending[0].id)}" if len(pending) > 1 else ""
        ways = "--happened RESULT or --did-not-happen" if pending[0].interrupted else "(or --deny REASON)"
        how = f"ziggurat approve {shell_word(run_id)}{which}{where} {ways}"
    note(f"to continue it: {how}")


def _finish(agent: Runnable, run: AgentRun, out: TextIO, where: str | None, *, was_shown: bool) -> int:
    """Write the answer, unless it was shown live, or why there is none."""
    code = code_of(run.stop)
    if code == COMPLETED:
        if not write_answer(run, out, was_shown=was_shown) and isinstance(run.stop, stops.Completed):
            note("the model's answer is empty")
    else:
        if isinstance(run.stop, stops.Incomplete):
            write_answer(run, out, was_shown=was_shown)
        _report_unfinished(agent, run, where)
    return code


def _report_unfinished(agent: Runnable, run: AgentRun, where: str | None) -> None:
    """Report why there is no answer, and what to do."""
    if undecided(run):
        note("nobody could be asked: decisions are made on a terminal, without --json")
    note(explain(agent, run))
    if stops.status_of(run.stop) in UNFINISHED:
        tell_how_to_go_on(run.id, where, undecided(run))


def write_answer(run: AgentRun, out: TextIO, *, was_shown: bool = False) -> bool:
    """Write the answer as text, an output of another type as JSON; return False if it is empty."""
    if run.output is None or isinstance(run.output, str):
        text = run.output or run.text
        if text and not was_shown:
            write(text, out)
        return bool(text)
    try:
        write_json(encode(run.output), out)
    except TypeError:
        write(str(run.output), out)
    return True


def explain(agent: Runnable, run: AgentRun) -> str:
    """Return why a run did not complete, and what can be done, in one line."""
    reason = stop_text(run.stop)
    if isinstance(run.stop, stops.Failed):
        return f"the run failed: {reason.removeprefix('Failed: ')}{_failed_hint(agent, run.stop)}"
    if isinstance(run.stop, stops.Suspended):
        items = undecided(run)
        calls = "; ".join(call_text(item.call) for item in items)
        waits = [f"for {plural(len(items), 'decision')}: {calls}"] if items else []
        waits += [item.reason for item in run.pending if not item.needs_decision]
        return f"suspended: it waits {', and '.join(waits)}"
    hint = ""
    if isinstance(run.stop, stops.MaxSteps):
        hint = " (--max-steps allows more)"
    elif isinstance(run.stop, stops.TimedOut):
        hint = " (--timeout allows more)"
    return f"the run stopped early: {reason}{hint}"


def _failed_hint(agent: Runnable, stop: stops.Failed) -> str:
    """Return which command gives more advice, if a provider failed."""
    from ziggurat.models.http.dialect import DIALECTS

    provider = stop.error.partition(" ")[0]
    if stop.kind != "ModelError" or provider not in DIALECTS:
        return ""
    from ziggurat.cli.check_model import spec_of

    return f" (ziggurat doctor --model {shell_word(spec_of(agent, provider))} says what to do)"


# -- events as JSON --------------------------------------------------------------------------------------------------


def _in_json(agent: Runnable, begin: Begin, out: TextIO, run_id: str, where: str | None) -> int:
    """Write every event of a run as a line; the last line is always the agent's AgentEnded."""
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8")
    question = _Question(agent, out, run_id)
    try:
        run = asyncio.run(question.run(begin))
    except asyncio.CancelledError:
        if not question.pipe_closed:
            raise
        run = None
    except KeyboardInterrupt:
        question.end(stops.Cancelled())
        return _report_interrupted(run_id, where if question.is_stored else None)
    except Exception as error:
        question.end(stops.Failed(str(error), type(error).__name__), error)
        raise
    if run is None:
        raise BrokenPipeError
    code = code_of(run.stop)
    if code != COMPLETED:
        _report_unfinished(agent, run, where)
    return code


class _Question:
    """A running question whose events are written as JSON."""

    def __init__(self, agent: Runnable, out: TextIO, run_id: str) -> None:
        self._agent = agent
        self._run_id = run_id
        self._lines = JsonLines(out, on_closed=self._cancel)
        self.pipe_closed = self.is_stored = False
        self._task: asyncio.Task[AgentRun | None] | None = None
        self._partial: AgentRun | None = None

    def _cancel(self) -> None:
        """Cancel the run: the reader has closed the pipe."""
        self.pipe_closed = True
        if self._task is not None:
            self._task.cancel()

    async def run(self, begin: Begin) -> AgentRun | None:
        """Run to the end; return None if the reader has closed the pipe."""
        self._task = asyncio.current_task()
        listeners: list[Listener] = [self._lines]
        try:
            run = await begin(listeners)
        except asyncio.CancelledError as error:
            self._partial = partial_of(error)
            self.is_stored = await is_kept(self._agent.store, self._run_id)
            raise
        finally:
            await closed(self._agent.store)
        return None if self.pipe_closed else run

    def end(self, stop: stops.Stop, error: BaseException | None = None) -> None:
        """Write the last line for an interrupted run, if the agent could not."""
        run = self._partial if error is None else partial_of(error)
        if run is not None and self._lines.written:
            self._lines(AgentEnded(escaped(self._agent.name), replace(run, stop=stop)))

"""``ziggurat run``: one question, one answer, and an exit code."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, redirect_stdout
from typing import Annotated, Any, TextIO

import typer
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.cli import options
from ziggurat.cli.agents import AgentOptions, prepare
from ziggurat.cli.approve import ask_decisions, by_hand
from ziggurat.cli.outcome import COMPLETED, code_of, report_interrupted, report_unfinished, undecided, write_outcome
from ziggurat.cli.store import is_kept, tell_if_busy
from ziggurat.cli.terminal import read_line, write
from ziggurat.core.clock import new_id
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.core.path import escaped
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.events import AgentEnded
from ziggurat.observe.console import ConsoleView
from ziggurat.observe.jsonl import JsonLines
from ziggurat.runs.drive import partial_of
from ziggurat.tools.approval import Approvals


class OutputOptions(Struct, frozen=True):
    """What to write; `where` are the options with which another command finds the run."""

    json: bool = False
    quiet: bool = False
    where: str | None = None


Begin = Callable[[Sequence[Listener]], Coroutine[Any, Any, AgentRun]]
"""Starts or continues a run with the given listeners."""


def run(
    question: Annotated[
        str | None, typer.Argument(help="The question, in quotes; - or nothing on a pipe reads standard input.")
    ] = None,
    model: options.Model = None,
    tool: options.Tools = None,
    agent: options.Agent = None,
    instructions: options.Instructions = None,
    max_steps: options.Steps = None,
    timeout: options.Timeout = None,
    approve: options.Approve = None,
    session: options.Session = None,
    memory: options.Memory = None,
    mcp: options.Mcp = None,
    store: options.Store = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write events to standard output, one per line; the last is AgentEnded.")
    ] = False,
    quiet: options.Quiet = False,
) -> int:
    """Ask one question and show how it is answered.

    On a terminal all events are shown live. On a pipe only the answer goes to standard output, and the view of steps
    and tools to standard error. If a tool needs approval you are asked; without a terminal the run is suspended with
    exit code 3, and the last line says how to continue it. Runs are stored: ziggurat runs lists them.

    \b
    Examples:
      ziggurat run "What is 12 * (7 + 5)?"
      ziggurat run --tool weather:forecast --tool calculator "Rain in Paris?"
      ziggurat run --agent desk.py:agent --json "Refund order 881" | jq .event
      echo "What time is it?" | ziggurat run --quiet
      ziggurat run --model local:/models/qwen.gguf --timeout 60 "Who are you?"
      ziggurat run --model openai:gpt-5-mini "Who are you?"
      ziggurat run --agent desk.py:agent --approve 'delete_*' "Clean up"
      ziggurat run --memory me "Remember that I am allergic to nuts."
      ziggurat run --mcp 'npx -y @modelcontextprotocol/server-filesystem .' "Which files are here?"
    """
    chosen = AgentOptions(
        model,
        tuple(tool or ()),
        agent,
        instructions,
        max_steps,
        timeout,
        tuple(approve or ()),
        memory=memory,
        mcp=tuple(mcp or ()),
    )
    prompt = _question(question)
    prepared = prepare(chosen, session, store, quiet=quiet)
    runnable, run_id = prepared.agent, new_id()

    async def begin(listeners: Sequence[Listener]) -> AgentRun:
        if session is not None:
            await tell_if_busy(runnable.store, session)
        return await runnable.run(
            prompt,
            approvals=prepared.approvals,
            labels=prepared.labels,
            listeners=listeners,
            run_id=run_id,
            session=session,
        )

    return show_run(runnable, begin, OutputOptions(json, quiet, prepared.where), prepared.approvals, run_id)


_HOW = 'ask one, as in: ziggurat run "What is 12 * (7 + 5)?"'


def _question(argument: str | None) -> str:
    """Return the question; ``-``, or no argument on a pipe, reads standard input."""
    if argument is None and sys.stdin.isatty():
        raise ConfigurationError(f"there is no question; {_HOW}")
    if argument is None or argument == "-":
        try:
            question = sys.stdin.read()
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"standard input is not text in {error.encoding}: {error.reason}") from error
        source = "standard input"
    else:
        question, source = argument, "the question"
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{source} holds bytes that are not text (at character {error.start + 1})") from error
    if not question.strip():
        raise ConfigurationError(f"{source} is empty; {_HOW}")
    return question.strip() if source == "standard input" else question


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
            return report_interrupted(run_id, output.where if run else None)
    return write_outcome(run, out, output.where, was_shown=whole)


def _by_hand(
    agent: Runnable, begin: Begin, view: ConsoleView | None, approvals: Approvals | None, run_id: str
) -> AgentRun | bool:
    """Run to the end, asking for pending decisions if there is a person to ask."""
    listeners: list[Listener] = [] if view is None else [view]
    with asyncio.Runner() as runner, ExitStack() as stack:
        stack.callback(lambda: runner.run(agent.store.close()))
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
        return report_interrupted(run_id, where if question.is_stored else None)
    except Exception as error:
        question.end(stops.Failed(str(error), type(error).__name__), error)
        raise
    if run is None:
        raise BrokenPipeError
    code = code_of(run.stop)
    if code != COMPLETED:
        report_unfinished(run, where)
    return code


class _Question:
    def __init__(self, agent: Runnable, out: TextIO, run_id: str) -> None:
        self._agent = agent
        self._run_id = run_id
        self._lines = JsonLines(out, on_closed=self._cancel)
        self.pipe_closed = self.is_stored = False
        self._task: asyncio.Task[AgentRun | None] | None = None
        self._partial: AgentRun | None = None

    def _cancel(self) -> None:
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
            await self._agent.store.close()
        return None if self.pipe_closed else run

    def end(self, stop: stops.Stop, error: BaseException | None = None) -> None:
        """Write the last line for an interrupted run, if the agent could not."""
        run = self._partial if error is None else partial_of(error)
        if run is not None and self._lines.written:
            self._lines(AgentEnded(escaped(self._agent.name), replace(run, stop=stop)))

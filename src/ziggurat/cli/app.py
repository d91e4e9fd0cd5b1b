"""The program and the list of its commands. The file of a command is imported when it is called."""

import sys
from collections.abc import Sequence
from importlib import import_module
from io import StringIO
from typing import IO, Annotated, Protocol, runtime_checkable

import typer

from ziggurat.cli.terminal import report_logs, write

COMMANDS = {
    "run": ("run", "Ask one question and show how it is answered."),
    "chat": ("chat", "Chat with an agent that remembers the conversation."),
    "submit": ("worker", "Store a run for a worker to drive, and write its id."),
    "worker": ("worker", "Drive the runs of agents that are due, until a signal to end."),
    "serve": ("serve", "Serve agents by HTTP: start, watch, decide on, steer and replay their runs."),
    "mcp": ("mcp", "Serve agents and tools to clients of MCP, and use servers of it."),
    "runs": ("records", "List the stored runs, the latest first."),
    "pending": ("records", "List the calls that wait for people, those of the oldest run first."),
    "show": ("show", "Show a run: each call with its time, tokens and cost."),
    "resume": ("resume", "Continue a run that is suspended, was interrupted, or failed."),
    "recover": ("worker", "Go on with the runs of an agent that are due: what a worker does, once."),
    "approve": ("resume", "Decide on a call that waits, and continue its run."),
    "send": ("control", "Send an event to a run that waits for it, or will; what does not fit is refused."),
    "attach": ("control", "Follow a run that any process drives, until it ends or waits, and write its answer."),
    "cancel": ("control", "Stop a run that any process drives; it can be resumed."),
    "inject": ("control", "Give a run that any process drives another message, before its next model call."),
    "replay": ("resume", "Replay a run from its record, without calling anything."),
    "fork": ("resume", "Start a new run from a step of a stored run."),
    "export": ("export", "Export a run as its record, or as a test that replays it."),
    "accept-loss": (
        "records",
        "Accept that the last entries of a damaged run are lost, so that it can be continued without them.",
    ),
    "vacuum": ("records", "Remove old runs, and free their disk space."),
    "doctor": ("doctor", "Report what is installed, what is missing, and how to install it."),
    "models": ("models", "List models, install those of the catalogue, and remove them."),
    "memory": ("memory", "Search, forget and export what agents remember."),
}
"""The file of each command, and its line in the help of the program: a first line that needs no import of the file."""

_REPORTS_RUNS = ("run", "chat", "resume", "approve", "fork")
"""The commands that report the end of the run that they drive, which need not be said by the log too."""


def execute(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; our own errors are raised."""
    called = next((each for each in arguments if not each.startswith("-")), "")
    report_logs(reports_runs=called in _REPORTS_RUNS)
    command = typer.main.get_command(_program(called))
    try:
        with command.make_context("ziggurat", list(arguments)) as context:
            return command.invoke(context) or 0
    except typer.Exit as end:
        return end.exit_code
    except Exception as error:
        if not isinstance(error, _WrongUsage):
            raise
        text = StringIO()  # it quotes the arguments as they are
        error.show(text)
        write(text.getvalue(), sys.stderr)
        return error.exit_code


def _program(called: str) -> typer.Typer:
    """Return the program with the command that is called; the others are in its help only."""
    program = typer.Typer(
        name="ziggurat",
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    program.callback()(_ziggurat)
    for name, (file, summary) in COMMANDS.items():
        if name != called:
            program.command(name, help=summary)(_not_called)
            continue
        command = getattr(import_module(f"ziggurat.cli.{file}"), name.replace("-", "_"))
        if isinstance(command, typer.Typer):
            program.add_typer(command, name=name)
        else:
            program.command(name)(command)
    return program


def _not_called() -> None: ...


@runtime_checkable
class _WrongUsage(Protocol):
    exit_code: int

    def show(self, file: IO[str] | None = None) -> None: ...


def _show_version(requested: bool) -> None:
    if requested:
        from ziggurat.cli.doctor import version_text

        write(f"ziggurat {version_text()}")
        raise typer.Exit


def _ziggurat(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run LLM agents from the command line; without an API key, on the demo model.

    \b
    Examples:
      ziggurat run "What is 12 * (7 + 5)?"
      ziggurat run --tool weather.py:forecast "Rain in Paris tomorrow?"
      ziggurat run --model anthropic:claude-sonnet-4-5 "Who are you?"
      ziggurat chat --agent desk.py:agent
      ziggurat runs --since 1d
      ziggurat approve RUN
      ziggurat fork RUN --at 2 --model openai:gpt-5-mini

    \b
    Exit codes: 0 done, 1 failed or stopped early, 2 wrong usage, 3 waits for
    decisions, 130 interrupted. ZIGGURAT_DEBUG=1 shows tracebacks.
    """

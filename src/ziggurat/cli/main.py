"""The command ``ziggurat``: its commands, each in a file that is imported when it is called, and its errors, each as
one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import StringIO
from typing import IO, TYPE_CHECKING, Annotated, Protocol, runtime_checkable

from ziggurat.cli.terminal import note, report_logs, show_mistake, write
from ziggurat.core.errors import CallerError, ZigguratError, described

if TYPE_CHECKING:
    from typer import Typer

_DEBUG = "ZIGGURAT_DEBUG"  # the environment variable that enables tracebacks when set to 1
COMMANDS = {
    "run": ("run", "Ask one question and show how it is answered."),
    "chat": ("run", "Chat with an agent that remembers the conversation."),
    "submit": ("worker", "Store a run for a worker to drive, and write its id."),
    "worker": ("worker", "Drive the runs of agents that are due, until a signal to end."),
    "serve": ("serve", "Serve agents by HTTP: start, watch, decide on, steer and replay their runs."),
    "mcp": ("mcp", "Serve agents and tools to clients of MCP, and use servers of it."),
    "runs": ("records", "List the stored runs, the latest first."),
    "pending": ("records", "List the calls that wait for people, those of the oldest run first."),
    "show": ("show", "Show a run: each call with its time, tokens and cost."),
    "resume": ("resume", "Continue a run that is suspended, was interrupted, or failed."),
    "recover": ("worker", "Go on with the runs of an agent that are due: what a worker does, once."),
    "approve": ("resume", "Decide on a call that waits, or answer a question, and continue its run."),
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, with the arguments of this process by default, and return its exit code."""
    if not _readable():
        note("standard output is closed, so there is nowhere to write to")
        return 1
    try:
        code = _command(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed it
        _abandon_output()
        return 1
    except KeyboardInterrupt:
        note("interrupted")
        return 130
    except Exception as error:  # noqa: BLE001 - the outermost handler: tracebacks are shown only on request
        return _report(error)
    return code


def _command(arguments: list[str]) -> int:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        if arguments == ["doctor"]:  # the command that reports missing packages must work without them
            from ziggurat.cli.doctor import doctor

            return doctor()
        note("the command line needs the extra 'cli': pip install 'ziggurat[cli]'")
        return 2
    return execute(arguments)


def execute(arguments: Sequence[str]) -> int:
    import typer

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


def _program(called: str) -> "Typer":
    """Return the program with the command that is called; the others are in its help only."""
    import typer

    def show_version(requested: bool) -> None:
        if requested:
            from ziggurat.cli.doctor import version_text

            write(f"ziggurat {version_text()}")
            raise typer.Exit

    def ziggurat(
        version: Annotated[
            bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
        ] = False,
    ) -> None:
        """Run LLM agents from the command line; without an API key, on the demo model.

        \b
        Examples:
          ziggurat run "What is 12 * (7 + 5)?"
          ziggurat run --tool weather.py:forecast "Rain in Paris tomorrow?"
          ziggurat run --model anthropic:claude-sonnet-4-5 "Who are you?"
          ziggurat chat --agent desk.py:agent
          ziggurat approve RUN

        \b
        Exit codes: 0 done, 1 failed or stopped early, 2 wrong usage, 3 waits for
        decisions, 130 interrupted. ZIGGURAT_DEBUG=1 shows tracebacks.
        """

    def not_called() -> None: ...

    program = typer.Typer(
        name="ziggurat",
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    program.callback()(ziggurat)
    for name, (file, summary) in COMMANDS.items():
        if name != called:
            program.command(name, help=summary)(not_called)
            continue
        command = getattr(import_module(f"ziggurat.cli.{file}"), name.replace("-", "_"))
        if isinstance(command, typer.Typer):
            program.add_typer(command, name=name)
        else:
            program.command(name)(command)
    return program


@runtime_checkable
class _WrongUsage(Protocol):
    exit_code: int

    def show(self, file: IO[str] | None = None) -> None: ...


def _report(error: Exception) -> int:
    debug, ours = os.environ.get(_DEBUG, "") not in ("", "0"), isinstance(error, ZigguratError)
    shown = (debug or not ours) and show_mistake(error, whole=debug)
    if ours:
        note(str(error) or type(error).__name__)
    else:
        note(described(error) if shown else f"{described(error)} (set {_DEBUG}=1 to see where)")
    return 2 if isinstance(error, CallerError) else 1


def _readable() -> bool:
    """Make the standard streams usable, also where the encoding lacks characters; return whether output is open."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for as long as the program runs
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    return sys.stdout is not None


def _abandon_output() -> None:
    """Redirect standard output to nowhere, so that the interpreter reports no error at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return

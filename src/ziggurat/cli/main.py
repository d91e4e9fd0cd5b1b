"""The entry point of the command ``ziggurat``: reports errors as one line and an exit code."""

import os
import sys
from collections.abc import Sequence

DEBUG = "ZIGGURAT_DEBUG"
"""The environment variable that enables tracebacks when set to 1."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done. 1: the run failed or stopped early. 2: wrong usage, or something is not installed. 3: the run waits for
    decisions. 130: interrupted.

    Args:
        arguments: The arguments after the program's name; by default those of this process.
    """
    if not _readable():
        _say("standard output is closed, so there is nowhere to write to")
        return 1
    try:
        code = _command(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed it
        _abandon_output()
        return 1
    except KeyboardInterrupt:
        _say("interrupted")
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
        _say("the command line needs the extra 'cli': pip install 'ziggurat[cli]'")
        return 2
    from ziggurat.cli.app import execute
    from ziggurat.cli.terminal import report_logs

    report_logs()
    return execute(arguments)


def _report(error: Exception) -> int:
    """Report an error in one line; return 2 for wrong usage, 1 for anything else."""
    if os.environ.get(DEBUG, "") not in ("", "0"):
        import traceback

        from ziggurat.cli.terminal import write

        write("".join(traceback.format_exception(error)), sys.stderr)
    from ziggurat.core.errors import ConfigurationError, ZigguratError, described

    if isinstance(error, ZigguratError):
        _say(str(error) or type(error).__name__)
    else:
        _say(f"{described(error)} (set {DEBUG}=1 to see where)")
    return 2 if isinstance(error, ConfigurationError) else 1


def _say(text: str) -> None:
    from ziggurat.cli.terminal import note

    note(text)


def _readable() -> bool:
    """Make the standard streams usable: characters that the encoding lacks are replaced instead of raising an error.

    Standard input and error that are closed are replaced by empty streams.

    Returns:
        False if standard output is closed.
    """
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

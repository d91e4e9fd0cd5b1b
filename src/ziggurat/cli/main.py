"""The entry point of the command ``ziggurat``: reports errors as one line and an exit code."""

import os
import sys
import traceback
from collections.abc import Sequence

from ziggurat.cli.terminal import note, show_mistake, write
from ziggurat.core.errors import CallerError, ZigguratError, described

_DEBUG = "ZIGGURAT_DEBUG"
"""The environment variable that enables tracebacks when set to 1."""


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
    from ziggurat.cli.app import execute

    return execute(arguments)


def _report(error: Exception) -> int:
    """Report an error in one line; return 2 for wrong usage, 1 for anything else."""
    if os.environ.get(_DEBUG, "") not in ("", "0"):
        write("".join(traceback.format_exception(error)), sys.stderr)
    if isinstance(error, ZigguratError):
        note(str(error) or type(error).__name__)
    else:
        show_mistake(error)
        note(f"{described(error)} (set {_DEBUG}=1 to see where)")
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

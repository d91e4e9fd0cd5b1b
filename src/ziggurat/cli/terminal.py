"""What the command line writes to the terminal and reads from it: the only place of this room that does either.

Ids, names, paths, errors and what models and tools say come from elsewhere, so every text is made visible here.
"""

import logging
import shlex
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from ziggurat.core.failures import is_expected, place_of, traced_in_users_code
from ziggurat.core.log import traced
from ziggurat.core.visible import escaped_json, visible, visible_line
from ziggurat.messages.formatting import duration
from ziggurat.middleware.secrets import without_keys

_WIDEST = 60  # characters to which a column of a table is padded, so that one long id does not make all lines long


def write(text: str, file: TextIO | None = None) -> None:
    _put(visible(text if text.endswith("\n") else text + "\n"), file or sys.stdout)


def note(text: str) -> None:
    """Write a message of the program itself to standard error, with its name in front."""
    write(f"ziggurat: {text}", sys.stderr)


def show_mistake(error: BaseException, *, whole: bool = False) -> bool:
    """Write the traceback of an error in the user's code, of any other only if `whole`; return whether there is one."""
    trace = traced(error) if whole else "" if is_expected(error) else traced_in_users_code(error)
    if trace:
        write(without_keys(trace), sys.stderr)
    return bool(trace)


def write_json(document: str | bytes, file: TextIO | None = None) -> None:
    """Write one or more JSON documents, one per line; what is hidden in them is escaped as JSON has it."""
    text = document if isinstance(document, str) else document.decode()
    _put(escaped_json(text if text.endswith("\n") else text + "\n"), file or sys.stdout)


def write_table(rows: Sequence[tuple[str, ...]]) -> None:
    rows = [tuple(map(visible_line, row)) for row in rows]
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        write("  ".join([*cells[:-1], row[-1]]).rstrip())


def age_of(moment: float) -> str:
    return f"{duration(max(0.0, time.time() - moment))} ago".rjust(16)


def _put(text: str, file: TextIO) -> None:
    file.write(text)
    file.flush()


def read_line(prompt: str = "") -> str | None:
    try:
        return input(visible(prompt))
    except EOFError:
        return None


def shell_word(text: str) -> str:
    """Return a text as one word of a shell command, to be copied from the terminal; hidden characters are escaped.

    >>> print(shell_word("r-17"), shell_word("my run"), shell_word("a\\x1b'b"))
    r-17 'my run' $'a\\x1b\\'b'
    """
    if visible_line(text) == text:
        return shlex.quote(text)
    parts = []
    for each in text:
        if each in "\\'":
            parts.append(f"\\{each}")
        elif " " <= each <= "~":
            parts.append(each)
        else:
            parts.append("".join(f"\\x{byte:02x}" for byte in each.encode("utf-8", "surrogateescape")))
    return f"$'{''.join(parts)}'"


class _WarningMessages(logging.Handler):
    """Writes warnings of the library as messages of the program, but for failures of runs that the command reports."""

    def __init__(self, *, reports_runs: bool) -> None:
        super().__init__(logging.WARNING)
        self._reports_runs = reports_runs

    def emit(self, record: logging.LogRecord) -> None:
        if not (self._reports_runs and record.levelno == logging.ERROR and hasattr(record, "failure")):
            place = "" if record.exc_info is None or record.exc_info[1] is None else place_of(record.exc_info[1])
            note(f"{record.getMessage()} (at {place})" if place else record.getMessage())


def report_logs(*, reports_runs: bool) -> None:
    """Write warnings that are logged as messages, unless the program has configured logging."""
    logger = logging.getLogger("ziggurat")
    for each in [each for each in logger.handlers if isinstance(each, _WarningMessages)]:
        logger.removeHandler(each)
    if not logger.hasHandlers():
        logger.addHandler(_WarningMessages(reports_runs=reports_runs))

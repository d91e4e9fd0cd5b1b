"""The logger of this package, whose records hold nothing that a terminal obeys or a reader of the log could miss."""

import logging
import os
import traceback

from ziggurat.core.visible import visible, visible_line

OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep  # the folder of this package


def _make_visible(record: logging.LogRecord) -> bool:
    """Escape what models, tools and servers may have written: a message is one line, and a traceback is indented."""
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 - the text of a user's error may raise anything; the handler reports it
        return True
    if (shown := visible_line(message)) != message:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
        record.exc_text = logged_trace(record.exc_info[1])
    if record.exc_text:
        record.exc_text = "  " + visible(record.exc_text).rstrip().replace("\n", "\n  ")
    return True


def logged_trace(error: BaseException) -> str:
    """Return the traceback of an error without frames of Ziggurat that lead to other code, unless `DEBUG` is logged."""
    return traced(error, without=None if logger.isEnabledFor(logging.DEBUG) else OWN)


def traced(error: BaseException, without: str | None = None) -> str:
    """Return the traceback of an error and its causes, `without` the frames of a folder that lead to other code."""
    try:
        shown = [whole := traceback.TracebackException.from_exception(error)]
        while shown and without is not None:
            each = shown.pop()
            shown += filter(None, (each.__cause__, each.__context__, *(each.exceptions or ())))
            _leave_out(each.stack, without)
        return "".join(whole.format())
    except BaseException:  # noqa: BLE001 - the text of a user's error may raise anything
        return f"{type(error).__name__}: (its traceback cannot be shown)"


def _leave_out(stack: traceback.StackSummary, folder: str) -> None:
    end = len(stack)
    while end and stack[end - 1].filename.startswith(folder):  # these raised the error, so they stay
        end -= 1
    stack[:end] = [frame for frame in stack[:end] if not frame.filename.startswith(folder)]


logger: logging.Logger = logging.getLogger("ziggurat")
logger.addFilter(_make_visible)

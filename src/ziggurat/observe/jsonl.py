"""Events, and log records that say which run they are of, as lines of JSON."""

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TextIO

import msgspec
from msgspec.structs import asdict, replace

from ziggurat.core.codec import encode
from ziggurat.core.context import AMBIENT, METER, RUN_ID
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.core.settings import checked
from ziggurat.core.visible import escaped_json, visible_line
from ziggurat.databases.files import private_opener
from ziggurat.messages.events import AgentEnded
from ziggurat.messages.middleware import CALLER

_FIELDS = ("run_id", "path", "agent", "trace_id", "span_id")
_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
"""The attributes that every record has, and those that formatters add."""


class JsonLines:
    """Write each event as a line of JSON to a file, such as for another program.

    A line is ``{"event": "ToolStarted", "path": "agent/step-1/tool-1:search", ...}``. Characters that a terminal would
    obey or a reader would miss are escaped.

    ::

        with JsonLines("events.jsonl") as lines:
            agent.run_sync("...", listeners=[lines])

    Args:
        target: A path, appended to and closed at the end of a ``with`` block, a new file with mode 0600; or a text
            file, which is not closed.
        on_closed: Called once when `target` cannot be written any more, such as a pipe whose reader has closed it.

    Raises:
        ConfigurationError: a setting has a wrong value, or the file cannot be opened for writing.
    """

    @checked
    def __init__(self, target: str | Path | TextIO, *, on_closed: Callable[[], None] | None = None) -> None:
        self._own = isinstance(target, (str, Path))
        self._on_closed = on_closed
        self._closed = False
        self.written: int = 0
        if isinstance(target, (str, Path)):
            try:
                self._file: TextIO = open(target, "a", encoding="utf-8", opener=private_opener)  # noqa: SIM115
            except OSError as error:
                raise ConfigurationError(f"cannot write events to {str(target)!r}: {error.strerror}") from error
        else:
            self._file = target

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here; later events are ignored."""
        self._closed = True
        if self._own:
            self._file.close()

    def __call__(self, event: Event) -> None:
        if self._closed:
            return
        line = event_line(event)
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except (OSError, ValueError):  # the reader has closed the pipe, or the file was closed
            self._closed = True
            if self._on_closed is not None:
                self._on_closed()
            return
        self.written += 1


def event_line(event: Event) -> str:
    """Return an event as a line of JSON in which no character is invisible or obeyed by a terminal."""
    return escaped_json(_line(event))


def _line(event: Event) -> str:
    try:
        return encode(event).decode()
    except TypeError as error:
        why = str(error)
    if isinstance(event, AgentEnded):  # its output is of a type without a JSON form
        return encode(replace(event, run=replace(event.run, output=repr(event.run._output)))).decode()
    fields = {name: value for name, value in asdict(event).items() if isinstance(value, (str, int, float))}
    return encode({"event": type(event).__name__, **fields, "unwritable": why}).decode()


class RunFilter(logging.Filter):
    """Adds to each log record which run it was made in, and passes it on.

    The attributes are texts, empty where there is none: ``run_id``, ``path`` (of the call), ``agent``, and of the span
    of OpenTelemetry that is current, ``trace_id`` and ``span_id``. They are known where code of yours runs as a part of
    a run: tools, steps, nodes, hooks, in threads, too. A filter of a handler gets the records of all loggers::

        handler = logging.StreamHandler()
        handler.addFilter(RunFilter())
        handler.setFormatter(logging.Formatter("%(levelname)s %(run_id)s %(path)s %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes; return True."""
        ctx = AMBIENT.get()
        scope = {} if ctx is None else ctx.scope
        agent = scope[CALLER].agent if METER in scope else ""
        values = (scope.get(RUN_ID) or "", "" if ctx is None else ctx.path, agent, *_current_span())
        for name, value in zip(_FIELDS, values, strict=True):
            vars(record).setdefault(name, visible_line(value))  # what was passed as `extra` stays
        return True


class JsonFormatter(logging.Formatter):
    """Writes each log record as one line of JSON: when, how serious, which logger, what, and in which run.

    The keys are ``time`` (RFC 3339, UTC), ``level``, ``logger``, ``message``, those of `RunFilter` that are not empty,
    ``error`` with the traceback, and whatever was passed as ``extra``. In the configuration of `logging`::

        {
            "version": 1,
            "filters": {"run": {"()": "ziggurat.observe.RunFilter"}},
            "formatters": {"json": {"()": "ziggurat.observe.JsonFormatter"}},
            "handlers": {"out": {"class": "logging.StreamHandler", "filters": ["run"], "formatter": "json"}},
            "root": {"level": "INFO", "handlers": ["out"]},
        }
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line break."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        added = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line |= {name: value for name, value in added.items() if value or name not in _FIELDS}
        if trace := record.exc_text or (record.exc_info and self.formatException(record.exc_info)):
            line["error"] = trace
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        try:
            return escaped_json(encode(line).decode())
        except TypeError:  # a value of `extra` has no JSON form
            return escaped_json(msgspec.json.encode(line, enc_hook=repr).decode())


def _current_span() -> tuple[str, str]:
    """Return the ids of the trace and of the span that is current, in hexadecimal, without importing OpenTelemetry."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return "", ""
    span = trace.get_current_span().get_span_context()
    return (f"{span.trace_id:032x}", f"{span.span_id:016x}") if span.is_valid else ("", "")

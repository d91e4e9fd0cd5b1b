"""A listener that writes one event per line as JSON."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TextIO

from msgspec.structs import asdict, replace

from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.core.settings import checked
from ziggurat.core.visible import escaped_json
from ziggurat.databases.files import private_opener
from ziggurat.messages.events import AgentEnded


class JsonLines:
    """Write each event as a line, ``{"event": "ToolStarted", "path": "agent/step-1/tool-1:search", ...}``.

    Characters that a terminal would obey or a reader would miss are escaped.

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

"""Parse server-sent events as the standard defines them."""

from msgspec import Struct

_BOM = b"\xef\xbb\xbf"


class ServerEvent(Struct, frozen=True, gc=False):
    event: str
    data: str
    id: str = ""


class EventParser:
    """Parses events from bytes that may be split anywhere: in a line end, a character or the byte-order mark.

    >>> parser = EventParser()
    >>> parser.feed(b'data: {"a"'), parser.feed(b': 1}\\n\\n')
    ([], [ServerEvent(event='message', data='{"a": 1}', id='')])

    `held` is how many bytes were received since the last event, `last_id` the id with which a stream is asked for
    again, `retry` the milliseconds to wait before that, if the server said so.
    """

    __slots__ = ("_after_return", "_begun", "_data", "_event", "_rest", "held", "last_id", "retry")

    def __init__(self) -> None:
        self.held: int = 0
        self.retry: int | None = None
        self._rest: list[bytes] = []  # pieces of a line that has not ended
        self._data: list[bytes] = []
        self._event = ""
        self.last_id: str = ""
        self._after_return = False  # a line feed now belongs to the carriage return before it
        self._begun = False  # the first line, which may begin with a byte-order mark, has been read

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        self.held += len(chunk)
        if self._after_return and chunk:
            self._after_return = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = self._rest
        if rest:
            rest.append(lines[0])
            if len(lines) == 1:
                return []
            lines[0] = b"".join(rest)
            rest.clear()
        last = lines.pop()
        if last:
            rest.append(last)
        return self._read(lines)

    def _read(self, lines: list[bytes]) -> list[ServerEvent]:
        if lines and not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        events: list[ServerEvent] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            elif line:
                self._field(line)
            else:
                if data:
                    written = data[0] if len(data) == 1 else b"\n".join(data)
                    events.append(
                        ServerEvent(self._event or "message", written.decode("utf-8", "replace"), self.last_id)
                    )
                    data.clear()
                    self.held = 0
                self._event = ""
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"data":
            self._data.append(value)
        elif name == b"id":
            if b"\0" not in value:
                self.last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry = int(value)

    def close(self) -> list[ServerEvent]:
        """End the stream; return the last event even if no blank line ended it."""
        last = b"".join(self._rest)
        self._rest.clear()
        return self._read([last, b""])

"""Server-sent events, read as the standard says."""

__all__ = ["EventParser", "ServerEvent"]

from msgspec import Struct

_BOM = b"\xef\xbb\xbf"


class ServerEvent(Struct, frozen=True, gc=False):
    """One event of a stream.

    Attributes:
        event: Its type; ``"message"`` where the server gave none.
        data: Its data lines, joined by line feeds; never changed otherwise.
        id: The last id that the stream has given so far.
    """

    event: str
    data: str
    id: str = ""


class EventParser:
    """Makes events of bytes that come in pieces cut anywhere: in a line end, in a character, in the byte-order mark.

    >>> parser = EventParser()
    >>> parser.feed(b'data: {"a"'), parser.feed(b': 1}\\n\\n')
    ([], [ServerEvent(event='message', data='{"a": 1}', id='')])

    Attributes:
        held: How many bytes have come since the last event.
        retry: The milliseconds after which the server wants to be asked again, where it said so.
    """

    __slots__ = ("_after_return", "_begun", "_data", "_event", "_id", "_rest", "held", "retry")

    def __init__(self) -> None:
        self.held = 0
        self.retry: int | None = None
        self._rest: list[bytes] = []  # pieces of a line that has not ended
        self._data: list[bytes] = []
        self._event = self._id = ""
        self._after_return = False  # a line feed that comes now belongs to the carriage return before it
        self._begun = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take the next bytes and return the events that they complete."""
        self.held += len(chunk)
        if not self._begun:
            chunk = self._begin(chunk)
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
                    events.append(ServerEvent(self._event or "message", written.decode("utf-8", "replace"), self._id))
                    data.clear()
                    self.held = 0
                self._event = ""
        return events

    def _field(self, line: bytes) -> None:
        """Take a line that is neither empty nor begins with ``data:``; a comment is not a field."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"data":
            self._data.append(value)
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry = int(value)

    def _begin(self, chunk: bytes) -> bytes:
        """Leave out the byte-order mark; hold back what may be the beginning of one."""
        chunk = b"".join((*self._rest, chunk))
        self._rest.clear()
        if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
            self._rest.append(chunk)
            return b""
        self._begun = True
        return chunk.removeprefix(_BOM)

    def close(self) -> list[ServerEvent]:
        """Take the end of the stream; returns the event that no blank line has ended, if its lines were whole.

        The standard drops such an event, but servers do forget the last blank line, and even the last line's end.
        A line that was cut is told from one that is whole by its reader: it is not JSON.
        """
        if self._rest:
            lines = [b"".join(self._rest).removeprefix(b"" if self._begun else _BOM), b""]
            self._rest.clear()
            return self._read(lines)
        return self._read([b""])

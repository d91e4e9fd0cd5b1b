"""Typed values of an answer, or of a tool's arguments, while they are streamed."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ziggurat.agents.output import AnswerReader
from ziggurat.core.errors import ConfigurationError, InvalidArguments, MissingExtra
from ziggurat.core.event import Dropped, Event
from ziggurat.core.path import is_beneath, step_of
from ziggurat.messages.arguments import left_out
from ziggurat.messages.events import AgentStarted, Delta, ModelEnded
from ziggurat.messages.message import Message, PartDelta, TextDelta, ToolCallDelta
from ziggurat.messages.model import FINAL_ANSWER

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


_FREE = 2_000_000
_PER_CHARACTER = 64
"""Characters that may be read again for one that arrives, beyond the first `_FREE`: so all reading is linear."""

_IN_A_NUMBER = re.compile(r"[:,\[]\s*-?[0-9][0-9.eE+-]*\Z")
_LONGEST_NUMBER = 5_000


def partial_values(events: AsyncIterable[Event], kind: "TypeForm[T]", *, tool: str | None = None) -> AsyncIterator[T]:
    """Read a stream and yield the answer of its agent as a typed value that grows, or the arguments of a tool.

    Each value is a true value of the type, with all its constraints: it is yielded once its required fields are there,
    and an item or field at the end that does not fit yet is left out. Strings and lists grow; give fields a default to
    see a value before they arrive. Of a ``str``, the text of each reply grows. The last value of a reply is read from
    the complete reply. Long replies are read in larger and larger pieces. Answers of agents below are not read.

    Args:
        events: A stream of an agent; it is read to its end.
        kind: The type of the agent's output, or of a tool's arguments.
        tool: The name of the tool whose arguments are read, for each of its calls.

    Raises:
        ConfigurationError: the type has no schema, or arguments of a tool are read and it is no object.
        MissingExtra: the extra ``partial`` is not installed.
    """
    reader = AnswerReader.of(kind, None)
    if tool is not None and reader.wrapped:
        raise ConfigurationError(f"the arguments of {tool} are an object, such as a Struct or dict; {kind!r} is not")
    partial("{")  # fails here if the extra is not installed
    watched: _Watched[T] = _Watched(reader, tool)

    async def values() -> AsyncIterator[T]:
        async for event in events:
            for value in watched.push(event):
                yield value

    return values()


class _Watched(Generic[T]):
    def __init__(self, reader: AnswerReader, tool: str | None) -> None:
        self._reader = reader
        self._tool = tool
        self._root: str | None = None
        self._texts: dict[tuple[str, int], _Growing[T]] = {}  # by path and the number of the call; -1 for text

    def push(self, event: Event) -> Iterator[T]:
        if isinstance(event, AgentStarted):
            self._root = event.path if self._root is None else self._root
        elif isinstance(event, Delta):
            if self._is_own(event.path):
                yield from self._add(event.path, event.delta)
        elif isinstance(event, Dropped):
            self._forget(event.path)
        elif isinstance(event, ModelEnded) and self._is_own(event.path):
            before = self._forget(event.path)
            for number, text in enumerate(self._whole(event.response.message)):
                growing = before[number] if number < len(before) else _Growing[T](self._reader)
                yield from growing.whole(text)

    def _is_own(self, path: str) -> bool:
        place = "" if self._root is None else step_of(path, self._root)[2]
        return place.partition("/")[0].partition("#")[0] == "model"

    def _add(self, path: str, delta: PartDelta) -> Iterator[T]:
        if isinstance(delta, ToolCallDelta):
            if delta.name == (self._tool or FINAL_ANSWER):
                self._texts.setdefault((path, delta.index), _Growing(self._reader))
            growing = self._texts.get((path, delta.index))
            if growing is not None:
                yield from growing.add(delta.arguments)
        elif isinstance(delta, TextDelta) and self._tool is None:
            yield from self._texts.setdefault((path, -1), _Growing(self._reader)).add(delta.text)

    def _forget(self, path: str) -> "list[_Growing[T]]":
        keys = [key for key in self._texts if key[0] == path or is_beneath(key[0], path)]
        return [self._texts.pop(key) for key in sorted(keys, key=lambda key: key[1] < 0)]

    def _whole(self, message: Message) -> list[str]:
        name = self._tool or FINAL_ANSWER
        calls = [call.arguments for call in message.tool_calls if call.name == name]
        return calls if self._tool is not None or calls else [message.text]


class _Growing(Generic[T]):
    """A text that arrives in pieces, read as a value again and again, in time proportional to its length."""

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader
        self._plain = reader.kind is str
        self._pieces: list[str] = []
        self._length = 0
        self._credit = _FREE
        self._last: object = None

    def add(self, piece: str) -> Iterator[T]:
        self._pieces.append(piece)
        self._length += len(piece)
        self._credit += _PER_CHARACTER * len(piece)
        if piece and self._credit >= self._length:
            text = "".join(self._pieces)
            self._pieces = [text]
            yield from self._changed(self._value(text, complete=False))

    def whole(self, text: str) -> Iterator[T]:
        yield from self._changed(self._value(text, complete=True))

    def _changed(self, value: object) -> Iterator[T]:
        if value is not None and value != self._last:
            self._last = value
            yield cast("T", value)

    def _value(self, text: str, *, complete: bool) -> object:
        self._credit -= self._length
        if self._plain:
            return text or None
        if complete:
            try:
                return cast("object", self._reader.read(text).value)
            except InvalidArguments:
                return None
        start = text.find("{")
        try:
            read = None if start < 0 else partial(text[start:])
        except InvalidArguments:
            return None
        return self._fitting(read, text) if isinstance(read, dict) else None

    def _fitting(self, read: dict[str, Any], text: str) -> object:
        """Return the value read so far, without the fields and items at its end that do not fit yet."""
        open_containers: list[dict[str, Any] | list[Any]] = []
        inner: object = read
        while text[-1] not in "}]" and isinstance(inner, (dict, list)) and inner:
            open_containers.append(inner)
            inner = inner[next(reversed(inner))] if isinstance(inner, dict) else inner[-1]
        if isinstance(inner, (int, float)) and _IN_A_NUMBER.search(text, len(text) - _LONGEST_NUMBER):
            _cut(open_containers)
        while True:
            self._credit -= self._length
            try:
                return self._converted(read)
            except ValueError:  # of a reader of values: Problem
                if not open_containers:
                    return None
            _cut(open_containers)

    def _converted(self, read: dict[str, Any]) -> object:
        read = left_out(read, self._reader.schema)
        if not self._reader.wrapped:
            return self._reader.parameter.convert(read)
        return self._reader.parameter.convert(read["value"]) if "value" in read else None


def _cut(open_containers: list[dict[str, Any] | list[Any]]) -> None:
    innermost = open_containers.pop()
    if isinstance(innermost, dict):
        innermost.popitem()
    else:
        innermost.pop()


def partial(text: str) -> object:
    """Return the value of the beginning of a JSON text; None if nothing can be shown yet."""
    try:
        from pydantic_core import from_json  # jiter, in the package that users of pydantic have already
    except ImportError:
        raise MissingExtra("reading incomplete JSON", "partial") from None
    try:
        value: object = from_json(text.encode(errors="replace"), allow_partial="trailing-strings")
    except ValueError as error:
        if "EOF while parsing" in str(error):
            return None
        raise InvalidArguments(f"not the beginning of JSON: {error}") from None
    return value

"""Reading and writing of journal entries as JSON lines. User values stay raw JSON until their type is known.

An entry is written without the messages that an earlier entry has. A line with ``"earlier": {"entry": 3, "length":
40}`` begins with the first 40 messages of entry 3; entry 0 is the session with which the run begins, or, with
``made_by``, what a member of a team sees of it. So a record grows by what is new, however often its agents are asked
about all of it. In memory, entries refer to whole conversations.
"""

import builtins
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.codec import SHAPE_VERSION, Raw, as_type, decode, digest, encode
from ziggurat.core.errors import ForeignError, JournalCorrupt, ZigguratError, is_transient
from ziggurat.core.failures import mark_mistake
from ziggurat.core.path import name_at, step_of
from ziggurat.journal.entries import Ended, Entered, Failure, JournalEntry, Opened, Result

_RAW = frozenset({"request", "value", "error", "decision", "setup", "labels", "terms", "run"})


def _line_type(kind: type[JournalEntry]) -> type[Struct]:
    """Return a class to decode a line of this kind of entry, with user values as raw JSON."""
    fields: list[tuple[str, object, object]] = []
    for field in msgspec.structs.fields(kind):
        value_type = Raw if field.name in _RAW else list[Raw] if field.name == "spent" else field.type
        fields.append((field.name, value_type, field.default))
    definitions = [each[:2] if each[2] is msgspec.NODEFAULT else each for each in fields]
    return msgspec.defstruct(kind.__name__, definitions, tag=kind.__name__, tag_field="entry", gc=False)


_KINDS: dict[str, type[JournalEntry]] = {kind.__name__: kind for kind in JournalEntry.__subclasses__()}
_line: "msgspec.json.Decoder[Struct]" = msgspec.json.Decoder(reduce(or_, map(_line_type, _KINDS.values())))
_COMMON: dict[str, type[Exception]] = {
    name: getattr(builtins, name)
    for name in ("ConnectionError", "OSError", "RuntimeError", "TimeoutError", "TypeError", "ValueError")
}
_OURS: dict[str, type[Exception]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ZigguratError)
}


def fingerprint(request: object) -> str:
    """Return a text that identifies a request: its own `fingerprint()`, or a digest of its JSON."""
    return request.fingerprint() if hasattr(request, "fingerprint") else digest(request)


def write_entry(entry: JournalEntry) -> bytes:
    """Return an entry as one line of JSON; for an answered request only the fingerprint is written."""
    if isinstance(entry, (Result, Failure)) and not isinstance(entry.request, Raw):
        entry = replace(entry, request=fingerprint(entry.request))
    return encode(entry)


def read_entry(line: bytes) -> JournalEntry:
    try:
        read = _line.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JournalCorrupt(f"not an entry of a journal: {error}") from error
    values = [tuple(each) if isinstance(each, list) else each for each in msgspec.structs.astuple(read)]
    kind: Callable[..., JournalEntry] = _KINDS[type(read).__name__]
    return kind(*values)


def as_error(recorded: object) -> Exception:
    """Return a recorded error: the object itself in the same process, else a new one with its text and attributes."""
    # Only our own classes and a few standard ones are recreated. An instance of a user's subclass of ours becomes the
    # nearest class of ours, with the original name in `type_name`; any other error becomes a `ForeignError`. So does
    # KeyError, whose text would gain quotes each time.
    if isinstance(recorded, Exception):
        return recorded
    if not isinstance(recorded, Raw):
        raise JournalCorrupt(f"not a recorded error: {type(recorded).__name__}")
    return _decoded_error(decode(recorded, dict[str, object]))


def error_of(failure: Failure) -> Exception:
    error = as_error(failure.error)
    mark_mistake(error, failure.mistake)
    return error


def _decoded_error(coded: dict[str, object]) -> Exception:
    name, message = str(coded.get("type", "")), str(coded.get("message", ""))
    known = str(coded.get("kind", ""))
    kind = _OURS.get(known) or (_COMMON.get(known) if known == name else None)
    if kind is None or kind is ForeignError:
        error: Exception = ForeignError(name, message, transient=bool(coded.get("transient")))
    else:
        error = kind.__new__(kind)
        Exception.__init__(error, message)
        facts = coded.get("facts")
        if isinstance(facts, dict):
            vars(error).update((fact, value) for fact, value in facts.items() if not str(fact).startswith("_"))
        if name != kind.__name__:
            vars(error)["type_name"] = name
        if "transient" in coded and is_transient(error) != coded["transient"]:
            vars(error)["transient"] = coded["transient"]
    if isinstance(original := coded.get("original"), dict):
        vars(error)["original"] = error.__cause__ = _decoded_error(original)
    if isinstance(coded.get("place"), str):
        vars(error)["recorded_place"] = coded["place"]
    return error


def read_entries(lines: Iterable[bytes], read: Callable[[bytes], JournalEntry] = read_entry) -> list[JournalEntry]:
    """Read the entries of a run, each with a function."""
    entries: list[JournalEntry] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = read(line)
        except JournalCorrupt as error:
            raise JournalCorrupt(f"entry {number} cannot be read: {error}") from error
        if isinstance(entry, Opened) and entry.version > SHAPE_VERSION:
            raise JournalCorrupt(f"entry {number} was written by a newer version ({entry.version})")
        entries.append(entry)
    return entries


BEGINNING = 0
"""The number that stands for the conversation before the run, which its session has."""

_FIELDS: dict[str, str] = {"Opened": "request", "Entered": "request", "Result": "value", "Ended": "run"}
"""The fields with conversations, by the kinds of entries."""

_REFERS = b'"earlier":{'


class Earlier(Struct, frozen=True, omit_defaults=True):
    """A reference to the first messages of an earlier entry."""

    entry: int
    length: int
    past: bool = False
    """Whether they belong to the original messages of a run that was rewritten."""
    made_by: tuple[Any, ...] = ()
    """How the conversation with these messages was made of that of the earlier entry."""
    digest: str = ""
    """That of these messages, if they were made of others."""


class ConversationWriter:
    """Writes the entries of one record; entries added to it are looked at when the next one is written."""

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self.begun: Sequence[object] = ()  # the messages of the session with which the run begins
        # What agents that will be entered see of these, by their paths: conversations that can be made again.
        self.known: dict[str, Any] = {}
        self._entries = entries
        self._looked_at = 0  # the number of entries seen
        self._last = BEGINNING  # the last entry that has asked something, and those of each path and each name
        self._asked: dict[str, int] = {}
        self._named: dict[str, int] = {}
        self._longest: dict[str, tuple[int, int]] = {}  # the length and the number of the longest, by the name
        self._followed: dict[str, Any] = {}  # the longest request, by the name of the agent

    def line(self, entry: JournalEntry) -> bytes:
        """Return an entry as a line of JSON, without the messages that earlier entries have."""
        self._look()
        if isinstance(entry, (Result, Failure)) and hasattr(entry.request, "follow"):
            self._follow(entry.request, entry.path)
        if type(entry) not in (Opened, Entered, Result, Ended):
            return write_entry(entry)
        field = _FIELDS[entry.kind]
        value = getattr(entry, field)
        numbers = self._numbers_before(entry) if isinstance(value, Struct) and hasattr(value, "messages") else ()
        past = getattr(value, "past", None)
        messages = (value if past is None else past).messages if numbers else ()
        known = [(shared(self._messages(number), messages), number) for number in numbers]
        length, number = max(known, default=(0, BEGINNING))
        length = min(length, getattr(value, "start", length))
        earlier = Earlier(number, length, past is not None)
        made = self.known.pop(entry.path, None) if isinstance(entry, Entered) else None
        if made is not None and self.begun and (common := shared(made[:], messages)) > length:
            earlier = Earlier(BEGINNING, common, made_by=made.made_by, digest=made.first(common).digest())
        length = earlier.length
        if not length:
            if isinstance(entry, Opened):  # the record has all that the session has, too
                self.begun = ()
            return write_entry(entry)
        changes: dict[str, Any] = {field: _without_first(value, length)}
        if isinstance(entry, Result):
            changes["request"] = Raw(b'""')  # its `Entered` has the request
        return write_entry(replace(entry, **changes))[:-1] + b',"earlier":' + encode(earlier) + b"}"

    def _follow(self, request: Any, path: str) -> None:
        """Get the digests of a conversation from the longest one of the same agent."""
        name = name_at(step_of(path)[0])
        longest = self._followed.get(name, request)
        request.follow(longest)
        if request.length >= longest.length:
            self._followed[name] = request

    def _look(self) -> None:
        for number, entry in enumerate(islice(self._entries, self._looked_at, None), self._looked_at + 1):
            if isinstance(entry, Entered) or (isinstance(entry, Opened) and entry.request is not None):
                self._last = self._asked[entry.path] = number
                if isinstance(entry, Entered):
                    self._named[entry.name] = number
                    longest = len(self._messages(number)), number
                    self._longest[entry.name] = max(longest, self._longest.get(entry.name, longest))
        self._looked_at = len(self._entries)

    def _numbers_before(self, entry: JournalEntry) -> Collection[int]:
        """Return the numbers of the entries that may have the first messages of an entry."""
        if isinstance(entry, Opened):
            return () if self._entries else (BEGINNING,)
        if isinstance(entry, Entered):
            _, longest = self._longest.get(entry.name, (0, self._last))
            return {self._last, self._named.get(entry.name, self._last), longest}
        number = self._asked.get(entry.path)
        return () if number is None else (number,)

    def _messages(self, number: int) -> Sequence[object]:
        if number == BEGINNING:
            return self.begun
        asked = self._entries[number - 1]
        assert isinstance(asked, (Opened, Entered))
        return _messages_of(asked)


def _messages_of(asked: JournalEntry | None) -> Sequence[object]:
    messages: Sequence[object] = getattr(getattr(asked, "request", None), "messages", ())
    return messages


def shared(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many values at the start of two sequences are equal."""
    length = min(len(one), len(other))
    one, other = (each if isinstance(each, list) else list(each) for each in (one[:length], other[:length]))
    if one == other:
        return length
    low, high = 0, length - 1  # so many are equal, and at most so many
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _without_first(value: Any, length: int) -> object:
    changes: dict[str, Any] = {}
    if hasattr(value, "start"):
        changes["start"] = value.start - length
    if getattr(value, "past", None) is None:
        return replace(value, messages=value.messages[length:], **changes)
    return replace(value, past=replace(value.past, messages=value.past.messages[length:]), **changes)


class ConversationReader:
    """Reads the lines of one record in order, and puts the messages that earlier ones have back in their places."""

    def __init__(
        self,
        kind: type[Any],
        begun: Sequence[object] = (),
        make: Callable[[Any, Iterable[object]], Any] | None = None,
    ) -> None:
        self.begun = begun
        self._kind = kind
        self._make = make  # makes a conversation of `begun` again, as its `made_by` says
        self._entries: list[JournalEntry] = []

    def entry(self, line: bytes) -> JournalEntry:
        """Return the next entry with its whole conversation."""
        entry = read_entry(line)
        earlier = earlier_in(line)
        if earlier is not None:
            known = self._messages(earlier)[: earlier.length]
            if len(known) < earlier.length:
                raise JournalCorrupt(f"entry {earlier.entry} of the record does not have {earlier.length} messages")
            field = _FIELDS[entry.kind]
            changes: dict[str, Any] = {field: self._whole(field, getattr(entry, field), known, past=earlier.past)}
            entry = replace(entry, **changes)
        elif isinstance(entry, (Opened, Entered)) and b'"request":{"messages":[' in line:
            with suppress(JournalCorrupt):  # a flow may be asked something of another type
                entry = replace(entry, request=as_type(entry.request, self._kind))
        self._entries.append(entry)
        return entry

    def _whole(self, field: str, value: Raw, known: Sequence[object], *, past: bool) -> object:
        """Return a request, or a run as it is written, with the first messages of its conversation put back."""
        if field == "request":  # by reference to the messages that it shares with others
            request = decode(value, self._kind)
            return replace(request, messages=(*known, *request.messages))
        run = decode(value, dict[str, Raw])
        holder = decode(run["past"], dict[str, Raw]) if past else run
        holder["messages"] = Raw(encode([*known, *decode(holder["messages"], list[Raw])]))
        if past:
            run["past"] = Raw(encode(holder))
        if "start" in run:
            run["start"] = Raw(encode(decode(run["start"], int) + len(known)))
        return Raw(encode(run))

    def entries(self, lines: Iterable[bytes]) -> list[JournalEntry]:
        return read_entries(lines, self.entry)

    def _messages(self, earlier: Earlier) -> Sequence[object]:
        number = earlier.entry
        if number == BEGINNING:
            return self._made(earlier) if earlier.made_by else self.begun
        return _messages_of(self._entries[number - 1] if number <= len(self._entries) else None)

    def _made(self, earlier: Earlier) -> Sequence[object]:
        made: Any = None if self._make is None else self._make(self.begun, earlier.made_by).first(earlier.length)
        if made is None or made.digest() != earlier.digest:
            raise JournalCorrupt(f"{earlier.made_by} does not see of the session what it saw when this was recorded")
        messages: Sequence[object] = made[:]
        return messages


def earlier_in(line: bytes) -> Earlier | None:
    return decode(line, _Refers).earlier if _REFERS in line else None


class _Refers(Struct):
    earlier: Earlier | None = None

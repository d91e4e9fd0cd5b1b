"""Journal entries, one frozen struct per kind; `Record`, the entries of one call; and how entries are written as JSON.

User values stay raw JSON until their type is known. An entry is written without the messages that an earlier entry has.
A line with ``"earlier": {"entry": 3, "length": 40}`` begins with the first 40 messages of entry 3; entry 0 is the
session with which the run begins, or, with ``made_by``, what a member of a team sees of it. So a record grows by what
is new, however often its agents are asked about all of it. In memory, entries refer to whole conversations.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core import codec
from ziggurat.core.codec import SHAPE_VERSION, Raw, as_error, as_type, decode, digest, encode
from ziggurat.core.errors import JournalCorrupt
from ziggurat.core.failures import mark_mistake
from ziggurat.core.path import is_tool_call, name_at, step_of


class JournalEntry(Struct, frozen=True, gc=False, tag=True, tag_field="entry"):
    """The base of all entries: something that happened to the call at `path`."""

    path: str

    @property
    def kind(self) -> str:
        """What happened, by the name that is written: ``Result``, ``Failure`` ..."""
        return str(self.__struct_config__.tag)


class Origin(Struct, frozen=True, gc=False):
    """The origin of a forked run."""

    run_id: str
    step: int
    effects: str = "refuse"
    earlier: tuple[str, ...] = ()
    """The runs from which that run was forked itself, the nearest first."""


class Opened(JournalEntry, frozen=True, gc=False):
    """A run was started, or continued in a new process."""

    run_id: str
    version: int
    at: float
    """POSIX seconds."""
    request: object = None
    """The request before any hook; not repeated when the run is continued."""
    forked: Origin | None = None
    """The origin of the run, if it is a fork."""
    labels: object = None
    """Values that the caller attached to the run: a mapping from names to plain values."""
    terms: object = None
    """The conditions that the run was started with and keeps: its grants, its session."""
    losses: int = 0
    """How often in a row the run's process was lost before, without another answer on record."""
    agent: str = ""
    """The name of the agent that the run belongs to; not repeated when the run is continued."""
    alone: bool = False
    """Whether it was continued while its process drove no other run, so that a loss can only be its own doing."""


class Entered(JournalEntry, frozen=True, gc=False):
    """A composite (an agent, a team) was entered; `request` is the request as its hooks returned it."""

    name: str
    request: object
    setup: object = None
    """The configuration of the composite, compared on re-entry: a mapping from names to plain values."""
    elapsed: float = 0.0
    """Seconds of the run's time allowance used when it was entered."""


class Intent(JournalEntry, frozen=True, gc=False):
    """A tool with effects is about to run with exactly this request."""

    name: str
    request: object
    digest: str
    once: str = ""
    """For a tool that acts once only, what is done if its outcome is unknown; empty for others."""


class Returned(JournalEntry, frozen=True, gc=False):
    """The value returned by a tool with ``effect="once"``, before layers and hooks process it."""

    value: object


class Result(JournalEntry, frozen=True, gc=True):
    """The final answer of a call, used whenever the call is repeated."""

    name: str
    request: object
    """The request object in this process; its fingerprint once written and read back."""
    value: object
    spent: tuple[object, ...] = ()
    """The usage of failed and lost tries below this call; the value's own usage is not included."""
    elapsed: float = 0.0
    """Seconds of the run's time allowance used at this point; 0 for a tool in memory that nothing ran beside."""


class PlainResult(Result, frozen=True, gc=False, tag="Result"):
    """The result of a call of a model or a tool, which is plain data. It is written as a `Result`, and read as one."""


class Failure(JournalEntry, frozen=True, gc=True):
    """A failed try of a call, or its failure as a whole (a timeout, a refusal)."""

    name: str
    request: object
    error: object
    spent: tuple[object, ...] = ()
    elapsed: float = 0.0
    mistake: bool = False
    """Whether it is a mistake of the programmer, which ends the outermost run."""
    run: object = None
    """The run of a composite as far as it had come, without what it was asked; None for others."""


class Unanswered(JournalEntry, frozen=True, gc=True):
    """A call was cancelled: it has no outcome and is made again, but it has cost something."""

    name: str
    spent: tuple[object, ...] = ()
    elapsed: float = 0.0
    """Seconds of the run's time allowance used at this point."""


class Pending(JournalEntry, frozen=True, gc=False):
    """A call waits for a decision; `id` is a digest of its path and request."""

    id: str
    name: str
    request: object
    reason: str = ""
    until: float | None = None
    """When the call is denied if there is no decision, in POSIX seconds."""
    elapsed: float = 0.0
    """Seconds of the run's time allowance used when it began to wait."""

    @property
    def asks(self) -> bool:
        """Whether somebody must decide; a timer and an event wait by themselves."""
        return is_tool_call(self.path) or name_at(self.path) not in ("sleep", "event")


class Decided(JournalEntry, frozen=True, gc=False):
    """A decision on a pending call, written before it is carried out; each is used once."""

    id: str
    decision: object
    elapsed: float = 0.0
    """Seconds of the run's time allowance used when it was made; 0 if the run did not work then."""
    worked: dict[str, float] | None = None
    """The seconds that nested agents around the call had worked then, by path, without what others did meanwhile."""
    posted: int = 0
    """The number of the item in the run's inbox that brought it; 0 for none."""
    digest: str = ""
    """That of the arguments as they were changed, which may be masked before they are kept; empty for none."""


class Ended(JournalEntry, frozen=True, gc=True):
    """The run ended; `stop` names the reason."""

    stop: str
    elapsed: float = 0.0
    run: object = None
    """The run as it was returned, if it ended with an error; otherwise it is the result of its agent."""
    interrupted: bool = False
    """Whether the run was cancelled from outside, such as by the end of its process, and not through its handle."""
    due: float | None = None
    """When the run goes on by itself, in POSIX seconds; None for never."""
    waits: tuple[int, ...] | None = None
    """The numbers of the entries with which began what the run waits for; None if it waits for nothing."""
    still: bool = False
    """Whether it waited before and was only decided on: it waits for what is left of the `waits` of the end before."""


class LossAccepted(JournalEntry, frozen=True, gc=False):
    """Somebody accepted that later entries, which had been acknowledged, were lost: those up to `acknowledged`."""

    acknowledged: int
    at: float
    """POSIX seconds."""


Outcome = Result | Failure

Tried = Outcome | Unanswered

RedactEntry = Callable[[Any], Any]
"""Returns an entry without what must not be stored, such as secrets; it is of the same kind."""


class Record(Struct, eq=False):
    """The entries of the call at one path: failed tries, then perhaps a result, and the steps that led to them."""

    # There is a record for each call of a run, and few are tried again: an empty tuple takes no memory.
    outcomes: tuple[Outcome, ...] = ()
    withdrawn: tuple[Tried, ...] = ()
    """Earlier tries that do not answer the call any more, as it was made again; only what they have cost counts."""
    cursor: int = 0
    counted: int = 0
    """The number of outcomes whose usage was added to the meters of this process."""
    recounted: int = 0
    """The same for what is withdrawn."""
    entered: Entered | None = None
    intent: Intent | None = None
    returned: Returned | None = None
    pending: Pending | None = None
    decided: Decided | None = None

    def add(self, entry: JournalEntry, *, here: bool = False) -> None:
        """Add an entry; the usage of one made by this process is counted already, and its failure needs no answer."""
        if isinstance(entry, (Result, Failure)):
            self.outcomes += (entry,)
            if here:
                self.counted = len(self.outcomes)
                self.cursor = self.counted if isinstance(entry, Failure) else self.cursor
        elif isinstance(entry, Unanswered):
            # Behind those that were counted are those that were not.
            at = self.recounted if here else len(self.withdrawn)
            self.withdrawn = (*self.withdrawn[:at], entry, *self.withdrawn[at:])
            self.recounted += here
        elif isinstance(entry, Entered):
            self.entered = entry
        elif isinstance(entry, Intent):
            self.intent = entry
            self.pending = self.decided = None  # the decision is carried out now, and must not be used again
        elif isinstance(entry, Returned):
            self.returned = entry
        elif isinstance(entry, Pending):
            self.pending, self.decided = entry, None
        elif isinstance(entry, Decided):
            self.decided = entry

    def answer(self) -> Outcome | None:
        """Return the next outcome to answer with: each failed try once, in order, then always the result."""
        if self.cursor >= len(self.outcomes):
            return None
        outcome = self.outcomes[self.cursor]
        if isinstance(outcome, Failure):
            self.cursor += 1
        return outcome

    def withdraw(self) -> None:
        """Let no outcome answer the call any more, so that it is made again."""
        self.withdrawn, self.outcomes = self.tries, ()

    @property
    def tries(self) -> tuple[Tried, ...]:
        return (*self.withdrawn, *self.outcomes)

    @property
    def never_began(self) -> bool:
        """Whether the call was cancelled between its intent and its beginning: that was decided without being asked."""
        return self.intent is not None and self.decided is not None and self.pending is None

    def number(self, outcome: Tried) -> int:
        """Return the position of an outcome, from 1; 0 if it was withdrawn."""
        for number, known in enumerate(self.outcomes, 1):
            if known is outcome:
                return number
        return 0

    @property
    def result(self) -> Result | None:
        last = self.outcomes[-1] if self.outcomes else None
        return last if isinstance(last, Result) else None

    @property
    def made(self) -> Result | None:
        """The result, also if the call has ended its agent with a failure after it."""
        return next((outcome for outcome in reversed(self.outcomes) if isinstance(outcome, Result)), None)


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


_RAW = frozenset({"request", "value", "error", "decision", "setup", "labels", "terms", "run"})


def _line_type(kind: type[JournalEntry]) -> type[Struct]:
    """Return a class to decode a line of this kind of entry, with user values as raw JSON."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(kind):
        value_type = Raw if field.name in _RAW else tuple[Raw, ...] if field.name == "spent" else field.type
        default = () if field.default is msgspec.NODEFAULT else (field.default,)
        fields.append((field.name, value_type, *default))
    fields.append(("earlier", Earlier | None, None))
    return msgspec.defstruct(kind.__name__, fields, tag=kind.__name__, tag_field="entry", gc=False)


_KINDS: dict[str, type[JournalEntry]] = {kind.__name__: kind for kind in JournalEntry.__subclasses__()}
_line: "msgspec.json.Decoder[Struct]" = codec.decoder(reduce(or_, map(_line_type, _KINDS.values())))


def fingerprint(request: object) -> str:
    """Return a text that identifies a request: its own `fingerprint()`, or a digest of its JSON."""
    if isinstance(request, Raw):  # on record there is only this text
        return decode(request, str)
    return request.fingerprint() if hasattr(request, "fingerprint") else digest(request)


def labels_of(opened: JournalEntry) -> dict[str, Any]:
    """Return the labels in the first entry of a run, as plain values by name."""
    labels = opened.labels if isinstance(opened, Opened) else None
    plain = decode(encode(labels), object)
    return plain if isinstance(plain, dict) else {}


def write_entry(entry: JournalEntry) -> bytes:
    """Return an entry as one line of JSON; for an answered request only the fingerprint is written."""
    if isinstance(entry, (Result, Failure)) and not isinstance(entry.request, Raw):
        entry = replace(entry, request=fingerprint(entry.request))
    return encode(entry)


def read_entry(line: bytes) -> JournalEntry:
    return _read(line)[0]


def _read(line: bytes) -> tuple[JournalEntry, Earlier | None]:
    """Return an entry, and its reference to earlier ones."""
    try:
        read = _line.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JournalCorrupt(f"not an entry of a journal: {error}") from error
    *fields, earlier = msgspec.structs.astuple(read)
    kind: Callable[..., JournalEntry] = _KINDS[type(read).__name__]
    return kind(*fields), earlier


def error_of(failure: Failure) -> Exception:
    error = as_error(failure.error)
    mark_mistake(error, failure.mistake)
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


BEGINNING = 0  # the number that stands for the conversation before the run, which its session has

_FIELDS: dict[type[JournalEntry], str] = {Opened: "request", Entered: "request", Result: "value", Ended: "run"}
"""The fields with conversations, by the kinds of entries."""

_Known = tuple[int, Sequence[object]]  # the number of an entry that has asked something, and its messages


class ConversationWriter:
    """Writes the entries of one record; entries added to it are looked at when the next one is written."""

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self.begun: Sequence[object] = ()  # the messages of the session with which the run begins
        # What agents that will be entered see of these, by their paths: conversations that can be made again.
        self.known: dict[str, Any] = {}
        self._entries = entries
        self._looked_at = 0  # the number of entries seen
        self._last: _Known | None = None  # the last that has asked, the last of each path, and of each name
        self._asked: dict[str, _Known] = {}
        self._named: dict[str, _Known] = {}
        self._longest: dict[str, _Known] = {}  # the one with the most messages, by the name
        self._followed: dict[str, Any] = {}  # the longest request, by the name of the agent

    def line(self, entry: JournalEntry) -> bytes:
        """Return an entry as a line of JSON, without the messages that earlier entries have."""
        if isinstance(entry, (Result, Failure)) and hasattr(entry.request, "follow"):
            self._follow(entry.request, entry.path)
        field = _FIELDS.get(type(entry))
        if field is None:
            return write_entry(entry)
        value = getattr(entry, field)
        past = getattr(value, "past", None)
        messages = getattr(value if past is None else past, "messages", ()) if isinstance(value, Struct) else ()
        earlier = Earlier(BEGINNING, 0, past is not None)
        for number, known in self._before(entry):
            length = min(shared(known, messages), getattr(value, "start", len(known)))
            if (length, number) > (earlier.length, earlier.entry):
                earlier = replace(earlier, entry=number, length=length)
        made = self.known.pop(entry.path, None) if isinstance(entry, Entered) else None
        if made is not None and self.begun and (common := shared(made[:], messages)) > earlier.length:
            earlier = Earlier(BEGINNING, common, made_by=made.made_by, digest=made.first(common).fingerprint())
        if not earlier.length:
            if isinstance(entry, Opened):  # the record has all that the session has, too
                self.begun = ()
            return write_entry(entry)
        changes: dict[str, Any] = {field: _without_first(value, earlier.length)}
        if isinstance(entry, Result):
            changes["request"] = Raw(b'""')  # its `Entered` has the request
        return write_entry(replace(entry, **changes))[:-1] + b',"earlier":' + encode(earlier) + b"}"

    def _follow(self, request: Any, path: str) -> None:
        """Get the digests of a conversation from the longest one of the same agent."""
        name = name_at(step_of(path)[0])
        longest = self._followed.get(name, request)
        request.follow(longest)
        if len(request) >= len(longest):
            self._followed[name] = request

    def _before(self, entry: JournalEntry) -> Iterable[_Known]:
        """Return the entries that may have the first messages of an entry, each with its messages."""
        self._look()
        if isinstance(entry, Entered):
            found = (self._last, self._named.get(entry.name), self._longest.get(entry.name))
            return {each[0]: each for each in found if each is not None}.values() or ((BEGINNING, self.begun),)
        if isinstance(entry, Opened):
            return () if self._entries else ((BEGINNING, self.begun),)
        asked = self._asked.get(entry.path)
        return () if asked is None else (asked,)

    def _look(self) -> None:
        for number, entry in enumerate(islice(self._entries, self._looked_at, None), self._looked_at + 1):
            if isinstance(entry, Entered) or (isinstance(entry, Opened) and entry.request is not None):
                asked = number, getattr(entry.request, "messages", ())
                self._last = self._asked[entry.path] = asked
                if isinstance(entry, Entered):
                    self._named[entry.name] = asked
                    longest = self._longest.setdefault(entry.name, asked)
                    if len(asked[1]) >= len(longest[1]):
                        self._longest[entry.name] = asked
        self._looked_at = len(self._entries)


def shared(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many values at the start of two sequences are equal."""
    length = min(len(one), len(other))
    one, other = one[:length], other[:length]
    if type(one) is not type(other):  # else they are compared as they are: a copy looks at every message
        one, other = list(one), list(other)
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
        entry, earlier = _read(line)
        if earlier is not None:
            field, known = _FIELDS[type(entry)], self._known(earlier)
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

    def _known(self, earlier: Earlier) -> Sequence[object]:
        """Return the messages that an entry refers to."""
        number, messages = earlier.entry, self.begun
        if number != BEGINNING:
            asked = getattr(self._entries[number - 1], "request", None) if number <= len(self._entries) else None
            messages = getattr(asked, "messages", ())
        elif earlier.made_by:
            made = None if self._make is None else self._make(messages, earlier.made_by).first(earlier.length)
            if made is None or made.fingerprint() != earlier.digest:
                raise JournalCorrupt(
                    f"{earlier.made_by} does not see of the session what it saw when this was recorded"
                )
            messages = made[:]
        if len(messages) < earlier.length:
            raise JournalCorrupt(f"entry {number} of the record does not have {earlier.length} messages")
        return messages[: earlier.length]

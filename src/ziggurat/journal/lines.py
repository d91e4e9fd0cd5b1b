"""Reading and writing of journal entries as JSON lines. User values stay raw JSON until their type is known."""

import builtins
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.codec import SHAPE_VERSION, Raw, decode, digest, encode
from ziggurat.core.errors import ForeignError, JournalCorrupt, ZigguratError, is_transient
from ziggurat.core.failures import mark_mistake
from ziggurat.journal.entries import Failure, JournalEntry, Opened, Result

_RAW = frozenset({"request", "value", "error", "decision", "setup", "labels", "terms", "run"})


class Compared(Protocol):
    """A request that says what differs between it and the recorded one; of others only the fingerprints are shown."""

    def compared(self, entries: Sequence[JournalEntry], path: str, recorded: str) -> tuple[str, str, str] | None:
        """Return what differs, how it was, and how it is now; None if it cannot say."""


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
    """Return the entry that `write_entry` wrote."""
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
    """Return the error of a recorded failure, marked as a mistake if it was one."""
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
    """Read the entries of a run, each with a function.

    Raises:
        JournalCorrupt: a line cannot be read; the message names it.
    """
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

"""Entries as JSON lines. What a line holds of users' values stays raw JSON until its type is known."""

__all__ = ["Fingerprinted", "as_error", "fingerprint", "read_entry", "write_entry"]

import builtins
from typing import Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.codec import Raw, decode, digest, encode
from ziggurat.core.entries import Entry, Failure, Result
from ziggurat.core.errors import ForeignError, JournalCorrupt, ZigguratError, is_transient

_KINDS: dict[str, type[Entry]] = {kind.__name__: kind for kind in Entry.__subclasses__()}
_RAW = frozenset({"request", "value", "error", "decision", "setup"})
_line = msgspec.json.Decoder(dict[str, Raw])
_COMMON: dict[str, type[Exception]] = {
    name: getattr(builtins, name)
    for name in ("ConnectionError", "OSError", "RuntimeError", "TimeoutError", "TypeError", "ValueError")
}
_OURS: dict[str, type[Exception]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ZigguratError)
}


@runtime_checkable
class Fingerprinted(Protocol):
    """A request that says itself what tells it from another in a record."""

    def fingerprint(self) -> str:
        """Return a digest, the same for equal requests."""
        ...


def fingerprint(request: object) -> str:
    """Return what tells two requests apart: their own `fingerprint()`, or a digest of their JSON."""
    return request.fingerprint() if isinstance(request, Fingerprinted) else digest(request)


def write_entry(entry: Entry) -> bytes:
    """Write one entry as one line of JSON; of a request that was answered only its fingerprint is kept."""
    if isinstance(entry, (Result, Failure)) and not isinstance(entry.request, Raw):
        entry = replace(entry, request=fingerprint(entry.request))
    return encode(entry)


def read_entry(line: bytes) -> Entry:
    """Read what `write_entry` wrote.

    Raises:
        JournalCorrupt: it is not an entry.
    """
    try:
        fields = _line.decode(line)
        kind = _KINDS[msgspec.json.decode(fields.pop("entry"))]
        known = {field.name: field.type for field in msgspec.structs.fields(kind)}
        values = {
            name: Raw(bytes(memoryview(raw))) if name in _RAW else _plain(name, raw, known[name])
            for name, raw in fields.items()
            if name in known
        }
        return kind(**values)  # type: ignore[arg-type]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError) as error:
        raise JournalCorrupt(f"not an entry of a journal: {error}") from error


def _plain(name: str, raw: Raw, kind: type[object]) -> object:
    if name == "spent":
        return tuple(Raw(bytes(memoryview(each))) for each in msgspec.json.decode(raw, type=list[Raw]))
    return msgspec.json.decode(raw, type=kind)


def as_error(recorded: object) -> Exception:
    """Return a recorded error: as it was when it lives here, else one of its kind with its text and plain facts.

    Only our own kinds and a few of the standard library are made again. One of a subclass of ours comes back as the
    nearest kind of ours, with `type_name` for what it was; any other is a `ForeignError`, and so is KeyError, whose
    text would gain quotes each time.
    """
    if isinstance(recorded, Exception):
        return recorded
    if not isinstance(recorded, Raw):
        raise JournalCorrupt(f"not a recorded error: {type(recorded).__name__}")
    coded = decode(recorded, dict[str, object])
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
    return error

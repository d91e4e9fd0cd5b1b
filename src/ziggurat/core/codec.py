"""JSON encoding and decoding of every data type; reading never creates objects of arbitrary classes, so it is safe.

A class that is not plain data defines ``to_json()`` for writing and ``from_json(value)`` for reading.
"""

import builtins
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from pathlib import PurePath
from threading import RLock
from types import GenericAlias, NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, overload

import msgspec
from msgspec import Raw as Raw

from ziggurat.core import errors, failures
from ziggurat.core.errors import JournalCorrupt, ZigguratError
from ziggurat.core.tasks import without_await

T = TypeVar("T")

SHAPE_VERSION = 1  # the format version written into every record; readers refuse a newer one

_TOO_DEEP = "it is nested too deeply for JSON, or holds itself"
_MANY_KEYS = 1_024
"""Keys from which on they are sorted here: for chosen keys, the quicksort of msgspec takes quadratic time."""


def _write(value: object) -> object:
    kind: Any = type(value)  # the value's own attributes may run its code
    if hasattr(kind, "to_json"):
        return kind.to_json(value)
    if isinstance(value, BaseException):
        return error_to_json(value)
    for plain in (str, int, float):
        if isinstance(value, plain):  # a subclass of it, such as a NumPy float or marked-up text
            return plain(value)
    if hasattr(kind, "model_dump"):  # a pydantic model, without importing pydantic
        return kind.model_dump(value, mode="json", by_alias=True, round_trip=True, warnings=False)
    if hasattr(kind, "__get_pydantic_core_schema__"):  # such as HttpUrl
        return _adapter(kind).dump_python(value, mode="json", round_trip=True, warnings=False)
    if is_text(kind):
        return str(value)
    if isinstance(value, deque):
        return list(value)
    raise TypeError(without_await(value) or f"{kind.__name__} cannot be written as JSON")


@lru_cache(maxsize=512)
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _read(kind: type, value: object) -> object:
    reader = getattr(kind, "from_json", None) or getattr(kind, "model_validate", None)
    if reader is None:
        return read_standard(kind, value)
    return reader(value)


def is_text(kind: object) -> bool:
    return isinstance(kind, type) and (issubclass(kind, PurePath) or kind.__module__ == "ipaddress")


def container_of(kind: Any) -> Any:
    """Return the list or dictionary that JSON has for a container of the standard library; None for other types."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Iterable, deque):
        return GenericAlias(list, inner or (Any,))
    if origin is Counter:
        return GenericAlias(dict, (*(inner or (Any,)), int))
    return GenericAlias(dict, inner or (Any, Any)) if origin in (OrderedDict, defaultdict) else None


def read_standard(kind: Any, value: object) -> object:
    """Read a type of the standard library, or ``object``, which msgspec does not read; a hook for its decoders."""
    if kind is object:
        return value
    if is_text(kind):
        if not isinstance(value, str):
            raise ValueError(f"expected a string for a {kind.__name__}")
        return kind(value)
    if (read := container_of(kind)) is None:
        raise NotImplementedError(f"{getattr(kind, '__name__', kind)} cannot be read from JSON")
    content: Any = convert(value, read, strict=False, str_keys=True, dec_hook=read_standard)
    origin = get_origin(kind) or kind
    return content if origin is Iterable else origin(None, content) if origin is defaultdict else origin(content)


_encoder = msgspec.json.Encoder(enc_hook=_write)
_sorting_encoder = msgspec.json.Encoder(enc_hook=_write, order="sorted")


def encode(value: object, *, strict: bool = False) -> bytes:
    """Encode a value as JSON; half of a surrogate pair becomes a question mark, or a TypeError if `strict`."""
    try:
        return _encoder.encode(value)
    except RecursionError:
        raise TypeError(_TOO_DEEP) from None
    except UnicodeEncodeError as error:
        if strict:
            raise TypeError(str(error)) from None
        return _encoder.encode(_replaced(plain(value)))


def plain(value: object) -> Any:
    """Return a value as plain data: dictionaries, lists, text, numbers, booleans and None."""
    try:
        return msgspec.to_builtins(value, enc_hook=_write)
    except RecursionError:
        raise TypeError(_TOO_DEEP) from None


def _replaced(plain: object) -> object:
    """Return plain data with a question mark for each lone surrogate, which JSON cannot hold."""
    if isinstance(plain, str):
        return plain.encode("utf-8", "replace").decode()
    if isinstance(plain, dict):
        return {_replaced(key): _replaced(each) for key, each in plain.items()}
    return [_replaced(each) for each in plain] if isinstance(plain, (list, tuple)) else plain


def _sorted(plain: object) -> object:
    if isinstance(plain, dict):
        return {key: _sorted(plain[key]) for key in sorted(plain)}
    if isinstance(plain, list):
        return [_sorted(each) if isinstance(each, (dict, list)) else each for each in plain]
    return plain


READING_TYPES = RLock()  # held while msgspec reads a type; see `decoder`, which holds it for decoders of JSON


@overload
def decoder(kind: type[T], **options: Any) -> "msgspec.json.Decoder[T]": ...
@overload
def decoder(kind: Any, **options: Any) -> "msgspec.json.Decoder[Any]": ...
def decoder(kind: Any, **options: Any) -> "msgspec.json.Decoder[Any]":
    """Return a decoder of msgspec; it is made while no other thread makes one."""
    # msgspec notes at a class what it knows of its fields before it has read them all. Another thread that comes to the
    # class meanwhile decodes with what is there, and the process ends with a segmentation fault (0.22).
    with READING_TYPES:
        return msgspec.json.Decoder(kind, **options)


@overload
def convert(value: object, kind: type[T], **options: Any) -> T: ...
@overload
def convert(value: object, kind: Any, **options: Any) -> Any: ...
def convert(value: object, kind: Any, **options: Any) -> Any:
    """Convert plain data to a type, as ``msgspec.convert``, when no other thread is reading the type."""
    with suppress(TypeError):  # of a type that cannot be read, which the conversion reports
        try:
            _decoder(kind)
        except TypeError:  # it cannot be hashed
            decoder(kind)
    return msgspec.convert(value, kind, **options)


@lru_cache(maxsize=512)
def _decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    return decoder(kind, dec_hook=_read)


@overload
def decode(data: bytes | str | Raw, kind: type[T]) -> T: ...
@overload
def decode(data: bytes | str | Raw, kind: UnionType) -> Any: ...
def decode(data: bytes | str | Raw, kind: Any) -> Any:
    """Decode JSON as a value of type `kind`, a class or a union of classes."""
    try:
        return _decoder(kind).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, NotImplementedError) as error:
        raise JournalCorrupt(f"cannot read a {getattr(kind, '__name__', kind)}: {error}") from error


@overload
def as_type(value: object, kind: type[T]) -> T: ...
@overload
def as_type(value: object, kind: UnionType) -> Any: ...
def as_type(value: object, kind: Any) -> Any:
    """Return a recorded value as `kind`: decoded if it was read as raw JSON, unchanged if it was kept by reference."""
    return decode(value, kind) if isinstance(value, Raw) else value


def canonical(value: object, few_keys: bool = False) -> bytes:
    """Encode a value as JSON with sorted keys, so that equal values give equal bytes, whatever their key order."""
    try:
        if not few_keys:
            data = _encoder.encode(value)
            if len(data) > _MANY_KEYS and data.count(b'":') > _MANY_KEYS:  # at least as often as there are keys
                return _encoder.encode(_sorted(msgspec.json.decode(data)))
        return _sorting_encoder.encode(value)
    except RecursionError:
        raise TypeError(_TOO_DEEP) from None
    except UnicodeEncodeError:
        return _encoder.encode(_sorted(_replaced(plain(value))))


def digest(value: object) -> str:
    return blake2b(canonical(value), digest_size=16).hexdigest()


def error_to_json(error: BaseException) -> dict[str, object]:
    """Return an error as plain data: type name, nearest known base class, text, `transient`, plain attributes."""
    message = errors.text_of(error)
    known = vars(errors) if isinstance(error, ZigguratError) else vars(builtins)
    kind = next(each.__name__ for each in type(error).__mro__ if known.get(each.__name__) is each)
    name = errors.type_name_of(error)
    coded: dict[str, object] = {"type": name, "kind": kind, "message": message}
    if isinstance(error, ZigguratError):
        facts = {
            name: value
            for name, value in vars(error).items()
            if not name.startswith("_") and isinstance(value, (str, int, float, bool, NoneType))
        }
        coded["facts"] = facts
    place = failures.place_of(error)
    if place:
        coded["place"] = place
    if (original := errors.original_of(error)) is not error:
        coded["original"] = error_to_json(original)
    stated = errors.fact_of(error, "transient", bool)
    coded["transient"] = errors.is_transient(error) if stated is None else stated
    return coded


_COMMON: dict[str, type[Exception]] = {
    name: getattr(builtins, name)
    for name in ("ConnectionError", "OSError", "RuntimeError", "TimeoutError", "TypeError", "ValueError")
}
_OURS: dict[str, type[Exception]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ZigguratError)
}


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


def _decoded_error(coded: dict[str, object]) -> Exception:
    name, message = str(coded.get("type", "")), str(coded.get("message", ""))
    known = str(coded.get("kind", ""))
    kind = _OURS.get(known) or (_COMMON.get(known) if known == name else None)
    if kind is None or kind is errors.ForeignError:
        error: Exception = errors.ForeignError(name, message, transient=bool(coded.get("transient")))
    else:
        error = kind.__new__(kind)
        Exception.__init__(error, message)
        facts = coded.get("facts")
        if isinstance(facts, dict):
            vars(error).update((fact, value) for fact, value in facts.items() if not str(fact).startswith("_"))
        if name != kind.__name__:
            vars(error)["type_name"] = name
        if "transient" in coded and errors.is_transient(error) != coded["transient"]:
            vars(error)["transient"] = coded["transient"]
    if isinstance(original := coded.get("original"), dict):
        vars(error)["original"] = error.__cause__ = _decoded_error(original)
    if isinstance(coded.get("place"), str):
        vars(error)["recorded_place"] = coded["place"]
    return error


MAX_DEPTH = 200
"""How many levels deep arrays and objects may be nested. Without it, decoders would accept more on some Pythons."""


_NO_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[^\[\]{}"]+', re.DOTALL)  # strings, and what is between them


_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def check_depth(text: str | bytes, most: int = MAX_DEPTH) -> None:
    """Refuse a JSON text that is nested too deeply to be decoded on every Python; takes linear time."""
    text = text if isinstance(text, str) else text.decode("latin-1")  # in UTF-8, brackets are single bytes
    if text.count("[") + text.count("{") <= most:
        return
    brackets = _NO_BRACKETS.sub("", text)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > most:
        raise msgspec.DecodeError(f"it is nested more than {most} levels deep")

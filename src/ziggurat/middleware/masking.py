"""Masking: copies of values without secrets, in messages, events, entries and errors."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ziggurat.core.codec import encode
from ziggurat.core.errors import ForeignError, attach, described, fact_of, is_transient, type_name_of
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.delta import ThinkingDelta, ToolCallDelta
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import File, Thinking, ToolCall, ToolResult
from ziggurat.middleware.secrets import Secrets

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

_DEEPEST = 200
_LONGEST_CHAIN = 50
_KEPT = frozenset({"path", "id", "run_id", "digest", "signature", "redacted"})
"""Fields of our structs that are not masked: our identifiers, and data that providers want back unchanged."""

_WITH_FOREIGN_ID = (ToolCall, ToolResult, ToolCallDelta, Thinking, ThinkingDelta, File, ModelResponse)
"""Structs whose `id` comes from a model or its provider, and may hold anything."""

_FIGURES = frozenset({int, float, bool, type(None)})
"""Types of struct fields that are not masked; numbers in data of users are."""

_INNER = ("strerror", "filename", "filename2", "object", "reason", "msg", "text", "name", "path", "value", "code")
"""Attributes that errors of the standard library have besides their arguments."""


class Masking:
    """Makes copies of values with secrets masked; a value without secrets is returned unchanged."""

    def __init__(self, secrets: Secrets) -> None:
        self.secrets = secrets

    def value(self, value: T) -> T:
        """Return a value with secrets masked in all text within it; an error is changed in place if possible."""
        changed: T = self._mask(value, 0)
        return changed

    def json(self, text: str) -> str:
        """Return a text with secrets masked; JSON stays valid, and its decoded strings are searched too."""
        quick = self.secrets.masked(text)
        if quick == text and "\\" not in text:
            return text
        try:
            value = msgspec.json.decode(text)
            if not isinstance(value, (dict, list, str)):
                return quick
        except RecursionError:  # nested too deeply to be searched
            return self.secrets.replacement
        except (msgspec.DecodeError, UnicodeError):
            return quick
        changed = self._mask(value, 0)
        return quick if changed is value else encode(changed).decode()

    def _mask(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            changed = self.secrets.masked(value)
            return value if changed == value else changed
        if value is None or isinstance(value, (bool, float, bytes, bytearray, type)):
            return value
        if depth > _DEEPEST:
            return self.secrets.replacement
        if isinstance(value, int):
            written = str(value) if value.bit_length() < 4096 else ""
            return value if self.secrets.masked(written) == written else self.secrets.replacement
        if isinstance(value, BaseException):
            return self.error(value)
        if isinstance(value, Transcript):
            messages = [self._mask(each, depth + 1) for each in value]
            same = all(one is other for one, other in zip(messages, value, strict=True))
            return value if same else Transcript.of(*messages)
        if isinstance(value, Struct):
            return self._mask_struct(value, depth)
        if isinstance(value, dict):
            pairs = [(self._mask(key, depth + 1), self._mask(each, depth + 1)) for key, each in value.items()]
            same = all(k is key and v is each for (k, v), (key, each) in zip(pairs, value.items(), strict=True))
            return value if same else dict(pairs)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._mask_items(value, depth)
        return self._mask_object(value, depth)

    def _mask_items(self, value: Any, depth: int) -> Any:
        items = list(value)
        changed = [self._mask(each, depth + 1) for each in items]
        if all(one is other for one, other in zip(changed, items, strict=True)):
            return value
        return type(value)(*changed) if hasattr(value, "_fields") else type(value)(changed)

    def _mask_struct(self, value: Any, depth: int) -> Any:
        changes: dict[str, Any] = {}
        for name in value.__struct_fields__:
            known = getattr(value, name)
            if known.__class__ in _FIGURES or (name in _KEPT and not self._is_foreign(name, value)):
                continue
            if name == "arguments" and isinstance(known, str):
                changed: Any = self.json(known)
            elif name == "content" and isinstance(known, str) and isinstance(value, ToolResult):
                changed = self.json(known)
            elif name == "data" and isinstance(value, File) and isinstance(known, bytes):
                changed = self.secrets.masked(known.decode("latin-1")).encode("latin-1", "replace")
            else:
                changed = self._mask(known, depth + 1)
            if changed is not known and changed != known:
                changes[name] = changed
        if isinstance(value, Thinking) and "text" in changes:
            changes["signature"] = None  # the signature is for the original text
        return msgspec.structs.replace(value, **changes) if changes else value

    @staticmethod
    def _is_foreign(name: str, value: Struct) -> bool:
        return name == "id" and isinstance(value, _WITH_FOREIGN_ID)

    def _mask_object(self, value: Any, depth: int) -> Any:
        """Return an object of a user's class, such as a typed output, with masked fields."""
        if not dataclasses.is_dataclass(value) and not hasattr(value, "model_copy"):
            return value
        fields = {name: self._mask(each, depth + 1) for name, each in vars(value).items()}
        if all(fields[name] is each for name, each in vars(value).items()):
            return value
        masked = copy.copy(value)
        vars(masked).update(fields)
        return masked

    # -- errors --------------------------------------------------------------------------------------------------

    def error(self, error: BaseException) -> BaseException:
        """Return an error with secrets masked in its text, arguments, attributes and causes."""
        # It is the same object, or, where the object cannot be changed, a `ForeignError` or another group in its place.
        known: dict[int, BaseException] = {}
        masked = self._mask_error(error, known)
        for each in known.values():  # errors that lead back to one that was replaced
            _lead(each, lambda one: known.get(id(one), one))
        return masked

    def _mask_error(self, error: BaseException, known: dict[int, BaseException]) -> BaseException:
        if id(error) in known:
            return known[id(error)]
        known[id(error)] = error
        if len(known) > _LONGEST_CHAIN:
            error.__cause__ = error.__context__ = None
        self._mask_attributes(error, known)
        _lead(error, lambda one: self._mask_error(one, known))
        if isinstance(error, BaseExceptionGroup):
            masked: BaseException = self._mask_group(
                error, [self._mask_error(each, known) for each in error.exceptions]
            )
        elif isinstance(error, Exception) and self._has_secret(error):
            masked = self._replacement_for(error)
        else:
            return error
        known[id(error)] = masked
        return masked

    def _mask_group(
        self, group: BaseExceptionGroup[BaseException], members: list[BaseException]
    ) -> BaseExceptionGroup[BaseException]:
        """Return the group if nothing in it was replaced, else another with the masked members and message."""
        message = self.secrets.masked(group.message)
        if message != group.message:
            return _in_place_of(group, BaseExceptionGroup(message, members))
        if all(one is other for one, other in zip(members, group.exceptions, strict=True)):
            return group
        return _in_place_of(group, group.derive(members))

    def _mask_attributes(self, error: BaseException, known: dict[int, BaseException]) -> None:
        error.args = self._mask_attribute(error.args, known)
        for name, value in tuple(vars(error).items()):
            if (changed := self._mask_attribute(value, known)) is not value:
                vars(error)[name] = changed
        slots = [name for kind in type(error).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in (*_INNER, *slots):
            value = fact_of(error, name, object)
            if isinstance(value, bytes):
                changed = self.secrets.masked(value.decode("latin-1")).encode("latin-1", "replace")
            elif isinstance(value, str):
                changed = self.secrets.masked(value)
            else:
                continue
            if changed != value:
                attach(error, name, changed)  # if it stays in the error's text, `_has_secret` finds it

    def _mask_attribute(self, value: Any, known: dict[int, BaseException]) -> Any:
        """Return a masked attribute of an error; errors within it may refer back to the error itself."""
        if isinstance(value, BaseException):
            return self._mask_error(value, known)
        if isinstance(value, (list, tuple)) and any(isinstance(each, (BaseException, list, tuple)) for each in value):
            return type(value)([self._mask_attribute(each, known) for each in value])
        return self._mask(value, 1)

    def _has_secret(self, error: BaseException) -> bool:
        return any(self.secrets.masked(text) != text for text in (described(error), _shown(error)))

    def _replacement_for(self, error: Exception) -> BaseException:
        text = self.secrets.masked(described(error).partition(": ")[2])
        other = ForeignError(type_name_of(error), text, transient=is_transient(error))
        for name in ("retry_after", "usage", "partial"):
            if (value := fact_of(error, name, object)) is not None:
                setattr(other, name, self._mask(value, 1))
        return _in_place_of(error, other)


def _in_place_of(error: BaseException, other: E) -> E:
    """Return `other` with the traceback, the notes and the causes of an error."""
    other.__traceback__ = error.__traceback__
    other.__cause__, other.__context__ = error.__cause__, error.__context__
    other.__suppress_context__ = error.__suppress_context__
    for note in fact_of(error, "__notes__", list) or ():
        other.add_note(note)
    return other


def _lead(error: BaseException, to: Callable[[BaseException], BaseException]) -> None:
    silent = error.__suppress_context__
    if error.__cause__ is not None:
        error.__cause__ = to(error.__cause__)
        error.__suppress_context__ = silent
    if error.__context__ is not None:
        error.__context__ = to(error.__context__)


def _shown(error: BaseException) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - the `__repr__` of a user's error may raise
        return ""

"""Detection and masking of secrets in text, complete or streamed, and in messages, events, entries and errors."""

import copy
import dataclasses
import json
import re
import string
from collections.abc import Callable, Iterable
from math import prod
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from ziggurat.core.codec import encode
from ziggurat.core.errors import (
    ConfigurationError,
    ForeignError,
    attach,
    described,
    fact_of,
    is_transient,
    type_name_of,
)
from ziggurat.journal.entries import shared
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import File, Message, Thinking, ThinkingDelta, ToolCall, ToolCallDelta, ToolResult
from ziggurat.messages.model import ModelResponse

T = TypeVar("T")


WINDOW = 512  # the maximum length of a match, in characters

WAYS = 256  # the maximum number of ways to try a match from one position of a text

_ONE = re.compile(r"\\[^1-9AZz]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(r"\(\?(?:[ims]*:|>)")
_TIMES = re.compile(r"(\([^()]*\))\{(\d+)\}")
_REPEAT = re.compile(r"(?<!\))\{(?:(?P<least>\d*),)?(?P<most>\d+)\}(?P<kept>\+?)|(?<!\()\?(?P<taken>\+?)")
_REFUSED = re.compile(r"[*+^$]|\{\d*,\}|\)\{(?=\d|,)|\\.|\(\?.?")


def bounded(pattern: str | re.Pattern[str]) -> tuple[str, int]:
    """Return a regular expression as a group for use within another, and its longest match in characters."""
    flags = pattern.flags & (re.I | re.M | re.S | re.X) if isinstance(pattern, re.Pattern) else 0
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(text, str):
        raise ConfigurationError(f"a pattern is a regular expression for text, got {type(text).__name__}")
    try:
        compiled = re.compile(text, flags)
    except re.error as error:
        raise ConfigurationError(f"not a regular expression: {text!r}: {error}") from error
    if flags & re.X:
        raise _refusal(text, "it is verbose", "write it without spaces and comments")
    bare = _GROUP.sub("(", _ONE.sub("x", text))  # escapes and sets as one character each
    bare = _TIMES.sub(lambda group: group[1] * min(int(group[2]), WINDOW), bare)
    if odd := _REFUSED.search(once := _REPEAT.sub("", bare)):
        raise _refusal(
            text,
            f"it has {odd[0]!r}",
            "write {1,64} in place of + and *; a group repeats only {n} times; refer to nothing",
        )
    longest, ways = len(re.sub("[()|]", "", once)), prod(1 + part.count("|") for part in once.split("("))
    for repeat in _REPEAT.finditer(bare):
        most = int(repeat["most"] or 1)
        least = int(repeat["least"] or 0) if repeat["least"] is not None or not repeat["most"] else most
        longest += max(most - 1, 0)
        ways *= 1 if repeat["kept"] or repeat["taken"] else most - least + 1
    # At the end of a text only an empty match is left.
    if longest > WINDOW or compiled.match("a", 1) or compiled.match(" ", 1):
        raise _refusal(text, f"it matches nothing, or up to {longest} characters", f"bound it to 1 to {WINDOW}")
    if ways > WAYS:
        raise _refusal(text, f"there are {ways} ways to try it", "make its {m,n} possessive, such as [a-z]{1,40}+")
    letters = "".join(letter for letter, flag in zip("ims", (re.I, re.M, re.S), strict=True) if flags & flag)
    return f"(?{letters}:{text})", longest


def _refusal(text: str, why: str, fix: str) -> ConfigurationError:
    return ConfigurationError(f"the pattern {text!r} is not taken: {why}; {fix}")


_KEY = r"""(?<![A-Za-z0-9])(?:
    (?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}+ | (?:gsk|hf|npm|r8|whsec|ntn|tvly|dckr_pat|dop_v1|shpat)[-_][A-Za-z0-9_-]{16,}+
    | (?:xai|pplx|pypi|glpat|nvapi|lin_api)[-_][A-Za-z0-9_-]{20,}+
    | gh[a-z]_[A-Za-z0-9]{20,}+ | github_pat_[A-Za-z0-9_]{20,}+
    | xox[a-z]-[A-Za-z0-9-]{10,}+ | xapp-[A-Za-z0-9-]{10,}+
    | (?:AKIA|ASIA)[A-Z0-9]{16,}+ | AIza[A-Za-z0-9_-]{30,}+ | ya29\.[A-Za-z0-9_-]{20,}+
    | SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+ | [0-9]{8,10}:[A-Za-z0-9_-]{35,}+
    | eyJ[A-Za-z0-9_-]{8,2000}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?+
    | eyJ[A-Za-z0-9_-]{2000,}+(?:\.[A-Za-z0-9_-]*+){0,2}+
    )"""
_CREDENTIALS = r"(?<=://)[A-Za-z0-9_.~+=%$!&*-]{0,64}+:[A-Za-z0-9_.~+=:%$!&*#?^-]{1,256}+(?=@)"
_LETTERS = r"[A-Za-z0-9._~+/=-]"
_BEARER = (
    r"(?<![A-Za-z0-9])(?i:bearer|basic)\s{1,4}"
    rf"(?:(?=[A-Za-z._~+/-]{{0,200}}[0-9=]){_LETTERS}{{12,}}+|{_LETTERS}{{20,}}+)"
)
_PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:[^-]++|-(?!----))*(?:-----END [A-Z0-9 ]{0,40}-----|\Z)"
_EMAIL = (
    r"(?<![A-Za-z0-9.!#$%&*+/=?^_~-])[A-Za-z0-9.!#$%&*+/=?^_~-]{1,64}+@(?:[A-Za-z0-9-]{1,63}+\.){1,8}[A-Za-z]{2,24}"
)

_PEM_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}(?:PRIVATE KEY-----|-{0,5}\Z)")
_PEM_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}-----")
_PEM_LONGEST = 65_536
_TOKEN = "!#$%&*+-./:=?@^_~" + string.ascii_letters + string.digits
_NOT_TOKEN = re.compile(f"[^{re.escape(_TOKEN)}]")
_SHORTEST = 4
_SMALL = 1_024  # characters that may be read again with each piece
_BEFORE = 4  # characters before a secret that patterns look at, such as ://


class Secrets:
    """Finds and masks secrets in text, in time proportional to its length."""

    def __init__(
        self, literals: Iterable[str], patterns: Iterable[str | re.Pattern[str]], keys: bool, emails: bool, mask: str
    ) -> None:
        for each in literals:
            if not isinstance(each, str) or len(each) < _SHORTEST:
                raise ConfigurationError(
                    f"a secret is a text of at least {_SHORTEST} characters, or it would mask ordinary words; "
                    f"got {'a shorter one' if isinstance(each, str) else type(each).__name__}"
                )
        self.replacement = mask
        self._literals = sorted({form for each in literals for form in _forms(each)}, key=len, reverse=True)
        own = [bounded(each) for each in patterns]
        self._tokens = keys or emails
        self._keys = keys
        self._width = max((width for _, width in own), default=0)
        parts = [re.escape(each) for each in self._literals]
        parts += [_KEY.replace("\n", "").replace(" ", ""), _CREDENTIALS, _BEARER, _PEM] if keys else []
        parts += [_EMAIL] if emails else []
        parts += [part for part, _ in own]
        if not parts:
            raise ConfigurationError("nothing to redact: give literals or patterns, or leave keys=True")
        self._pattern = re.compile("|".join(f"(?:{part})" for part in parts))

    def masked(self, text: str) -> str:
        return self._pattern.sub(lambda _: self.replacement, text)

    def split(self, text: str, start: int, *, last: bool) -> tuple[str, int]:
        """Return the masked text from `start` on, and the position up to which it was read."""
        limit = len(text) if last else self._safe_end(text, start)
        masked: list[str] = []
        for match in self._pattern.finditer(text, start):
            if match.start() >= limit:
                break
            masked += (text[start : match.start()], self.replacement)
            start = match.end()
        end = max(start, limit)
        masked.append(text[start:end])
        return "".join(masked), end

    def can_end(self, text: str) -> bool:
        """Return whether a new piece may complete a secret or a word, so that `split` should be called."""
        return not self._tokens or _NOT_TOKEN.search(text) is not None

    def _safe_end(self, text: str, start: int) -> int:
        """Return the position from which on the text may be part of an incomplete secret."""
        end = len(text)
        if self._tokens:
            end = max(start, len(text.rstrip(_TOKEN)))
            before = text[max(start, end - 12) : end].rstrip()
            if before[-6:].lower() == "bearer" or before[-5:].lower() == "basic":
                end = max(start, end - 12)
        if self._keys:
            key_start = text.rfind("-----BEGIN", start)
            open_ = key_start >= 0 and _PEM_BEGINS.match(text, key_start) and not _PEM_ENDS.search(text, key_start)
            if open_ and len(text) - key_start < _PEM_LONGEST:
                end = min(end, key_start)
        if self._width:
            end = min(end, max(start, len(text) - self._width))
        for literal in self._literals:
            for length in range(min(len(literal) - 1, len(text) - start), 0, -1):
                if text.endswith(literal[:length]):
                    end = min(end, len(text) - length)
                    break
        return end


def _forms(secret: str) -> set[str]:
    forms = {secret, quote(secret, safe="")}
    for readable in (True, False):
        once = json.dumps(secret, ensure_ascii=readable)[1:-1]
        forms |= {once, json.dumps(once, ensure_ascii=readable)[1:-1], once.replace("/", "\\/")}
    return forms


class StreamMask:
    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self.reset()

    def reset(self) -> None:
        self._waiting: list[str] = []
        self._start = 0
        self._held = self._again = 0  # characters that wait, and how many there are when they are looked at again
        self.altered: bool = False

    def push(self, piece: str) -> str:
        """Add the next piece and return the masked text that may pass now."""
        if not piece:
            return ""
        self._waiting.append(piece)
        self._held += len(piece)
        return self._advance(last=False) if self._held >= self._again and self._secrets.can_end(piece) else ""

    def flush(self) -> str:
        return self._advance(last=True) if self._waiting else ""

    def _advance(self, *, last: bool) -> str:
        text = "".join(self._waiting)
        masked, end = self._secrets.split(text, self._start, last=last)
        self.altered = self.altered or masked != text[self._start : end]
        context_start = max(0, end - _BEFORE)
        self._waiting = [] if last else [text[context_start:]]
        self._start = 0 if last else end - context_start
        self._held = 0 if last else len(text) - context_start
        # What cannot pass yet, such as an open private key, is read again when it has grown by a quarter, not with
        # each piece: so the time stays proportional to the text.
        self._again = self._held + self._held // 4 if self._held > _SMALL else 0
        return masked


# -- copies of values without secrets ----------------------------------------------------------------------------------

_DEEPEST = 200
_NONE: tuple[list[Message], list[Message]] = ([], [])
_KNOWN, _ALIKE = 64, 8  # beginnings that are known masked, and conversations of each

_LONGEST_CHAIN = 50
_KEPT = frozenset({"path", "id", "run_id", "digest", "signature", "redacted"})
"""Fields of our structs that are not masked: our identifiers, and data that providers want back unchanged."""

_WITH_FOREIGN_ID = (ToolCall, ToolResult, ToolCallDelta, Thinking, ThinkingDelta, File, ModelResponse)
"""Structs whose `id` comes from a model or its provider, and may hold anything."""

_FIGURES = frozenset({int, float, bool, type(None)})  # not masked in structs; numbers in data of users are

_INNER = ("strerror", "filename", "filename2", "object", "reason", "msg", "text", "name", "path", "value", "code")
"""Attributes that errors of the standard library have besides their arguments."""


class Masking:
    def __init__(self, secrets: Secrets) -> None:
        self.secrets = secrets
        # conversations and their copies, by the first messages
        self._known: dict[tuple[int, ...], list[tuple[list[Message], list[Message]]]] = {}

    def value(self, value: T) -> T:
        changed: T = self._mask(value, 0)
        return changed

    def json(self, text: str) -> str:
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
            return self._mask_conversation(value, depth)
        if isinstance(value, msgspec.Struct):
            return self._mask_struct(value, depth)
        if isinstance(value, dict):
            pairs = [(self._mask(key, depth + 1), self._mask(each, depth + 1)) for key, each in value.items()]
            same = all(k is key and v is each for (k, v), (key, each) in zip(pairs, value.items(), strict=True))
            return value if same else dict(pairs)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._mask_items(value, depth)
        return self._mask_object(value, depth)

    def _mask_conversation(self, value: Transcript, depth: int) -> Transcript:
        before = value[:]
        masked = self._mask_messages(before, depth)
        if masked == before:
            return value
        copied = Transcript.of(*masked)
        copied.follow(value)
        return copied

    def _mask_messages(self, messages: list[Message], depth: int) -> list[Message]:
        """Return messages with secrets masked; those at the start of a conversation are masked once."""
        key = tuple(map(id, messages[:2]))  # the messages are kept, so that their ids are not used again
        alike = self._known.pop(key, [])  # put back as the newest: what is used longest ago is forgotten first
        same, found = 0, _NONE
        for each in reversed(alike):  # mostly the newest is the start of this one, or this one of it
            if (length := shared(each[0], messages)) > same:
                same, found = length, each
            if length == min(len(each[0]), len(messages)):
                break
        masked = [*found[1][:same], *(self._mask(each, depth + 1) for each in messages[same:])]
        if len(messages) > 1:
            self._known[key] = [*(each for each in alike[-_ALIKE:] if each is not found or same < len(each[0]))]
            self._known[key].append((messages, masked))
            for old in [*self._known][:-_KNOWN]:
                self._known.pop(old, None)
        return masked

    def _mask_items(self, value: Any, depth: int) -> Any:
        items = list(value)
        if items and isinstance(items[0], Message) and isinstance(items[-1], Message):
            changed = self._mask_messages(items, depth)
            same = changed == items
        else:
            changed = [self._mask(each, depth + 1) for each in items]
            same = all(one is other for one, other in zip(changed, items, strict=True))
        if same:
            return value
        return type(value)(*changed) if hasattr(value, "_fields") else type(value)(changed)

    def _mask_struct(self, value: Any, depth: int) -> Any:
        changes: dict[str, Any] = {}
        for name, known in msgspec.structs.asdict(value).items():  # an AgentRun's output may raise an error
            if known.__class__ in _FIGURES or (
                name in _KEPT and (name != "id" or not isinstance(value, _WITH_FOREIGN_ID))
            ):
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

    def _mask_object(self, value: Any, depth: int) -> Any:
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
        known[id(error)] = masked = self._in_place_of(error, known)
        return masked

    def _in_place_of(self, error: BaseException, known: dict[int, BaseException]) -> BaseException:
        """Return the error, or another where a secret is in its text or in the members of a group."""
        if isinstance(error, BaseExceptionGroup):
            members = [self._mask_error(each, known) for each in error.exceptions]
            message = self.secrets.masked(error.message)
            if message != error.message:
                other: BaseException = BaseExceptionGroup(message, members)
            elif all(one is each for one, each in zip(members, error.exceptions, strict=True)):
                return error
            else:
                other = error.derive(members)
        elif isinstance(error, Exception) and self._has_secret(error):
            text = self.secrets.masked(described(error).partition(": ")[2])
            other = ForeignError(type_name_of(error), text, transient=is_transient(error))
            for name in ("retry_after", "usage", "partial"):
                if (value := fact_of(error, name, object)) is not None:
                    setattr(other, name, self._mask(value, 1))
        else:
            return error
        other.__traceback__ = error.__traceback__
        other.__cause__, other.__context__ = error.__cause__, error.__context__
        other.__suppress_context__ = error.__suppress_context__
        for note in fact_of(error, "__notes__", list) or ():
            other.add_note(note)
        return other

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


without_keys: Callable[[str], str] = Secrets((), (), keys=True, emails=False, mask="[redacted]").masked
"""Returns a text without the keys of providers."""

"""KeyMask: removes the API key that was sent from everything that a server sends back, whole or streamed.

A server may repeat the key unchanged, in other case, with characters written as JSON, URLs, HTML or strings of
programming languages write them, as the digits of its bytes, or within base64, as in a header for basic authentication.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import attach, fact_of
from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.message import Message

S = TypeVar("S", bound=Struct)
Form = Sequence[Sequence[str]]
"""One way to write a key: for each character its spellings, in lower case, the longest first."""

MASK = "[key]"

_FOR_URLS = str.maketrans("+/", "-_")

_PART = 8
"""The shortest beginning of a key that is masked in an error, whose text may have been cut off."""

_SHORTEST = 4
_LONG = 16
_WITH_DIGIT = 8
"""Shorter keys are placeholders for servers that need none, such as ``lm-studio``, and may be ordinary words."""

_SECRET = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


class KeyMask:
    """Masks keys.

    Args:
        keys: The keys, each of at least 4 characters.
    """

    def __init__(self, *keys: str) -> None:
        self._forms = [
            form for key in keys for form in ([_spellings(each) for each in key], _in_hex(key), *_in_base64(key))
        ]
        self._longest = max(sum(len(each[0]) for each in form) for form in self._forms)
        begins = "|".join(sorted({begin for form in self._forms for begin in _begins(form)}))
        self._begin = re.compile(f"(?=[{_firsts(self._forms)}])(?:{begins})", re.IGNORECASE)
        self._pattern = re.compile(
            f"(?=[{_firsts(self._forms)}])(?:{'|'.join(map(_pattern, self._forms))})", re.IGNORECASE
        )
        parts = [_pattern(form[:_PART]) + (r"[^\s\"'<>,;]*" if len(form) > _PART else "") for form in self._forms]
        self._in_error = re.compile("|".join(parts), re.IGNORECASE)

    def error(self, text: str) -> str:
        """Return the text of an error without the key or the beginning of it."""
        return self._in_error.sub(MASK, text)

    def text(self, text: str) -> str:
        """Return a text without the key."""
        return self._pattern.sub(MASK, text)

    def struct(self, value: S) -> S:
        """Return a response, message or part without the key in any field; thoughts so changed lose their signature."""
        plain = msgspec.to_builtins(value)
        masked = self._mask(plain)
        return value if masked == plain else msgspec.convert(masked, type(value))

    def split(self, text: str) -> tuple[str, str]:
        """Return the masked text that can be shown, and the end that may be the beginning of a key."""
        if self._begin.search(text) is None:
            return text, ""
        end = max(self._last_match_end(text), len(text) - self._longest)
        for begin in self._begin.finditer(text, end):
            rest = text[begin.start() :].lower()
            if any(_may_begin(form, rest) for form in self._forms):
                return self.text(text[: begin.start()]), text[begin.start() :]
        return self.text(text), ""

    def _last_match_end(self, text: str) -> int:
        end = 0
        for match in self._pattern.finditer(text):
            end = match.end()
        return end

    def _mask(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._mask, value))
        if not isinstance(value, dict):
            return value
        masked = {self._mask(name): self._mask(each) for name, each in value.items()}
        if value.get("type") == "thinking" and masked.get("text") != value.get("text"):
            masked.pop("signature", None)  # it is for the original text
        return masked


class KeyFilter:
    """Masks a key in the pieces of one reply, also where it spans several pieces."""

    def __init__(self, mask: KeyMask) -> None:
        self._mask = mask
        self._held: dict[str | int, tuple[str, PartDelta]] = {}
        self._altered = False  # whether the key was masked in the current thought

    def push(self, delta: PartDelta) -> Iterator[PartDelta]:
        """Add a piece and return what may pass now."""
        if isinstance(delta, TextDelta):
            yield from self._flush("thought")
            if masked := self._advance("text", delta, delta.text):
                yield delta if masked == delta.text else TextDelta(masked)
            return
        yield from self._flush("text")
        if isinstance(delta, ThinkingDelta):
            yield from self._push_thought(delta)
            return
        yield from self._flush("thought")
        if isinstance(delta, ToolCallDelta):
            masked = self._advance(delta.index, delta, delta.arguments)
            changed = ToolCallDelta(delta.index, masked, self._mask.text(delta.id), self._mask.text(delta.name))
            yield delta if changed == delta else changed
        else:
            yield replace(delta, part=self._mask.struct(delta.part))

    def all(self, deltas: Iterable[PartDelta]) -> Iterator[PartDelta]:
        """Add pieces and return what may pass now."""
        for delta in deltas:
            yield from self.push(delta)

    def flush(self) -> Iterator[PartDelta]:
        """Return what was held back, at the end of the reply."""
        for channel in list(self._held):
            yield from self._flush(channel)

    def _push_thought(self, delta: ThinkingDelta) -> Iterator[PartDelta]:
        known = self._held.get("thought")
        begins = delta.redacted is not None or (
            known is not None and isinstance(known[1], ThinkingDelta) and delta.id not in (None, known[1].id)
        )
        if begins:
            yield from self._flush("thought")
        text = self._advance("thought", delta, delta.text)
        self._altered = self._altered or MASK in text
        if delta.signature is not None or delta.redacted is not None:
            text += self._take("thought")
            signature = None if self._altered else delta.signature
            self._altered = False
            masked = self._mask.struct(replace(delta, text="", signature=signature))
            yield replace(masked, text=text)
        elif delta.id is not None:
            yield replace(self._mask.struct(replace(delta, text="")), text=text)
        elif text:
            yield ThinkingDelta(text)

    def _advance(self, channel: str | int, delta: PartDelta, piece: str) -> str:
        buffered = self._take(channel)
        masked, rest = self._mask.split(buffered + piece)
        if rest:
            self._held[channel] = rest, delta
        return masked

    def _take(self, channel: str | int) -> str:
        buffered = self._held.pop(channel, None)
        return "" if buffered is None else buffered[0]

    def _flush(self, channel: str | int) -> Iterator[PartDelta]:
        if not (text := self._take(channel)):
            return
        if channel == "text":
            yield TextDelta(text)
        elif isinstance(channel, int):
            yield ToolCallDelta(channel, text)
        else:
            yield ThinkingDelta(text)


@lru_cache(64)
def mask_of(*keys: str) -> KeyMask | None:
    """Return the mask for replies, None if none of the keys is secret; made once, because that takes milliseconds."""
    secret = [key for key in keys if len(key) >= _LONG or (len(key) >= _WITH_DIGIT and any(map(str.isdigit, key)))]
    return KeyMask(*secret) if secret else None


@lru_cache(64)
def mask_of_errors(*keys: str) -> KeyMask | None:
    """Return the mask for errors, which is for shorter keys too; None if there is no key."""
    secret = [key for key in keys if len(key) >= _SHORTEST]
    return KeyMask(*secret) if secret else None


def secrets_in(headers: Iterable[tuple[str, str]], query: str) -> tuple[str, ...]:
    """Return the values of headers and of fields of a URL's query that by their names are secret."""
    fields = [*headers, *parse_qsl(query)]
    return tuple(dict.fromkeys(value.rpartition(" ")[2] for name, value in fields if _SECRET.search(name)))


def mask_error(error: BaseException, keys: tuple[str, ...]) -> None:
    """Remove keys from the text of an error, from the part of the reply that it carries, and from its causes."""
    from ziggurat.models.http.failures import redacted

    mask = mask_of_errors(*keys)
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        each.args = tuple(
            redacted(arg if mask is None else mask.error(arg)) if isinstance(arg, str) else arg for arg in each.args
        )
        partial = fact_of(each, "partial", Message)
        if mask is not None and partial is not None:
            attach(each, "partial", mask.struct(partial))
        each = each.__cause__ or each.__context__


def _spellings(character: str) -> list[str]:
    """Return how JSON (also within JSON), URLs and HTML write a character in either case, in lower case."""
    spelled = {character.lower(), f"\\{character.lower()}"}
    for each in {character.lower(), character.upper()}:
        percent = "".join(f"%{byte:02x}" for byte in each.encode("utf-8", "replace"))
        spelled |= {percent, percent.replace("%", "%25")}
        for code in map(ord, each):
            spelled |= {f"\\u{code:04x}", f"\\\\u{code:04x}", f"\\x{code:02x}", f"\\\\x{code:02x}"}
            spelled |= {f"&#{code};", f"&#{code:03};", f"&#{code:04};", f"&#x{code:x};", f"&#x{code:04x};"}
    return sorted(spelled, key=len, reverse=True)


def _in_hex(key: str) -> Form:
    """Return the digits of a key's bytes."""
    return [[f"{byte:02x}"] for byte in key.encode("utf-8", "replace")]


def _in_base64(key: str) -> list[Form]:
    """Return what base64 of any text with the key in it has in common; depends on the place of the key in it."""
    data = key.encode("utf-8", "replace")
    forms: list[Form] = []
    for before, skipped in ((0, 0), (1, 2), (2, 3)):
        written = b64encode(bytes(before) + data).decode()
        common = written[skipped:].rstrip("=")[: None if (before + len(data)) % 3 == 0 else -1]
        forms += [[[character] for character in text.lower()] for text in {common, common.translate(_FOR_URLS)}]
    return forms


def _firsts(forms: Sequence[Form]) -> str:
    """Return the first characters of all forms, as the inside of a set: they are looked for first, to be quick."""
    return re.escape("".join(sorted({each[0] for form in forms for each in form[0]})))


def _begins(form: Form) -> set[str]:
    """Return regular expressions for the first one or two characters of a form, or for its first at a text's end."""
    second = "".join({each[0] for each in form[1]} if len(form) > 1 else ())
    return {
        re.escape(each[0]) if len(each) > 1 or not second else f"{re.escape(each)}(?:[{re.escape(second)}]|\\Z)"
        for each in form[0]
    }


def _pattern(form: Form) -> str:
    return "".join(f"(?:{'|'.join(map(re.escape, each))})" for each in form)


def _may_begin(form: Form, text: str) -> bool:
    """Return whether a text, in lower case, ends before the form does and agrees with it so far."""
    at = 0
    for spellings in form:
        spelling = next((each for each in spellings if text.startswith(each, at)), None)
        if spelling is None:
            return any(each.startswith(text[at:]) for each in spellings)
        at += len(spelling)
    return False

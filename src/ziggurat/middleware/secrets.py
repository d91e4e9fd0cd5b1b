"""Detection and masking of secrets in text, complete or streamed."""

import json
import re
from collections.abc import Iterable
from math import prod
from urllib.parse import quote

from ziggurat.core.errors import ConfigurationError

WINDOW = 512
"""The maximum length of a match, in characters."""

WAYS = 256
"""The maximum number of ways to try a match from one position of a text."""

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
_TOKEN = frozenset("!#$%&*+-./0123456789:=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ^_abcdefghijklmnopqrstuvwxyz~")
_NOT_TOKEN = re.compile(r"[^!#$%&*+\-./0-9:=?@A-Z^_a-z~]")
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
        """Return a text with its secrets masked."""
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
            while end > start and text[end - 1] in _TOKEN:
                end -= 1
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
    """Return a secret unchanged, JSON-encoded once and twice, and URL-encoded."""
    forms = {secret, quote(secret, safe="")}
    for readable in (True, False):
        once = json.dumps(secret, ensure_ascii=readable)[1:-1]
        forms |= {once, json.dumps(once, ensure_ascii=readable)[1:-1], once.replace("/", "\\/")}
    return forms


class StreamMask:
    """A streamed text that is masked even where a secret spans several pieces."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self.reset()

    def reset(self) -> None:
        """Discard all state."""
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
        """Return the rest, masked, at the end of the text."""
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

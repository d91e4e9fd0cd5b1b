"""Turn a provider's error reply into a typed error, with the time after which to try again."""

import re
from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.core.codec import check_depth
from ziggurat.core.errors import ContextOverflow, ModelError, ModelErrorKind
from ziggurat.messages.overflow import is_too_long
from ziggurat.models.http.dialect import Dialect

_LONGEST = 300  # characters of a provider's own text in a message
_LOOKED_AT = 65536  # bytes of a body that are examined

_MASK = "[key]"
_PART = 8  # the shortest beginning of a key that is masked

_KEYS = re.compile(
    r"(?:(?:sk|pk|gsk|xai|csk|fw|hf|r8|tgp|pplx|key)[-_][A-Za-z0-9_\-]{6,}|AIza[A-Za-z0-9_\-]{16,})"
    r"(?:[A-Za-z0-9_\-/+%\\&#;=~.]*[A-Za-z0-9_\-/+=;])?"  # the rest of a key, however it is written
    r"|(?<=[Bb]earer )[^\s\"',;]{4,}|(?<=api-key: )[^\s\"',;]{4,}|(?<=[?&]key=)[^\s\"'&]+"
)


def _sort(kind: ModelErrorKind, *patterns: str) -> tuple[re.Pattern[str], ModelErrorKind]:
    return re.compile("|".join(patterns)), kind


_CODES = (
    _sort("content_filter", "content_filter|content_policy|responsibleai|moderation|prohibited_content"),
    _sort("content_filter", "safety_check|data_inspection"),
    _sort("authentication", "invalid_api_key|authentication|unauthenticated|unauthorized|api_key_invalid"),
    _sort("permission", "insufficient_quota|insufficient_balance|billing|payment_required|unsupported_country"),
    _sort("permission", "permission|access_denied|forbidden"),
    _sort("not_found", "model_not_found|deploymentnotfound|not_found|notfounderror"),
    _sort("malformed", "tool_use_failed|json_validate_failed|output_parse_failed"),
    _sort("overloaded", "overloaded|unavailable|capacity|too_busy|slow_down"),
    _sort("rate_limited", "rate_limit|ratelimit|resource_exhausted|too_many_requests|throttl|^tokens$|^requests$"),
    _sort("timeout", "timeout|deadline_exceeded|timed_out"),
    _sort("server", "server_error|internal|api_error|upstream|bad_gateway"),
)

_TEXTS = (
    _sort("content_filter", r"content management policy|content policy|content filter|usage guidelines|was flagged"),
    _sort("authentication", r"(?:incorrect|invalid) api[- ]key|api key (?:not valid|invalid|expired)|x-api-key"),
    _sort("permission", r"credit balance|insufficient (?:balance|credits|funds)|exceeded your (?:current )?quota,"),
    _sort("overloaded", r"overloaded|over capacity|at capacity|service unavailable"),
    _sort("rate_limited", r"rate[- ]limit|too many requests"),
)
_STATUSES: dict[int, ModelErrorKind] = {
    401: "authentication", 402: "permission", 403: "permission", 404: "not_found", 408: "timeout",
    410: "not_found", 413: "context_overflow", 425: "overloaded", 429: "rate_limited", 498: "overloaded",
    503: "overloaded", 504: "timeout", 522: "timeout", 524: "timeout", 529: "overloaded",
}  # fmt: skip
_FATAL_STATUSES = frozenset({401, 404})  # the text of the error cannot change their kind
_TRY_AGAIN = re.compile(r"(?:try again|retry) (?:in|after) ((?:[0-9.]+(?:ms|[dhms]))+|[0-9.]+ ?s)")


class _Said(Struct, frozen=True):
    message: str = ""
    type: str = ""
    code: str = ""

    @property
    def marks(self) -> str:
        return ", ".join(dict.fromkeys(mark for mark in (self.type, self.code) if mark))


def failure(
    status: int | None,
    headers: Mapping[str, str],
    body: bytes | str,
    dialect: Dialect,
    *,
    now: float = 0.0,
) -> ModelError:
    body = body[:_LOOKED_AT]
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    try:
        check_depth(body)
        fault = _said(msgspec.json.decode(body))
    except (msgspec.DecodeError, RecursionError):
        fault = _Said(_plain(body))
    return _error(status, headers, fault, dialect, now)


def failure_of(error: object, dialect: Dialect, *, status: int | None = None) -> ModelError:
    return _error(status, {}, _said(error), dialect, 0.0)


def unreadable(dialect: Dialect, why: object) -> ModelError:
    return ModelError(f"{dialect.name} answered with something that is not a reply: {why}", kind="malformed")


def readable(body: bytes) -> str:
    return _plain(body[:_LOOKED_AT].decode("utf-8", "replace"))[:_LONGEST]


def mask_error(error: BaseException, keys: tuple[str, ...]) -> None:
    """Replace keys, and anything that looks like a key, in the text of an error and of its causes."""
    # The provider's text may have been cut off in the middle of a key, so its first characters count as the key.
    parts = [re.escape(key[:_PART]) + (r"[^\s\"'<>,;]*" if len(key) > _PART else "") for key in keys if len(key) > 3]
    sent = re.compile("|".join(parts) or r"(?!)")
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        each.args = tuple(redacted(sent.sub(_MASK, arg)) if isinstance(arg, str) else arg for arg in each.args)
        each = each.__cause__ or each.__context__


def redacted(text: str) -> str:
    return _KEYS.sub(_MASK, text)


def _error(status: int | None, headers: Mapping[str, str], fault: _Said, dialect: Dialect, now: float) -> ModelError:
    kind = _kind(status, fault)
    what = "answered" if status is None or status == 200 else f"answered {status}"
    marks = f" ({redacted(fault.marks)[:80]})" if fault.marks else ""
    words = redacted(fault.message)
    words = words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    text = f"{dialect.name} {what}{' with an error' if status in (None, 200) else ''}{marks}"
    text = f"{text}: {words}" if words else f"{text}, and says nothing more"
    text += _advice(kind, status, headers, dialect)
    if kind == "context_overflow":
        return ContextOverflow(text, status=status)
    loaded = kind in ("rate_limited", "overloaded")
    wait = retry_after(headers, now, limits=loaded)
    if wait is None and loaded:
        match = _TRY_AGAIN.search(fault.message.lower())
        wait = duration(match[1].replace(" ", "")) if match else None
    transient = True if status == 409 else None
    return ModelError(text, kind=kind, status=status, transient=transient, retry_after=wait)


def _advice(kind: ModelErrorKind, status: int | None, headers: Mapping[str, str], dialect: Dialect) -> str:
    if kind == "authentication" and dialect.key_variables:
        return f" - check the key in {dialect.key_variables[0]}"
    if status is not None and 300 <= status < 400:
        return f" - it has moved to {headers.get('location', 'an unknown place')}; set base_url to where it is"
    return ""


def _kind(status: int | None, fault: _Said) -> ModelErrorKind:
    message = fault.message.lower()
    in_band = status is None or status < 300
    if in_band and fault.code.isdigit() and 400 <= int(fault.code[:4]) <= 599:
        status = int(fault.code)
    if status in _FATAL_STATUSES:
        return _STATUSES[status]
    if is_too_long(message):
        return "context_overflow"
    by_status = _STATUSES.get(status or 0)
    for mark in (fault.code.lower(), fault.type.lower()):
        if is_too_long(mark):
            return "context_overflow"
        for pattern, kind in _CODES:
            if mark and pattern.search(mark.replace(" ", "_").replace("-", "_")):
                return kind if kind != "server" or by_status is None else by_status
    if by_status is None or by_status == "permission":
        for pattern, kind in _TEXTS:
            if pattern.search(message):
                return kind
    if by_status is not None:
        return by_status
    return "server" if (in_band and "invalid" not in fault.type) or (status or 0) >= 500 else "invalid_request"


def _said(value: object) -> _Said:
    if isinstance(value, list):
        value = value[0] if value else {}
    if not isinstance(value, dict):
        return _Said(_words(value))
    inner = value.get("error")
    if isinstance(inner, dict):
        nested = _said(inner)
        return nested if nested.message else _Said(_words(value.get("message")), nested.type, nested.code)
    if isinstance(inner, str) and inner:
        more = _words(value.get("message"))
        return _Said(f"{inner}: {more}" if more else inner, _name(value, "type"), _name(value, "code"))
    if isinstance(inner, list) and inner:
        return _said(inner)
    message = next((_words(value[name]) for name in ("message", "detail", "details", "msg", "errors", "title")
                    if value.get(name)), "")  # fmt: skip
    raw = value.get("metadata")
    if isinstance(raw, dict) and raw.get("raw"):  # the text of the provider behind a broker
        message = f"{message}: {_words(raw['raw'])}"
    kind, further = _name(value, "type") or _name(value, "status"), value.get("innererror")
    code = _name(value, "code") or (_name(further, "code") if isinstance(further, dict) else "")
    return _Said(message, "" if kind == "error" else kind, code)


def _name(value: dict[str, Any], field: str) -> str:
    name = value.get(field)
    return str(name) if isinstance(name, (str, int)) and not isinstance(name, bool) else ""


def _words(value: object) -> str:
    if isinstance(value, str):
        return _plain(value)
    return "" if value is None else msgspec.json.encode(value).decode()[:_LONGEST]


def _plain(text: str) -> str:
    """Return a text on one line; a web page without its tags."""
    text = text[:_LOOKED_AT]
    if "<" in text and re.search(r"<(?:!doctype|html|head|body|title|h1|p|center|div)\b", text, re.IGNORECASE):
        from html import unescape

        text = re.sub(r"<(script|style)\b[^<>]*>.*?(?:</\1\s*>|\Z)", " ", text, flags=re.IGNORECASE | re.DOTALL)
        text = unescape(re.sub(r"<[^<>]*>", " ", text))
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|[dhms])")
_LONGEST_HEADER = 200  # longest header value that is read, in characters

_EPOCH, _EPOCH_MILLISECONDS = 1e9, 1e11  # from which figures on a time counts from 1970, in seconds or in milliseconds


def retry_after(headers: Mapping[str, str], now: float, *, limits: bool = True) -> float | None:
    # Reads ``retry-after-ms``, then ``retry-after`` (seconds or a date), then the reset times of rate limits: of those
    # that are used up if any is. Values that cannot be parsed are ignored.
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = _wait(headers.get("retry-after", ""), now)
    if asked is not None or not limits:
        return asked
    waits: list[tuple[bool, float]] = []
    for name, value in headers.items():
        if "ratelimit" in name and "reset" in name and (wait := _wait(value, now)) is not None:
            waits.append((_number(headers.get(name.replace("reset", "remaining"), "")) == 0, wait))
    used_up = [wait for empty, wait in waits if empty]
    return max(used_up or [wait for _, wait in waits], default=None)


def duration(text: str) -> float | None:
    """Return the seconds in a string such as ``1m30s``, ``6ms``, ``1h0m2.5s`` or ``12``; None for anything else."""
    text = text.strip()
    plain = _number(text)
    if plain is not None or len(text) > _LONGEST_HEADER:
        return plain
    total, end = 0.0, 0
    for piece in _PIECE.finditer(text):
        if piece.start() != end:
            return None
        total += float(piece[1]) * _UNITS[piece[2]]
        end = piece.end()
    return total if end and end == len(text) else None


def _number(text: str) -> float | None:
    try:
        value = float(text) if len(text) <= _LONGEST_HEADER else inf
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None


def _wait(text: str, now: float) -> float | None:
    """Return the seconds to wait: from a number of seconds, a duration, a time since 1970, or a date."""
    moment = seconds = duration(text)
    if seconds is None:
        moment = _moment(text.strip())
    elif seconds < _EPOCH:
        return seconds
    elif seconds >= _EPOCH_MILLISECONDS:
        moment = seconds / 1000
    return None if moment is None else max(0.0, moment - now)


def _moment(text: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if not text or len(text) > _LONGEST_HEADER:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None

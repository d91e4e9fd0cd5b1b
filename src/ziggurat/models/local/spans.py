"""The parts of a request that can become arguments: quoted text, numbers, addresses, dates, times, names."""

__all__ = ["HEADS", "Span", "SpanKind", "spans_in", "trimmed"]

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from ziggurat.models.local.arithmetic import in_digits
from ziggurat.models.local.lexicon import word_set, words_in

SpanKind = Literal[
    "quoted", "email", "url", "phone", "path", "date", "time", "number", "language", "currency", "unit", "name", "words"
]

CURRENCIES = words_in("currencies")
"""Names of currencies in the singular."""

CODES = words_in("codes")
"""Currency codes."""
UNITS = words_in("units")
"""Units of measurement in the singular."""
LANGUAGES = words_in("languages")
_DAYS = words_in("days")
_MONTHS = words_in("months")
_DAY = "|".join(_DAYS)
_PLAIN_MONTH = "|".join(month for month in _MONTHS if month not in ("may", "march"))
_MONTH = "|".join(_MONTHS)
_PER = r"(?: per |/)(?:hour|second|minute|day|gallon|h|s)\b"
_CAPITAL = r"[A-Z][\w&'\u2019-]*"
_PART = r"(?:morning|afternoon|evening|night)"


def _plural(words: Sequence[str]) -> str:
    return "|".join(f"{re.escape(word)}(?:e?s)?" for word in sorted(words, key=len, reverse=True))


_PATTERNS: tuple[tuple[SpanKind, str], ...] = (
    (
        "quoted",
        (
            r"\"([^\"]+)\"|\u201c([^\u201d]+)\u201d|«([^»]+)»|`([^`]+)`"
            r"|(?<!\w)'([^']+(?:'\w[^']*)*)'(?!\w)|(?<!\w)\u2018([^\u2019]+)\u2019"
        ),
    ),
    ("url", r"\bhttps?://[^\s<>\"']*[^\s<>\"'.,;:!?)]"),
    ("email", r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    (
        "path",
        (
            r"(?<!\w)(?:~|\.{1,2})?/(?:[\w.*-]+/?)+|(?<![\w*])(?:[\w*-]+/)*[\w*.-]*[\w*]\.[A-Za-z][A-Za-z0-9]{0,4}\b"
            r"|\b[\w-]+(?:/[\w-]+)+\b(?<!\d)"
        ),
    ),
    ("date", r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"),
    ("phone", r"(?<![\w.])\+\d[\d -]{5,}\d|\b\d{3}-\d{4}\b|\b\d{3}[ -]\d{3}[ -]\d{4}\b"),
    (
        "time",
        (
            r"\b\d{1,2}(?::\d{2}){1,2}(?: ?[ap]\.?m\b\.?)?|\b\d{1,2} ?[ap]\.?m\b|\b(?:noon|midnight)\b"
            r"|\b\d{1,2} o'clock\b"
        ),
    ),
    (
        "date",
        (
            rf"(?i:\b(?:(?:this|next|coming|last) )?(?:(?:{_DAY})s?|weekend|week|month|year)\b(?: {_PART}\b)?)"
            rf"|(?i:\b(?:today|tonight|tomorrow|yesterday|the day after tomorrow)\b(?: {_PART}\b)?)"
            rf"|(?i:\b(?:this|in the) {_PART}\b)"
            rf"|(?i:\b(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b)(?:,? \d{{4}}\b)?"
            rf"|(?i:\b(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b)(?:,? \d{{4}}\b)?"
            rf"|\b(?i:{_PLAIN_MONTH})\b(?: \d{{4}}\b)?|\bMay \d{{4}}\b"
        ),
    ),
    ("number", r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\d])"),
    ("currency", rf"\b(?:{'|'.join(CODES)})\b|(?i:\b(?:{_plural(CURRENCIES)})\b)|[$€£¥]"),
    ("unit", rf"(?i:\b(?:(?:square|cubic) )?(?:{_plural(UNITS)})\b(?:{_PER})?)|°[CF]\b"),
    ("language", rf"(?i:\b(?:{'|'.join(LANGUAGES)})\b)"),
    ("name", rf"\b{_CAPITAL}(?:(?: (?:of|de|la|le|the|and|van|von|del|da|di|y)(?: the)?)? {_CAPITAL})*"),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)

_SHARED: frozenset[SpanKind] = frozenset({"currency", "unit", "language", "name"})
"""Kinds that may overlap: a pound is a currency and a unit, German a name and a language."""

HEADS = word_set("heads")
"""Words that may begin a sentence with a capital without being names."""

_OBJECTS = tuple(f" {word} " for word in words_in("objects"))
_NEVER = word_set("never")
"""Words that are never part of a name."""

_ONE = re.compile(r"\b(half an?|an?)(?= (?:second|minute|hour|day|week|month|year|dozen)\b)", re.IGNORECASE)


_TIMES_IN_DIGITS = {"twice": "2", "thrice": "3"}
_TIMES = re.compile(r"\b(?:twice|thrice)\b(?! (?:as|the|that|this|\d))", re.IGNORECASE)


class Span(msgspec.Struct, frozen=True, gc=False):
    """A part of a request, with its kind.

    Attributes:
        kind: What it looks like.
        text: The argument: without quotation marks.
        start: Its start in the request, in characters.
        end: Its end, one past its last character.
    """

    kind: SpanKind
    text: str
    start: int
    end: int


def spans_in(request: str) -> list[Span]:
    """Return every part of a request that looks like an argument, in the order of the kinds and then of the text."""
    found: list[Span] = []
    for kind, pattern in _COMPILED:
        for match in pattern.finditer(request):
            text = next((group for group in match.groups() if group is not None), match.group())
            whole = Span(kind=kind, text=text.strip(), start=match.start(), end=match.end())
            for span in _tidy(kind, whole, request):
                if not any(_clash(span, other) for other in found):
                    found.append(span)
    return found + list(_numbers_in_words(request, found))


def _clash(span: Span, other: Span) -> bool:
    if span.start >= other.end or other.start >= span.end:
        return False
    return not (span.kind in _SHARED and other.kind in _SHARED and span.kind != other.kind)


def _tidy(kind: SpanKind, span: Span, request: str) -> Iterator[Span]:
    if kind != "name":
        if kind != "unit" or len(span.text) > 1 or span.start > 0:
            yield span
        return
    # A capital at the start of a sentence means nothing; common English words are not names either.
    words = span.text.split(" ")
    start = span.start
    head = re.search(r"(?:^|[.?!:;\"\u201c]\s*)$", request[:start]) is not None
    if head and request[span.end :].lower().startswith(_OBJECTS) and len(words) == 1:
        return  # a word followed by an object is a verb, whatever its capital suggests
    while words and words[0].lower() in (HEADS if head else _NEVER):
        start += len(words.pop(0)) + 1
    while words and words[-1].lower() in _NEVER:
        words.pop()
    text = " ".join(words)
    if in_digits(text).isdigit():
        return  # a number at the start of a sentence
    if re.match(r"\s+(?!(?:at|on|in|for|to|by|with|and|or)\b)[a-z]", request[span.end :]):
        text = re.sub(r"['\u2019]s$", "", text)
    if text:
        yield Span(kind="name", text=text, start=start, end=start + len(text))


def _numbers_in_words(request: str, found: Sequence[Span]) -> Iterator[Span]:
    for match in _ONE.finditer(request):
        amount = "0.5" if match.group().lower().startswith("half") else "1"
        yield Span(kind="number", text=amount, start=match.start(), end=match.end())
    for match in _TIMES.finditer(request):
        yield Span(kind="number", text=_TIMES_IN_DIGITS[match.group().lower()], start=match.start(), end=match.end())
    for match in re.finditer(r"[A-Za-z]+(?:[ -][A-Za-z]+)*", request):
        start = match.start()
        for word in re.finditer(r"[A-Za-z]+(?:-[A-Za-z]+)?", match.group()):
            digits = in_digits(word.group())
            if digits.isdigit() and word.group().lower() != "one":
                span = Span(kind="number", text=digits, start=start + word.start(), end=start + word.end())
                if not any(other.start < span.end and span.start < other.end for other in found):
                    yield span


def trimmed(text: str) -> str:
    """Return a text without the punctuation and blanks around it."""
    return text.strip(" \t\n\"'\u201c\u201d\u2018\u2019«».,;:!?")

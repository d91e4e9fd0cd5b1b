"""Texts as arguments: names, places, files, dates, messages, and any other text."""

__all__ = ["opens", "taken_by_others", "texts_for"]

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ziggurat.models.local.kinds import SchemaParameter, Want, words_of
from ziggurat.models.local.lexicon import word_set, words_in
from ziggurat.models.local.moments import written
from ziggurat.models.local.phrases import parts_of, phrases_for, runs_in
from ziggurat.models.local.reading import Candidate, Reading, Values, stems
from ziggurat.models.local.spans import Span, SpanKind

_DIRECT: Mapping[Want, tuple[tuple[SpanKind, float], ...]] = {
    "email": (("email", 1.0), ("name", 0.3)),
    "recipient": (("email", 1.0), ("phone", 0.9), ("name", 0.6)),
    "url": (("url", 1.0), ("path", 0.6)),
    "phone": (("phone", 1.0), ("number", 0.5)),
    "path": (("path", 1.0), ("url", 0.5), ("quoted", 0.7), ("name", 0.45)),
    "date": (("date", 1.0),),
    "time": (("time", 1.0), ("date", 0.55)),
    "when": (("date", 1.0), ("time", 1.0)),
    "language": (("language", 1.0), ("name", 0.3)),
    "currency": (("currency", 1.0),),
    "unit": (("unit", 1.0), ("currency", 0.2)),
    "place": (("name", 0.8), ("path", 0.6), ("quoted", 0.5)),
    "name": (("quoted", 0.9), ("name", 0.9), ("path", 0.6)),
    "title": (("quoted", 1.0), ("name", 0.6)),
    "message": (("quoted", 1.0),),
    "request": (("quoted", 0.4),),
    "phrase": (("quoted", 1.0), ("name", 0.2)),
    "task": (("quoted", 0.9),),
    "topic": (("quoted", 0.9), ("name", 0.7)),
    "query": (("quoted", 0.7), ("name", 0.3)),
    "text": (("quoted", 1.0), ("name", 0.5), ("path", 0.5), ("email", 0.2), ("date", 0.2), ("time", 0.2)),
}
_LOOSE: frozenset[Want] = frozenset({"place", "name", "topic", "title", "phrase", "query", "text", "task", "recipient"})
_WHOLE: frozenset[SpanKind] = frozenset({"email", "url", "path", "phone"})
"""Kinds of span that are a whole value and never part of a longer text."""
_THINGS: frozenset[Want] = frozenset({"place", "name", "text", "recipient"})
"""Kinds of parameter whose values contain no date or time."""
_FREE: frozenset[Want] = frozenset({"message", "task", "title", "topic", "query", "text", "phrase"})
"""Kinds of parameter that nearly any words would fit, so an optional one is used only if it is named."""
_FROM_WORDS = frozenset({"from"})
_TO_WORDS = frozenset({"to", "into", "in", "towards", "many", "much", "how"})
_AT_WORDS = frozenset({"in", "at", "for", "to", "from", "near", "around", "of", "over"})
_ORDER = 0.02
"""The penalty for assigning values in another order than in the text."""
_OWN, _PART_OWN = 0.4, 0.2
"""The penalties for a phrase of which all words, or some, are in the tool's own description."""
_LED = 0.2
"""The bonus for a phrase after a preposition that fits the kind of the parameter."""
_WHOLE_RUN = 0.1
_SENTENCE = 3
"""Phrases with at least this many blanks are sentences, whose words may be values of other parameters too."""
_UNSURE = 0.6
"""The factor for the worth of a phrase if the kind of text wanted is unknown."""
_VERB = 0.65
"""The penalty for a capital that may only mark the start of a sentence, where verbs are common."""
_CALLED = re.compile(
    r"\b(?:called|named|titled|labell?ed|entitled|(?:under|by) the (?:name|title)(?: of)?|known as"
    r"|(?:name|call|title|label) (?:it|them|this|that|her|him))\s+",
    re.IGNORECASE,
)
_TITLED = re.compile(r"\b(?:name|title|label|called)\b", re.IGNORECASE)
_LEADS: Mapping[Want, frozenset[str]] = {
    "place": _AT_WORDS,
    "name": frozenset({"of", "for", "on", "at", "to", "from", "near"}),
    "topic": frozenset({"about", "on", "of", "for"}),
    "phrase": frozenset({"for", "of"}),
    "text": frozenset({"for", "of", "about"}),
}
_FILES = stems("file folder directory archive document picture image path photo script drive disk")
_ARTICLES = frozenset({"the", "a", "an", "my", "our", "your", "his", "her", "their", "some", "this", "that"})
_BY_WHOM = re.compile(r"\b(?:artist|author|singer|band|composer|director|painter|who|by|brand|maker)\b", re.IGNORECASE)
_BEFORE_NAME = r"(?:the|an?|my|our|in|into|of|for|with|from|to|and)"
_ENDS = re.compile(r"(?:start|begin|end|until|till|since|from|to|deadline)s?", re.IGNORECASE)
"""Names of parameters that may be a date as well as a place."""
_FOLDER = re.compile(r"\b(?:folder|directory|drive)\b|^(?:.*: )?where\b", re.IGNORECASE)
_STOP = word_set("stop")
_VERBS = word_set("auxiliaries") | word_set("pasts")


def texts_for(parameter: SchemaParameter, reading: Reading, others: Sequence[SchemaParameter]) -> Values:
    """Yield the values that a request offers for a string parameter."""
    yield from _labelled(parameter, reading)
    if not parameter.required and parameter.want in _FREE:
        return
    if parameter.want == "month":
        yield from _months(reading)
    form = str(parameter.schema.get("format", ""))
    if parameter.want == "when" or form == "date-time":
        yield from _format(_moments(reading), form, reading)
    stretches = list(_format(_stretches(parameter, reading, others), form, reading))
    yield from stretches
    taken = taken_by_others(parameter, reading, others)
    if parameter.want in _THINGS:
        taken += reading.of("date", "time")
    for text, worth in phrases_for(parameter.want, reading.text, taken):
        if parameter.want == "text":
            worth *= _UNSURE
            text = _without_own_tail(text, reading)
        if parameter.want != "message" and reading.is_own(text):
            worth -= _OWN
        spans = _place_of(reading, text)
        if spans and text.count(" ") >= _SENTENCE:
            spans = reading.within(spans[0].start, spans[0].end)
        yield Candidate(value=text, worth=worth, spans=spans)
    if parameter.want in _LOOSE and not any(candidate.worth >= 0.8 for candidate in stretches):
        yield from _words(parameter, reading, taken)


def _without_own_tail(text: str, reading: Reading) -> str:
    """Return a phrase without a tail that only repeats the tool's purpose: ``butter on the shopping list``."""
    found = re.search(r"(.+?),? (?:on|in|into|onto|to|from|of|for|at|with) (?:the|an?|my|our) ([\w' -]+)$", text)
    return found.group(1) if found is not None and reading.is_own(found.group(2)) else text


def _stretches(parameter: SchemaParameter, reading: Reading, others: Sequence[SchemaParameter]) -> Values:
    """Yield the spans of the kinds that the parameter takes."""
    alike = [other.name for other in others if other.want == parameter.want]
    texts = [other for other in others if other.want in _DIRECT]
    pair, place = len(alike) > 1, alike.index(parameter.name)
    order = _ORDER * abs(texts.index(parameter)) if parameter in texts else 0.0
    for kind, worth in _DIRECT.get(parameter.want, ()):
        if kind == "path" and parameter.want != "path" and not reading.own & _FILES:
            worth = 0.2
        if kind == "date" and _ENDS.fullmatch(words_of(parameter.name)):
            worth = 0.8
        for rank, span in enumerate(reading.of(kind)):
            name = _without_verb(reading, span)
            if name is None:
                continue
            told = _position(parameter, reading, span, pair or (len(texts) > 1 and kind in _WHOLE))
            late = _ORDER * abs(place - rank) if pair else order * (rank == 0)
            yield Candidate(value=name.text, worth=worth + told - late, spans=(name,))


def _words(parameter: SchemaParameter, reading: Reading, taken: Sequence[Span]) -> Values:
    """Yield runs of content words, rated by similarity to the parameter's description and by the word before them."""
    runs = runs_in(reading.text, taken)
    whole = runs if parameter.want in ("place", "name") else ()
    # A dining room is a room, but a camera is seldom named "camera".
    foreign = reading.own - stems(parameter.words) if parameter.want == "place" else reading.own
    for text, start, end in parts_of(runs):
        # Two words that belong together say more than one of them, so length counts a little.
        worth = 0.45 * reading.near(text, parameter.words) + 0.04 * text.count(" ") + 0.15
        if _lead(reading.text, start) in _LEADS.get(parameter.want, ()):
            worth += _LED
        if " " in text and stems(text.split()[-1]) & stems(words_of(parameter.name)):
            worth += _LED  # a dining room is a room
        words = stems(text)
        worth += _WHOLE_RUN * ((text, start, end) in whole and not words & foreign)
        worth -= _OWN if words and words <= reading.own else _PART_OWN * bool(words & foreign)
        yield Candidate(value=text, worth=worth, spans=(Span(kind="words", text=text, start=start, end=end),))


def _lead(text: str, start: int) -> str:
    """Return the word before a phrase and its article."""
    words = text[:start].lower().split()[-3:]
    while words and words[-1] in _ARTICLES:
        words.pop()
    return words[-1] if words else ""


def _labelled(parameter: SchemaParameter, reading: Reading) -> Values:
    """Yield a value that follows the parameter's own name (``with the subject "Lunch"``) or "called"."""
    name = words_of(parameter.name)
    quoted = r"[\"\u201c'][^\"\u201d']+[\"\u201d']"
    if len(name) >= 3:
        own = rf"\b{re.escape(name)}\b(?: is| of| called| named| to)?:? "
        if found := re.search(rf"{own}({quoted}|[A-Z][\w-]*)", reading.text):
            text = found.group(1).strip("\"\u201c\u201d'")
            yield Candidate(value=text, worth=1.2, spans=_place_of(reading, text))
        elif (found := re.search(rf"\b{_BEFORE_NAME} (?i:{own})([\w./*@-]+)", reading.text)) and found.group(
            1
        ) not in _STOP:
            text = found.group(1).rstrip(".")
            if text[:1].islower() and not reading.is_own(text):
                yield Candidate(value=text, worth=0.75, spans=_place_of(reading, text))
    if _TITLED.search(parameter.words):
        for found in _CALLED.finditer(reading.text):
            rest = reading.text[found.end() :]
            value = re.match(rf"{quoted}|[\w./*@-]*[\w*](?: [A-Z][\w-]*)*", rest)
            if value is not None:
                text = value.group().strip("\"\u201c\u201d'")
                yield Candidate(value=text, worth=1.15, spans=_place_of(reading, text))


def _position(parameter: SchemaParameter, reading: Reading, span: Span, pair: bool) -> float:
    """Return how much the words around a span count for or against a parameter."""
    before = reading.before(span.start)
    last = before[-1] if before else ""
    bonus = 0.0
    if pair and parameter.side:
        from_like = last in _FROM_WORDS or _measures(reading, span) or reading.text[: span.start].endswith("$")
        to_like = last in _TO_WORDS and not from_like
        if from_like:
            bonus += 0.3 if parameter.side == "from" else -0.3
        elif to_like:
            bonus += 0.3 if parameter.side == "to" else -0.3
    if parameter.want == "path":
        # A file extension distinguishes a file from a folder.
        folder, ending = _FOLDER.search(parameter.words) is not None, "." in span.text.rsplit("/", 1)[-1].lstrip(".")
        bonus -= 0.3 * (folder and ending)
        bonus += 0.3 * (folder and span.kind == "name" and last in _AT_WORDS | _TO_WORDS)
    if parameter.want in ("place", "name"):
        name_word = re.escape(words_of(parameter.name))
        if last in _LEADS[parameter.want] or re.search(rf"\b{name_word}\b", " ".join(before)):
            bonus += 0.15
        if last == "by" and _BY_WHOM.search(parameter.words):
            bonus += 0.3
        elif last in ("with", "and", "by"):
            bonus -= 0.2
    if span.kind == "name" and opens(reading, span):
        bonus -= _VERB
    return bonus


def _without_verb(reading: Reading, span: Span) -> Span | None:
    """Return a name without the verb at the start of its sentence: Anna in ``Enroll Anna``, if the tool enrolls."""
    if span.kind != "name" or not _heads(reading.text, span):
        return span
    first, _, rest = span.text.partition(" ")
    if not reading.is_own(first) or not re.match(r"\s*\w", reading.text[span.end :] + rest):
        return span
    return Span(kind="name", text=rest, start=span.end - len(rest), end=span.end) if rest else None


def opens(reading: Reading, span: Span) -> bool:
    """Return whether a single word may be the verb at the start of a sentence, so that its capital means nothing."""
    after = reading.after(span)
    if not _heads(reading.text, span) or " " in span.text or not re.match(r"\s+[\w(]", reading.text[span.end :]):
        return False
    return not (after in _VERBS or after.endswith("ed") or (after.endswith("s") and not reading.is_own(after)))


def _heads(text: str, span: Span) -> bool:
    return re.search(r"(?:^|[.?!:]\s+)$", text[: span.start]) is not None


def _format(values: Values, form: str, reading: Reading) -> Values:
    """Yield dates and times in the schema's format; one that cannot be converted is worth less."""
    for candidate in values:
        if form not in ("date", "time", "date-time"):
            yield candidate
            continue
        text = written(candidate.value, form, reading.today)
        worth = candidate.worth if text else candidate.worth - 0.5
        yield Candidate(value=text or candidate.value, worth=worth, spans=candidate.spans)


def _months(reading: Reading) -> Values:
    months = "|".join(words_in("months"))
    for span in reading.of("date"):
        if found := re.search(rf"\b(?:{months})\b", span.text, re.IGNORECASE):
            start = span.start + found.start()
            part = Span(kind="date", text=found.group(), start=start, end=start + len(found.group()))
            yield Candidate(value=found.group(), worth=1.0, spans=(part,))


def _moments(reading: Reading) -> Values:
    """Yield each date and time that are side by side, as one value."""
    spans = sorted(reading.of("date", "time"), key=lambda span: span.start)
    for one, other in pairwise(spans):
        between = reading.text[one.end : other.start]
        if re.fullmatch(r"[\s,]*(?:at|on|in the)?\s*", between):
            yield Candidate(value=reading.text[one.start : other.end], worth=1.1, spans=(one, other))


def taken_by_others(parameter: SchemaParameter, reading: Reading, others: Sequence[SchemaParameter]) -> list[Span]:
    """Return the spans that the other parameters of a tool claim."""
    kinds = {
        kind
        for other in others
        if other.name != parameter.name
        for kind, worth in _DIRECT.get(other.want, ())
        if worth >= 0.8 and kind not in ("quoted", "name")
    }
    if any(other.want == "number" for other in others):
        kinds.add("number")
    if any(other.want == "place" for other in others if other.name != parameter.name):
        kinds.add("name")
    return [
        span
        for span in reading.spans
        if span.kind in kinds
        or (span.kind in _WHOLE and " " not in span.text)
        or (span.kind == "unit" and "number" in kinds and _measures(reading, span))
    ]


def _measures(reading: Reading, unit: Span) -> bool:
    """Return whether a unit comes right after a number."""
    return any(span.kind == "number" and 0 <= unit.start - span.end <= 1 for span in reading.spans)


def _place_of(reading: Reading, text: str) -> tuple[Span, ...]:
    start = reading.text.find(text)
    return () if start < 0 else (Span(kind="words", text=text, start=start, end=start + len(text)),)

"""What each parameter of a tool could be given out of the words of a request, with a worth."""

__all__ = ["Candidate", "Embed", "Reading", "candidates_for", "read"]

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from ziggurat.models.local.arithmetic import expression_in
from ziggurat.models.local.kinds import Parameter, Want, words_of
from ziggurat.models.local.lexicon import word_set
from ziggurat.models.local.minilm import Vector, cosine
from ziggurat.models.local.phrases import noun_phrases, phrases_for
from ziggurat.models.local.spans import Span, SpanKind, spans_in

Embed = Callable[[Sequence[str]], list[Vector]]


class Candidate(msgspec.Struct, frozen=True):
    """A value a parameter could take.

    Attributes:
        value: The value, of the type the schema asks for.
        worth: How likely it is meant, from 0 to about 1.3.
        spans: The stretches of the request it uses up.
    """

    value: Any
    worth: float
    spans: tuple[Span, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """A request with the stretches found in it; made by `read`."""

    text: str
    spans: tuple[Span, ...]
    embed: Embed

    def near(self, one: str, other: str) -> float:
        """How near two texts are in meaning, from -1 to 1."""
        first, second = self.embed([one, other])
        return cosine(first, second)

    def of(self, *kinds: SpanKind) -> list[Span]:
        """The stretches of some kinds."""
        return [span for span in self.spans if span.kind in kinds]

    def before(self, span: Span) -> str:
        """The two words before a stretch, in lower case."""
        return " ".join(re.findall(r"[\w'\u2019]+", self.text[: span.start].lower())[-2:])

    def after(self, span: Span) -> str:
        """The word after a stretch, in lower case."""
        found = re.match(r"[\s-]*([\w'\u2019]+)", self.text[span.end :].lower())
        return found.group(1) if found else ""


def read(request: str, embed: Embed) -> Reading:
    """Find the stretches of a request."""
    return Reading(text=request, spans=tuple(spans_in(request)), embed=embed)


_DIRECT: Mapping[Want, tuple[tuple[SpanKind, float], ...]] = {
    "email": (("email", 1.0), ("name", 0.3)),
    "recipient": (("email", 1.0), ("phone", 0.9), ("name", 0.6)),
    "url": (("url", 1.0), ("path", 0.6)),
    "phone": (("phone", 1.0), ("number", 0.5)),
    "path": (("path", 1.0), ("url", 0.5), ("quoted", 0.7)),
    "date": (("date", 1.0),),
    "time": (("time", 1.0), ("date", 0.55)),
    "when": (("date", 1.0), ("time", 1.0)),
    "language": (("language", 1.0), ("name", 0.3)),
    "currency": (("currency", 1.0),),
    "unit": (("unit", 1.0), ("currency", 0.2)),
    "place": (("name", 0.8), ("quoted", 0.5)),
    "name": (("quoted", 0.9), ("name", 0.9)),
    "title": (("quoted", 1.0), ("name", 0.4)),
    "message": (("quoted", 1.0),),
    "phrase": (("quoted", 1.0), ("name", 0.2)),
    "task": (("quoted", 0.9),),
    "topic": (("quoted", 0.9), ("name", 0.7)),
    "query": (("quoted", 0.7), ("name", 0.3)),
    "text": (("quoted", 1.0), ("name", 0.5), ("email", 0.2), ("date", 0.2), ("time", 0.2)),
}
_LOOSE: frozenset[Want] = frozenset({"place", "name", "topic", "title", "phrase", "query", "text", "task", "recipient"})
_WHOLE: frozenset[SpanKind] = frozenset({"email", "url", "path", "phone"})
"""What is one thing and never a piece of a text."""
_FREE: frozenset[Want] = frozenset({"message", "task", "title", "topic", "query", "text", "phrase"})
"""What would fit nearly any words, so that an optional parameter of this kind must be named to be given."""
_FROM_WORDS = frozenset({"from"})
_TO_WORDS = frozenset({"to", "into", "in", "towards", "many", "much", "how"})
_AT_WORDS = frozenset({"in", "at", "for", "to", "from", "near", "around", "of", "over"})
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_ORDER = 0.02
"""What it costs to give values out of the order in which they are said."""
_SMALL = word_set("after numbers")
_NOT = re.compile(r"\b(?:not?|don't|without|never)\b", re.IGNORECASE)


def candidates_for(parameter: Parameter, reading: Reading, others: Sequence[Parameter]) -> list[Candidate]:
    """The likeliest values of one parameter, best first, at most six.

    Args:
        parameter: The parameter.
        reading: The request.
        others: All parameters of the same tool.
    """
    found = list(_found(parameter, reading, others))
    best: dict[str, Candidate] = {}
    for candidate in found:
        key = repr(candidate.value)
        if key not in best or candidate.worth > best[key].worth:
            best[key] = candidate
    return sorted(best.values(), key=lambda candidate: -candidate.worth)[:6]


def _found(parameter: Parameter, reading: Reading, others: Sequence[Parameter]) -> Iterator[Candidate]:
    match parameter.want:
        case "number":
            yield from _numbers(parameter, reading, others)
        case "enum":
            yield from _choices(parameter, reading)
        case "boolean":
            yield from _truth(parameter, reading)
        case "expression":
            yield from _expressions(reading)
        case "list":
            yield from _lists(parameter, reading)
        case "other":
            return
        case _:
            yield from _texts(parameter, reading, others)


def _numbers(parameter: Parameter, reading: Reading, others: Sequence[Parameter]) -> Iterator[Candidate]:
    place = [other.name for other in others if other.want == "number"].index(parameter.name)
    measure = next((word for word in re.findall(r"[a-z]+", parameter.words.lower()) if _scale(word)), "")
    for rank, span in enumerate(reading.of("number")):
        value = float(span.text.replace(",", ""))
        unit = reading.after(span)
        worth = 0.8 - _ORDER * abs(place - rank)
        if measure and _scale(unit):
            value = value * _scale(unit) / _scale(measure)
            worth = 1.1
        elif measure and unit.isalpha() and unit not in _SMALL:
            worth = 0.3
        elif unit.isalpha() and len(parameter.words) > 2:
            worth += 0.4 * max(0.0, reading.near(unit, parameter.words))
        if parameter.whole and value != int(value):
            continue
        if _within(value, parameter.schema):
            yield Candidate(value=int(value) if value == int(value) else value, worth=worth, spans=(span,))


def _scale(word: str) -> int:
    return _SECONDS.get(word.removesuffix("s"), 0)


def _within(value: float, schema: Mapping[str, Any]) -> bool:
    return (
        value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and (value > schema["exclusiveMinimum"] if "exclusiveMinimum" in schema else True)
        and (value < schema["exclusiveMaximum"] if "exclusiveMaximum" in schema else True)
    )


def _choices(parameter: Parameter, reading: Reading) -> Iterator[Candidate]:
    heard = re.findall(r"[\w'\u2019-]+", reading.text.lower())
    words = {form for word in heard for form in (word, word.removesuffix("s"))}
    exact = False
    for choice in parameter.choices:
        plain = words_of(str(choice))
        single = plain.removesuffix("s")
        position = next((at for at, word in enumerate(heard) if word.removesuffix("s") == single), None)
        if plain in reading.text.lower() if " " in plain else plain.removesuffix("s") in words or plain in words:
            exact = True
            # Of two that are named, the later one is the wish: "nobody is on the sofa, switch it off".
            yield Candidate(value=choice, worth=1.0 + 0.001 * (position or 0))
    if exact:
        return
    phrases = [*noun_phrases(reading.text, ())[-24:], reading.text]
    for choice in parameter.choices:
        near = max(reading.near(phrase, words_of(str(choice))) for phrase in phrases)
        if parameter.required or near > 0.5:
            yield Candidate(value=choice, worth=0.8 * near)


def _lists(parameter: Parameter, reading: Reading) -> Iterator[Candidate]:
    """All numbers, all listed words that are named, or all that is quoted, else all that has a name."""
    items: Mapping[str, Any] = parameter.schema.get("items", {})
    spans: list[Span] = []
    values: list[Any] = []
    if items.get("type") in ("number", "integer"):
        spans = sorted(reading.of("number"), key=lambda span: span.start)
        numbers = [float(span.text.replace(",", "")) for span in spans]
        values = [int(number) if number == int(number) else number for number in numbers]
    elif "enum" in items:
        heard = reading.text.lower()
        values = [choice for choice in items["enum"] if re.search(rf"\b{re.escape(str(choice).lower())}", heard)]
    else:
        spans = reading.of("quoted") or reading.of("email") or reading.of("name")
        values = [span.text for span in spans]
    if values:
        yield Candidate(value=values, worth=0.8, spans=tuple(spans))


def _truth(parameter: Parameter, reading: Reading) -> Iterator[Candidate]:
    stems = {word[:5] for word in re.findall(r"[a-z]{4,}", words_of(parameter.name))}
    heard = {word[:5] for word in re.findall(r"[a-z]{4,}", reading.text.lower())}
    if stems & heard:
        yield Candidate(value=not _NOT.search(reading.text), worth=1.0)
    elif parameter.required:
        yield Candidate(value=not _NOT.search(reading.text), worth=0.3)


def _expressions(reading: Reading) -> Iterator[Candidate]:
    text = reading.text
    for span in reading.of("date", "phone", "time", "path", "url", "email"):
        if not span.text.isalpha():
            text = text[: span.start] + "~" * (span.end - span.start) + text[span.end :]
    expression = expression_in(text)
    if expression is not None:
        yield Candidate(value=expression, worth=1.2, spans=tuple(reading.of("number")))


def _texts(parameter: Parameter, reading: Reading, others: Sequence[Parameter]) -> Iterator[Candidate]:
    named = _named(parameter, reading)
    if named is not None:
        yield named
    if not parameter.required and parameter.want in _FREE:
        return
    alike = [other.name for other in others if other.want == parameter.want]
    pair, place = len(alike) > 1, alike.index(parameter.name)
    direct = False
    for kind, worth in _DIRECT.get(parameter.want, ()):
        for rank, span in enumerate(reading.of(kind)):
            direct = direct or worth >= 0.8
            yield Candidate(
                value=span.text,
                worth=worth + _position(parameter, reading, span, pair) - _ORDER * abs(place - rank) * pair,
                spans=(span,),
            )
    if parameter.want == "when":
        yield from _moments(reading)
    taken = _taken(parameter, reading, others)
    for text, worth in phrases_for(parameter.want, reading.text, taken):
        yield Candidate(value=text, worth=worth, spans=_inside(reading, text))
    if parameter.want in _LOOSE and not direct:
        for text in noun_phrases(reading.text, taken):
            # Two words that belong together say more than one of them, so length counts a little.
            worth = 0.45 * reading.near(text, parameter.words) + 0.04 * text.count(" ") + 0.15
            yield Candidate(value=text, worth=worth, spans=_inside(reading, text))


def _named(parameter: Parameter, reading: Reading) -> Candidate | None:
    """A value that follows the parameter's own name: ``with the subject "Lunch"``."""
    name = words_of(parameter.name)
    value = r"([\"\u201c'][^\"\u201d']+[\"\u201d']|[A-Z][\w-]*)"
    found = re.search(rf"\b{re.escape(name)}\b(?: is| of| called)?:? {value}", reading.text)
    if found is None or len(name) < 3:
        return None
    text = found.group(1).strip("\"\u201c\u201d'")
    return Candidate(value=text, worth=1.2, spans=_inside(reading, text))


def _position(parameter: Parameter, reading: Reading, span: Span, pair: bool) -> float:
    """What the words around a stretch say for or against a parameter."""
    before = reading.before(span).split()
    last = before[-1] if before else ""
    bonus = 0.0
    if pair and parameter.side:
        measured = any(other.kind == "number" and 0 <= span.start - other.end <= 1 for other in reading.spans)
        from_like = last in _FROM_WORDS or measured or reading.text[: span.start].endswith("$")
        to_like = last in _TO_WORDS and not from_like
        if from_like:
            bonus += 0.3 if parameter.side == "from" else -0.3
        elif to_like:
            bonus += 0.3 if parameter.side == "to" else -0.3
    if parameter.want in ("place", "name"):
        name_word = re.escape(words_of(parameter.name))
        if last in _AT_WORDS or re.search(rf"\b{name_word}\b", " ".join(before)):
            bonus += 0.15
        if last in ("with", "and", "by"):
            bonus -= 0.2
    if span.kind == "name" and _opens(reading.text, span):
        bonus -= 0.45
    if parameter.schema.get("format") == "date" and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", span.text):
        bonus -= 0.5
    return bonus


def _opens(text: str, span: Span) -> bool:
    """Whether a single word opens a sentence that goes on, so that its capital says nothing."""
    starts = re.search(r"(?:^|[.?!:]\s+)$", text[: span.start]) is not None
    return starts and " " not in span.text and re.match(r"\s+[a-z]", text[span.end :]) is not None


def _moments(reading: Reading) -> Iterator[Candidate]:
    """A day and a time that stand side by side, as one."""
    spans = sorted(reading.of("date", "time"), key=lambda span: span.start)
    for one, other in pairwise(spans):
        between = reading.text[one.end : other.start]
        if re.fullmatch(r"[\s,]*(?:at|on|in the)?\s*", between):
            yield Candidate(value=reading.text[one.start : other.end], worth=1.1, spans=(one, other))


def _taken(parameter: Parameter, reading: Reading, others: Sequence[Parameter]) -> list[Span]:
    """The stretches that the other parameters want for themselves."""
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
    return [span for span in reading.spans if span.kind in kinds or (span.kind in _WHOLE and " " not in span.text)]


def _inside(reading: Reading, text: str) -> tuple[Span, ...]:
    start = reading.text.find(text)
    if start < 0:
        return ()
    return tuple(span for span in reading.spans if span.start < start + len(text) and start < span.end)

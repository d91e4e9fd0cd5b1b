"""What a request states: its words, numbers and sums; the values that can be copied from it; and whether it states
those of a call."""

import ast
import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ziggurat.messages.model import ToolSpec
from ziggurat.models.local.minilm import Vector, cosine, pieces
from ziggurat.models.local.schema import Field, fields_of, words_of

Embed = Callable[[Sequence[str]], list[Vector]]

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: value for value, word in enumerate(_SMALL)} | {word: 20 + 10 * at for at, word in enumerate(_TENS)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_NUMERAL = "|".join((*_VALUES, *_SCALES))
_AND = r"(?:(?<=hundred)|(?<=thousand)|(?<=million)) and "
_IN_WORDS = re.compile(rf"\b(?:{_NUMERAL})\b(?:(?:{_AND}|[ -])(?:{_NUMERAL})\b)*", re.IGNORECASE)

_SIGNS_OF_WORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), sign)
    for pattern, sign in (
        (r"[$€£](?=\d)", ""),
        (r"(?:%|\bpercent|\bper cent) of\b", "/ 100 *"),
        (r"\bsquared\b", "** 2"),
        (r"\bto the power(?: of)?\b|\^", "**"),
        (r"\b(?:multiplied by|times)\b|[\u00d7·]|(?<=[\d)]) ?x ?(?=[\d(-])", "*"),
        (r"\b(?:divided by|over)\b|÷", "/"),
        (r"\bplus\b", "+"),
        (r"\bminus\b|[\u2212\u2013]", "-"),
    )
)

_LONGEST_EDGE = 5  # up to how many signs on each side of an expression may be punctuation

_SIGNS = ("+", "-", "*", "/", "%", "(", ")", "**", "//")
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\*\*|//|[-+*/%()]|[A-Za-z]+|\S")


def in_digits(text: str) -> str:
    """Replace numbers written as words by digits (``two hundred and five`` becomes ``205``)."""
    return _IN_WORDS.sub(lambda match: str(_value(match.group().lower())), text)


def _value(words: str) -> int:
    total = part = 0
    for word in re.findall(r"[a-z]+", words):
        if word in _VALUES:
            part += _VALUES[word]
        elif word == "hundred":
            part = (part or 1) * 100
        elif word in _SCALES:
            total += (part or 1) * _SCALES[word]
            part = 0
    return total + part


def expression_in(text: str) -> str | None:
    """Return the arithmetic expression in a text, in Python notation, or None if it would leave out a number."""
    text = in_digits(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
    for pattern, sign in _SIGNS_OF_WORDS:
        text = pattern.sub(sign, text)
    runs: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token[0].isdigit() or token in _SIGNS:
            runs[-1].append(token)
        else:
            runs.append([])
    with_numbers = [run for run in runs if any(token[0].isdigit() for token in run)]
    return _expression(with_numbers[0]) if len(with_numbers) == 1 else None


def _expression(run: Sequence[str]) -> str | None:
    """Return the expression in a run of tokens, without the signs around it that are punctuation."""
    numbers = [place for place, token in enumerate(run) if token[0].isdigit()]
    for start in range(min(numbers[0], _LONGEST_EDGE) + 1):
        for end in range(len(run), max(numbers[-1], len(run) - _LONGEST_EDGE), -1):
            try:
                tree = ast.parse(" ".join(run[start:end]), mode="eval")
                kinds = {type(node) for node in ast.walk(tree)}
                text = ast.unparse(tree)
                if ast.BinOp in kinds and not kinds & {ast.Call, ast.Tuple} and "e" not in text:  # 1e+16
                    return text
            except (SyntaxError, RecursionError, MemoryError):  # no expression, or nested hundreds of levels deep
                continue
    return None


_WORD = re.compile(
    r"\"[^\"]+\"|\u201c[^\u201d]+\u201d|«[^»]+»|`[^`]+`|(?<!\w)'[^']+(?:'\w[^']*)*'(?!\w)|(?<!\w)\u2018[^\u2019]+\u2019|\S+"
)
"""A quoted text counts as one word."""
_EDGES = " \t\n\"'`\u201c\u201d\u2018\u2019«».,;:!?()[]¿¡"
_NUMBER = re.compile(r"[^\w\s.-]?(-?\d+(?:,\d{3})*(?:\.\d+)?)[^\d,.:/-]{0,3}")
"""A number, with a sign of currency before it or a short unit after it."""
_LONGEST = 24
_FIRST_WORD, _LAST_WORD = 1990, 30_000
"""The vocabulary lists whole words by falling frequency from about here to its end."""


class Span(msgspec.Struct, frozen=True, gc=False):
    start: int
    end: int

    def overlaps(self, others: Sequence["Span"]) -> bool:
        return any(self.start < other.end and other.start < self.end for other in others)


class Words:
    def __init__(self, text: str) -> None:
        self.text = text
        spans = (_without_edges(text, match.start(), match.end()) for match in _WORD.finditer(text))
        self.spans: list[Span] = [span for span in spans if span.end > span.start]
        self._number = {place: number for number, span in enumerate(self.spans) for place in (span.start, span.end)}

    def numbers(self) -> Iterator[tuple[str, Span]]:
        for span in self.spans:
            number = _NUMBER.fullmatch(in_digits(self.text[span.start : span.end]))
            if number is not None:
                yield number[1].replace(",", ""), span

    def runs(self, used: Sequence[Span]) -> Iterator[Span]:
        """Yield the runs of up to 24 words that overlap nothing used and do not cut a name of several words."""
        for first, begin in enumerate(self.spans):
            for last in range(first, min(len(self.spans), first + _LONGEST)):
                run = Span(begin.start, self.spans[last].end)
                if run.overlaps(used):
                    break
                if not self._in_name(first) and not self._in_name(last + 1):
                    yield run

    def ends(self, run: Span) -> tuple[str, str, int]:
        first, last = self._number[run.start], self._number[run.end]
        one, other = self.spans[first], self.spans[last]
        return self.text[one.start : one.end], self.text[other.start : other.end], last - first + 1

    def _in_name(self, number: int) -> bool:
        """Return whether a word and the one before it both begin with a capital, the first word aside."""
        if not 1 < number < len(self.spans):
            return False
        before, span = self.spans[number - 1], self.spans[number]
        if self.text[before.end : span.start] not in (" ", ". "):
            return False
        return self.text[before.start].isupper() and self.text[span.start].isupper()


def _without_edges(text: str, start: int, end: int) -> Span:
    word = text[start:end]
    return Span(start + len(word) - len(word.lstrip(_EDGES)), end - len(word) + len(word.rstrip(_EDGES)))


@functools.lru_cache(4096)
def rarity(word: str) -> float:
    """Return how rare a word is, from 0 (such as "the") to 1; a word that is not in the vocabulary is rare."""
    # The vocabulary of the sentence model is ordered by frequency, so that no list of words is needed.
    numbers = pieces(word, 8)
    place = numbers[1] if len(numbers) == 3 else _LAST_WORD
    return math.log(max(1, place - _FIRST_WORD)) / math.log(_LAST_WORD)


# -- values copied from a request --------------------------------------------------------------------------------------

_FORMATS = {
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "uri": re.compile(r"https?://[^\s<>\"']*[^\s<>\"'.,;:!?)]"),
    "date": re.compile(r"\b\d{4}-\d{2}-\d{2}\b"),
    "time": re.compile(r"\b\d{2}:\d{2}(?::\d{2})?\b"),
    "date-time": re.compile(r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}\S*"),
}
_EXPRESSION = re.compile(r"\b(?:expression|formula|arithmetic|equation|calculation)\b", re.IGNORECASE)
_CHOICE = 0.25  # the lowest similarity of a request to a choice that it does not name

_NEAR, _ENDS, _OWN, _CAPITAL, _START, _WORDS = 4.6, 3.9, -3.3, 2.3, -1.5, -1.0
"""Weights of a run of words as a value, fitted on the requests of `tests/data/local_domains.jsonl`.

Similarity to the field; rarity of the first and the last word; share of the words that describe the tool; share of
capitals; whether it begins the request; logarithm of its number of words.
"""
_QUOTED = 10.0
"""What is added for a quoted text as a message."""
_PROSE, _PLAIN_NAME, _LONG = (
    ("the text of a message or a note", "a sentence of several words", "what it should do, in full"),
    "a name",
    0.22,
)
"""A field takes a long text if it is this much more similar to one of the first than to a name."""
_RUNS = 12  # how many runs are compared by meaning


class _Option(msgspec.Struct, frozen=True):
    value: Any
    score: float = 1.0
    span: Span = Span(0, 0)


class Copied(msgspec.Struct, frozen=True):
    values: dict[str, Any]
    missing: tuple[str, ...]


class Copier:
    def __init__(self, text: str, fields: Sequence[Field], embed: Embed, purpose: str = "") -> None:
        self.words: Words = Words(text)
        self.fields: Sequence[Field] = fields
        self._embed = embed
        self._own = set(re.findall(r"\w+", " ".join((purpose, *(field.label for field in fields))).lower()))
        self.values: dict[str, Any] = {}
        self._used: list[Span] = []
        for field in fields:
            self._keep(field, self._literal(field))
        self._assign([field for field in fields if field.kind == "number"], self._numbers)

    @property
    def strict(self) -> tuple[Field, ...]:
        """The required fields whose values can be recognised in a request: numbers, expressions, known formats."""
        return tuple(field for field in self.fields if field.required and (field.kind == "number" or _is_formal(field)))

    @property
    def unused(self) -> int:
        return sum(not span.overlaps(self._used) for _, span in self.words.numbers())

    def recognised(self) -> Copied:
        """Return the values that are stated literally: numbers, choices that are named, expressions, known formats."""
        values = {field.name: self.values[field.name] for field in self.fields if field.name in self.values}
        return Copied(values, tuple(field.name for field in self._open()))

    def copy(self) -> Copied:
        """Fill the remaining required fields with what is most similar to them, and return all values."""
        for field in self._open():
            if field.kind == "choice":
                self._keep(field, self._meant(field))
        texts = [field for field in self._open() if field.kind == "text" and not _is_formal(field)]
        self._assign(texts, self._texts)
        return self.recognised()

    def _open(self) -> list[Field]:
        return [field for field in self.fields if field.required and field.name not in self.values]

    def _keep(self, field: Field, option: _Option | None) -> None:
        if option is not None:
            self.values[field.name] = option.value
            self._used.append(option.span)

    def _assign(self, fields: Sequence[Field], options_of: Callable[[Field], Iterable[_Option]]) -> None:
        """Give fields their values: required ones and those with the best score first; no two share words."""
        pairs = [(field, option) for field in fields for option in options_of(field)]
        for field, option in sorted(pairs, key=lambda pair: (not pair[0].required, -pair[1].score)):
            if field.name not in self.values and not option.span.overlaps(self._used):
                self._keep(field, option)

    def _literal(self, field: Field) -> _Option | None:
        """Return what a request states literally: the choice named last, an expression, a value in a known format."""
        text = self.words.text
        if field.kind == "choice":
            forms = [(choice, rf"(?<!\w){re.escape(words_of(str(choice)))}(?!\w)") for choice in field.choices]
            named = [(each.span(), choice) for choice, form in forms for each in re.finditer(form, text, re.IGNORECASE)]
            span, value = max(named, key=lambda each: each[0][0], default=((0, 0), None))
            return _Option(value, span=Span(*span)) if named else None
        if _is_expression(field):
            expression = expression_in(text)
            return None if expression is None else _Option(expression, span=Span(0, len(text)))
        match = _FORMATS[field.schema["format"]].search(text) if _is_formal(field) else None
        return None if match is None else _Option(match.group(), span=Span(*match.span()))

    def _numbers(self, field: Field) -> Iterator[_Option]:
        low, high = field.schema.get("minimum", float("-inf")), field.schema.get("maximum", float("inf"))
        for digits, span in self.words.numbers():
            value = float(digits) if "." in digits else int(digits)
            whole = isinstance(value, int) or field.schema.get("type") != "integer"
            if whole and low <= value <= high and not span.overlaps(self._used):
                yield _Option(value, span=span)

    def _meant(self, field: Field) -> _Option | None:
        request, *choices = self._embed([self.words.text, *(words_of(str(choice)) for choice in field.choices)])
        near, best = max((cosine(request, vector), -number) for number, vector in enumerate(choices))
        return _Option(field.choices[-best]) if near >= _CHOICE else None

    def _texts(self, field: Field) -> Iterator[_Option]:
        """Yield runs of words as values of a field; for a message or a note, long ones."""
        label, name, *prose = self._embed([field.label, _PLAIN_NAME, *_PROSE])
        is_long = max(cosine(label, each) for each in prose) - cosine(label, name) > _LONG
        rate = self._rate_long if is_long else self._rate
        for run in sorted(self.words.runs(self._used), key=rate, reverse=True)[:_RUNS]:
            value = self.words.text[run.start : run.end]
            near = 0.0 if is_long else cosine(self._embed([value])[0], label)
            yield _Option(value, rate(run) + _NEAR * near, run)

    def _rate_long(self, run: Span) -> float:
        """Return how likely a run of words is a message: the longer the better, from after the words of the tool."""
        first, _, count = self.words.ends(run)
        spoken = run.start == self.words.spans[0].start or first.lower() in self._own
        quoted = count == 1 and " " in self.words.text[run.start : run.end]
        return math.log(count) + (_START if spoken else 0.0) + (_QUOTED if quoted else 0.0)

    def _rate(self, run: Span) -> float:
        first, last, count = self.words.ends(run)
        words = re.findall(r"\w+", self.words.text[run.start : run.end]) or [""]
        score = _ENDS * ((1.0 if first[0].isupper() else rarity(first)) + rarity(last)) + _WORDS * math.log(count)
        score += _OWN * sum(word.lower() in self._own for word in words) / len(words)
        if run.start == self.words.spans[0].start:
            return score + _START
        capitals = sum(word[:1].isupper() or word[:1].isdigit() for word in words)
        return float(score + _CAPITAL * capitals / len(words))


def _is_expression(field: Field) -> bool:
    return field.kind == "text" and _EXPRESSION.search(field.label) is not None


def _is_formal(field: Field) -> bool:
    return field.kind == "text" and (field.schema.get("format") in _FORMATS or _is_expression(field))


# -- values stated by a conversation ----------------------------------------------------------------------------------

_STEM = 4  # two words are the same if one begins with the other, and the shorter one has so many letters: edit, edited
_LETTERS = 24  # how many letters of a word are compared
_RARE = 0.6  # how rare a word in the description of a parameter must be to show that a request is about it
_SHARE = 0.5  # the share of the words of a text that the conversation must contain
_FIGURE = re.compile(r"\d+(?:\.\d+)?")


class Statements:
    """What a conversation states, as far as it shows in its words and numbers."""

    def __init__(self, text: str) -> None:
        text = in_digits(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
        self._words = set(_words(text))
        self._beginnings = {each for word in self._words for each in _beginnings(word)}
        self._numbers = Counter(float(digits) for digits in _FIGURE.findall(text))

    def only(self, arguments: Mapping[str, Any], tool: ToolSpec) -> dict[str, Any]:
        fields = {field.name: field for field in fields_of(tool.parameters)}
        required = {name: value for name, value in arguments.items() if name not in fields or fields[name].required}
        numbers = self._numbers - Counter(leaf for leaf in _leaves(required) if _is_number(leaf))
        texts = {str(leaf).casefold() for leaf in _leaves(required)}
        purpose = set(_words(f"{words_of(tool.name)} {tool.description}"))
        stated = set(required)
        for name in (name for name in arguments if name not in required):
            leaves = list(_leaves(arguments[name]))
            if any(self._has(leaf, numbers, texts) for leaf in leaves) or self._mentions(fields[name], purpose, leaves):
                stated.add(name)
                numbers -= Counter(leaf for leaf in leaves if _is_number(leaf))
        return {name: value for name, value in arguments.items() if name in stated}

    def _has(self, value: Any, numbers: Mapping[float, int], texts: set[str]) -> bool:
        """Return whether a number or text occurs, and is not a copy of another argument."""
        if _is_number(value):
            return numbers.get(value, 0) > 0 or numbers.get(value * 100, 0) > 0  # a half may be stated as 50 percent
        words = _words(in_digits(value)) if isinstance(value, str) and value.casefold() not in texts else []
        return bool(words) and sum(map(self._contains, words)) >= _SHARE * len(words)

    def _mentions(self, field: Field, purpose: set[str], leaves: list[Any]) -> bool:
        """Return whether a word of a parameter occurs that does not describe the tool as a whole."""
        if not leaves:
            return False
        described = bool(field.choices) or leaves[0] is True
        words = set(_words(field.label if described else words_of(field.name))) - purpose
        return any(rarity(word) >= _RARE and self._contains(word) for word in words)

    def _contains(self, word: str) -> bool:
        return word in self._words or word in self._beginnings or any(each in self._words for each in _beginnings(word))


def _beginnings(word: str) -> Iterator[str]:
    return (word[:end] for end in range(_STEM, len(word)))


def _words(text: str) -> list[str]:
    words = (word[:_LETTERS] for word in re.findall(r"\w+", words_of(text)))
    return [str(int(word)) if word.isdecimal() else word for word in words]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the parts of a value that contain no others; None and empty texts are not stated."""
    if isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(part)
    elif value is not None and value != "":
        yield value

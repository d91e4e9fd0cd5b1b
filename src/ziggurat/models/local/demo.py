"""The demo model: sentence embeddings choose the tool, and parts of the request fill it; nothing is invented."""

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.log import logger
from ziggurat.core.service import NAME, Fact
from ziggurat.core.settings import checked
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message, Text, TextDelta, ToolCall, ToolCallDelta, ToolResult
from ziggurat.messages.model import (
    MODEL_NAME,
    OUTPUT_MODES,
    FinishReason,
    ModelRequest,
    ModelResponse,
    OutputSchema,
    ToolSpec,
)
from ziggurat.messages.usage import Usage
from ziggurat.models.local import schema
from ziggurat.models.local.minilm import MiniLm, Vector, cosine
from ziggurat.models.local.spans import Span, Words, expression_in, rarity
from ziggurat.models.local.wordpiece import pieces

_NAME = "demo"
_HEAD, _TAIL = 200, 600
"""How many characters of the beginning and the end of a long request are read, to bound the time."""
_COUNTED = 8192
"""Up to how many tokens the usage counts."""
_DOCUMENT = 4000
"""How many characters are read for structured output."""

_LONGEST_SENTENCE = 160
_LISTED = 5
_OTHERS = "choose another model, such as ollama:NAME or openai:NAME."
_THRESHOLD = 0.25
"""The lowest score of a tool that is called."""
_STRICT, _LACKING, _UNUSED, _NAMED = 0.1, -0.25, -0.05, 0.1
"""Added per required number or address that is found or missing, per number left over, and for the name of the tool."""


Embed = Callable[[Sequence[str]], list[Vector]]

_FORMATS = {
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "uri": re.compile(r"https?://[^\s<>\"']*[^\s<>\"'.,;:!?)]"),
    "date": re.compile(r"\b\d{4}-\d{2}-\d{2}\b"),
    "time": re.compile(r"\b\d{2}:\d{2}(?::\d{2})?\b"),
    "date-time": re.compile(r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}\S*"),
}
_EXPRESSION = re.compile(r"\b(?:expression|formula|arithmetic|equation|calculation)\b", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:no|not|off|false|without|\w+n['\u2019]t)\b", re.IGNORECASE)
_CHOICE = 0.25
"""The lowest similarity of a request to a choice that it does not name."""

_NEAR, _EDGES, _OWN, _CAPITAL, _START, _WORDS = 4.6, 3.9, -3.3, 2.3, -1.5, -1.0
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
_RUNS, _OPTIONS, _WIDTH = 12, 6, 32
"""How many runs are compared by meaning, how many per field are combined, and how many combinations are kept."""
_NUMBERS = 8
"""How many numbers are compared by meaning."""


class _Option(msgspec.Struct, frozen=True):
    """A value that a field could take, from a part of the request, with its score."""

    value: Any
    score: float
    spans: tuple[Span, ...]


class Copied(msgspec.Struct, frozen=True):
    """The values found for some fields."""

    values: dict[str, Any]
    missing: tuple[str, ...]


class Copier:
    """Finds the values of some fields in a request."""

    def __init__(self, text: str, fields: Sequence[schema.Field], embed: Embed, purpose: str = "") -> None:
        self.words: Words = Words(text)
        self._fields = fields
        self._embed = embed
        self._own = set(_split_words(" ".join((purpose, *(field.label for field in fields)))))
        self.values: dict[str, Any] = {}
        self._used: list[Span] = []
        for field in fields:
            self._keep(field, next(self._literal(field), None))
        numbers = [field for field in fields if field.kind == "number"]
        self._assign(numbers, [list(self._numbers(field)) for field in numbers])

    @property
    def strict(self) -> tuple[schema.Field, ...]:
        """The required fields whose values can be recognised in a request: numbers, expressions, known formats."""
        return tuple(
            field for field in self._fields if field.required and (field.kind == "number" or _is_formal(field))
        )

    @property
    def unused(self) -> int:
        """How many numbers of the request are no value."""
        return sum(not span.overlaps(self._used) for _, span in self.words.numbers())

    def recognised(self) -> Copied:
        """Return the values that are stated literally: numbers, choices that are named, expressions, known formats."""
        values = {field.name: self.values[field.name] for field in self._fields if field.name in self.values}
        return Copied(values, tuple(field.name for field in self._open()))

    def copy(self) -> Copied:
        """Fill the remaining required fields with what is most similar to them, and return all values."""
        for field in self._open():
            if field.kind == "choice" or field.kind == "boolean":
                self._keep(field, self._meant(field))
        texts = [field for field in self._open() if field.kind == "text" and not _is_formal(field)]
        self._assign(texts, [self._texts(field) for field in texts])
        return self.recognised()

    def _open(self) -> list[schema.Field]:
        return [field for field in self._fields if field.required and field.name not in self.values]

    def _keep(self, field: schema.Field, option: _Option | None) -> None:
        if option is not None:
            self.values[field.name] = option.value
            self._used += option.spans

    def _assign(self, fields: Sequence[schema.Field], options: Sequence[Sequence[_Option]]) -> None:
        """Give fields the values with the best total score that share no words."""
        best: list[tuple[float, tuple[_Option | None, ...], tuple[Span, ...]]] = [(0.0, (), ())]
        for field, some in zip(fields, options, strict=True):
            skipped = -100.0 if field.required else 0.0
            longer = [(score + skipped, (*chosen, None), used) for score, chosen, used in best]
            for score, chosen, used in best:
                longer += [
                    (score + option.score, (*chosen, option), used + option.spans)
                    for option in some
                    if not any(span.overlaps(used) for span in option.spans)
                ]
            best = sorted(longer, key=lambda each: -each[0])[:_WIDTH]
        for field, option in zip(fields, best[0][1], strict=True):
            self._keep(field, option)

    def _literal(self, field: schema.Field) -> Iterator[_Option]:
        """Yield what a request states literally: the choice named last, an expression, a value in a known format."""
        text = self.words.text
        if field.kind == "choice":
            named = [(match.start(), choice, match) for choice in field.choices for match in _named(choice, text)]
            for _, choice, match in sorted(named, key=lambda each: -each[0]):
                yield _Option(choice, 1.0, (Span(match.start(), match.end()),))
        elif _is_expression(field):
            expression = expression_in(text)
            if expression is not None:
                yield _Option(expression, 1.0, (Span(0, len(text)),))
        elif _is_formal(field):
            for match in _FORMATS[field.schema["format"]].finditer(text):
                yield _Option(match.group(), 1.0, (Span(*match.span()),))

    def _numbers(self, field: schema.Field) -> Iterator[_Option]:
        """Yield the numbers for a field, scored by the similarity of the words around them to the field."""
        label = self._embed([field.label])[0]
        for value, span in islice(self._allowed(field), _NUMBERS):
            near = cosine(self._embed([self.words.around(span)])[0], label)
            yield _Option(value, 1.0 + near, (span,))

    def _allowed(self, field: schema.Field) -> Iterator[tuple[int | float, Span]]:
        low, high = field.schema.get("minimum", float("-inf")), field.schema.get("maximum", float("inf"))
        for digits, span in self.words.numbers():
            value = float(digits) if "." in digits else int(digits)
            whole = isinstance(value, int) or field.schema.get("type") != "integer"
            if whole and low <= value <= high and not span.overlaps(self._used):
                yield value, span

    def _meant(self, field: schema.Field) -> _Option | None:
        """Return the choice nearest in meaning to the request; for yes or no, whether it is negated."""
        if field.kind == "boolean":
            return _Option(_NEGATED.search(self.words.text) is None, 1.0, ())
        request, *choices = self._embed([self.words.text, *(schema.words_of(str(choice)) for choice in field.choices)])
        near, best = max((cosine(request, vector), -number) for number, vector in enumerate(choices))
        return _Option(field.choices[-best], near, ()) if near >= _CHOICE else None

    def _texts(self, field: schema.Field) -> list[_Option]:
        """Return runs of words as values of a field, best first; for a message or a note, long ones."""
        label, name, *prose = self._embed([field.label, _PLAIN_NAME, *_PROSE])
        is_long = max(cosine(label, each) for each in prose) - cosine(label, name) > _LONG
        rate = self._rate_long if is_long else self._rate
        options = []
        for run in sorted(self.words.runs(self._used), key=rate, reverse=True)[:_RUNS]:
            value = self.words.text[run.start : run.end]
            near = 0.0 if is_long else cosine(self._embed([value])[0], label)
            options.append(_Option(value, rate(run) + _NEAR * near, (run,)))
        return sorted(options, key=lambda option: -option.score)[:_OPTIONS]

    def _rate_long(self, run: Span) -> float:
        """Return how likely a run of words is a message: the longer the better, from after the words of the tool."""
        first, _, count = self.words.ends(run)
        spoken = run.start == self.words.spans[0].start or first.lower() in self._own
        quoted = count == 1 and " " in self.words.text[run.start : run.end]
        return math.log(count) + (_START if spoken else 0.0) + (_QUOTED if quoted else 0.0)

    def _rate(self, run: Span) -> float:
        """Return how likely a run of words is a value, whatever the field."""
        first, last, count = self.words.ends(run)
        words = re.findall(r"\w+", self.words.text[run.start : run.end]) or [""]
        score = _EDGES * ((1.0 if first[0].isupper() else rarity(first)) + rarity(last)) + _WORDS * math.log(count)
        score += _OWN * sum(word.lower() in self._own for word in words) / len(words)
        if run.start == self.words.spans[0].start:
            return score + _START
        capitals = sum(word[:1].isupper() or word[:1].isdigit() for word in words)
        return float(score + _CAPITAL * capitals / len(words))


def _split_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _named(choice: Any, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(rf"(?<!\w){re.escape(schema.words_of(str(choice)))}(?!\w)", text, re.IGNORECASE)


def _is_expression(field: schema.Field) -> bool:
    return field.kind == "text" and _EXPRESSION.search(field.label) is not None


def _is_formal(field: schema.Field) -> bool:
    return field.kind == "text" and (field.schema.get("format") in _FORMATS or _is_expression(field))


class _Described(msgspec.Struct, frozen=True):
    name: str
    purpose: str
    fields: tuple[schema.Field, ...]
    views: tuple[Sequence[float], ...]


class Choice(msgspec.Struct, frozen=True):
    """A tool with the arguments found for it."""

    tool: str
    copied: Copied


def describe(tool: ToolSpec, embed: Embed) -> _Described:
    """Prepare a tool for comparison; takes a few milliseconds per tool the first time."""
    plain = schema.words_of(tool.name)
    fields = schema.fields_of(tool.parameters)
    purpose = f"{plain}. {tool.description.strip()}".strip()
    inputs = "; ".join(field.label for field in fields)
    views = embed([plain, purpose.split(". ", 2)[1] if ". " in purpose else plain, f"{purpose} {inputs}"])
    return _Described(tool.name, purpose, fields, tuple(views))


def choose(request: str, tools: Sequence[_Described], embed: Embed, *, must: bool = False) -> Choice | None:
    """Return the best tool for a request with its arguments, or None if no tool fits."""
    vector = embed([request])[0]
    scored = []
    for tool in tools:
        copier = Copier(request, tool.fields, embed, tool.purpose)
        scored.append((_score(tool, copier, vector), tool.name, copier))
    score, name, copier = max(scored, key=lambda each: each[0])
    if score < _THRESHOLD and not must:
        return None
    return Choice(name, copier.copy())


def _score(tool: _Described, copier: Copier, vector: Sequence[float]) -> float:
    meaning = sum(cosine(vector, view) for view in tool.views) / len(tool.views)
    filled = sum(field.name in copier.values for field in copier.strict)
    lacking = len(copier.strict) - filled
    named = set(schema.words_of(tool.name).split()) <= set(copier.words.text.lower().split())
    return meaning + _NAMED * named + _STRICT * min(2, filled) + _LACKING * lacking + _UNUSED * copier.unused


class EmbeddedModel:
    """The demo: picks one tool, and copies parts of the request into its arguments or the fields of structured output.

    It says so where no tool fits or a value is not found. It does not talk: without tools it says what it is.
    """

    _warned: ClassVar[bool] = False  # once per process is enough

    @checked
    def __init__(self, embedder: MiniLm | None = None) -> None:
        self.embedder: MiniLm = embedder or MiniLm()
        self.facts: Mapping[Fact[Any], object] = {
            NAME: _NAME,
            MODEL_NAME: self.embedder.name,
            OUTPUT_MODES: ("native", "prompted"),
        }

    def __repr__(self) -> str:
        return "EmbeddedModel()"

    async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        """Answer a request.

        Raises:
            ConfigurationError: the request requires a tool that is not among its tools.
            MissingExtra: the extra ``local`` is not installed.
        """
        turn = _Turn.of(request)
        tools = schema.offered(request)
        if tools and turn.prompt and not turn.results:
            choice = await asyncio.to_thread(self._choose, tools, turn, request)
            if choice is not None and not choice.copied.missing:
                return await self._call(choice, turn, ctx)
            if request.output is None:
                refusal = declined(tools) if choice is None else unfound(choice.tool, choice.copied.missing)
                return await self._say(refusal, turn, ctx)
        if request.output is not None:
            return await self._fill(turn, request.output, ctx)
        if turn.results:
            return await self._say(" ".join(answer(result) for result in turn.results), turn, ctx)
        if not self._warned:
            type(self)._warned = True
            logger.warning("the demo model only calls tools; without tools it does not answer")
        return await self._say(declined(tools), turn, ctx)

    def _choose(self, tools: Sequence[ToolSpec], turn: "_Turn", request: ModelRequest) -> Choice | None:
        embed = self.embedder.embed_now
        must = request.settings.tool_choice not in (None, "auto")
        prompt = turn.prompt if len(turn.prompt) <= _HEAD + _TAIL else f"{turn.prompt[:_HEAD]}\n{turn.prompt[-_TAIL:]}"
        return choose(prompt, [describe(tool, embed) for tool in tools], embed, must=must)

    async def _call(self, choice: Choice, turn: "_Turn", ctx: Context) -> ModelResponse:
        arguments = msgspec.json.encode(choice.copied.values).decode()
        call = ToolCall(f"call-{turn.calls_before + 1}", choice.tool, arguments)
        if ctx.listens(Delta):
            await ctx.emit(Delta(ctx.path, ToolCallDelta(0, call.arguments, call.id, call.name)))
        return self._response(call, "tool_calls", turn, arguments)

    async def _fill(self, turn: "_Turn", output: OutputSchema, ctx: Context) -> ModelResponse:
        """Fill structured output with what is recognised in the request and the results of tools, or refuse."""
        text = "\n".join((turn.prompt, *(rendered(result) for result in turn.results)))[:_DOCUMENT]
        fields = schema.fields_of(output.schema)
        copied = (await asyncio.to_thread(Copier, text, fields, self.embedder.embed_now, output.name)).recognised()
        if copied.missing:
            return await self._say(unfound(output.name, copied.missing), turn, ctx, "refusal")
        return await self._say(msgspec.json.encode(copied.values).decode(), turn, ctx)

    async def _say(self, text: str, turn: "_Turn", ctx: Context, finish: FinishReason = "stop") -> ModelResponse:
        if ctx.listens(Delta):
            for word in re.findall(r"\s*\S+|\s+$", text):  # as if it were generated
                await ctx.emit(Delta(ctx.path, TextDelta(word)))
        return self._response(Text(text), finish, turn, text)

    def _response(self, part: Text | ToolCall, finish: FinishReason, turn: "_Turn", written: str) -> ModelResponse:
        read, generated = (len(pieces(text, _COUNTED)) for text in (turn.prompt, written))
        usage = Usage(input=read, output=generated, requests=1)
        return ModelResponse(Message("assistant", (part,)), finish, usage, _NAME)


class _Turn(msgspec.Struct, frozen=True):
    """The latest user message, the tool results since, and the number of calls before."""

    prompt: str
    results: tuple[ToolResult, ...]
    calls_before: int

    @classmethod
    def of(cls, request: ModelRequest) -> "_Turn":
        prompt, calls = "", 0
        results: list[ToolResult] = []
        for message in request.messages:
            if message.role == "user" and message.origin is None:
                prompt, results = message.text, []
            results += message.tool_results
            calls += len(message.tool_calls)
        return cls(prompt, tuple(results), calls)


def rendered(result: ToolResult) -> str:
    """Return a tool's result as text for a sentence; lists and objects become ``name: value`` pairs."""
    value = result.value()
    try:
        return re.sub(r"\s+", " ", _as_text(value)).strip() if not isinstance(value, str) else value.strip()
    except RecursionError:  # nested hundreds of levels deep
        return result.text.strip()


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return ", ".join(f"{schema.words_of(str(key))}: {_as_text(part)}" for key, part in value.items())
    if isinstance(value, Sequence):
        return ", ".join(_as_text(part) for part in value) if value else "nothing"
    return json.dumps(value)


def answer(result: ToolResult) -> str:
    text = rendered(result)
    tool = schema.words_of(result.name)
    if result.error is not None:
        return f"I could not get an answer: {tool} failed with: {text or result.error}"
    if not text:
        return "Done."
    value = result.value()
    end = "" if text.endswith((".", "!", "?")) else "."
    if isinstance(value, Mapping | list):
        return f"Here is what {tool} says: {text}{end}"
    if len(text) > _LONGEST_SENTENCE or "\n" in text:
        return text
    return f"{text}{end}" if text[0].isupper() else f"The answer is {text}{end}"


def declined(tools: Sequence[ToolSpec]) -> str:
    """Return the answer if no tool fits a request, or if there are no tools."""
    names = ", ".join(tool.name for tool in tools[:_LISTED]) + (", ..." if len(tools) > _LISTED else "")
    why = f"none of them ({names}) fits this request" if tools else "here are none"
    return f"I am a demo model that only calls tools, and {why}. For more, {_OTHERS}"


def unfound(what: str, missing: Sequence[str]) -> str:
    """Return the answer if a request lacks values; `what` is the tool or form that needs them."""
    names = ", ".join(repr(name) for name in missing)
    return (
        f"I am a demo model that copies values from the request, and found none for {names} of {what}. "
        f"State them in the request, or {_OTHERS}"
    )

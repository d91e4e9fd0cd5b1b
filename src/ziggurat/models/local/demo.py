"""The demo model: sentence embeddings choose the tool, and parts of the request fill it."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.log import logger
from ziggurat.core.service import NAME, Fact
from ziggurat.core.settings import checked
from ziggurat.messages.delta import ToolCallDelta
from ziggurat.messages.events import Delta
from ziggurat.messages.facts import MODEL_NAME, OUTPUT_MODES
from ziggurat.messages.message import Message
from ziggurat.messages.model import FinishReason, ModelRequest, ModelResponse, OutputSchema, ToolSpec
from ziggurat.messages.parts import Text, ToolCall, ToolResult
from ziggurat.messages.usage import Usage
from ziggurat.models.local.copying import Copied, Copier, Embed
from ziggurat.models.local.minilm import Embedder, cosine, shared_embedder
from ziggurat.models.local.schema import Field, fields_of, words_of
from ziggurat.models.local.speech import offered, show
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


class _Described(msgspec.Struct, frozen=True):
    name: str
    purpose: str
    fields: tuple[Field, ...]
    views: tuple[Sequence[float], ...]


class Choice(msgspec.Struct, frozen=True):
    """A tool with the arguments found for it."""

    tool: str
    copied: Copied


def describe(tool: ToolSpec, embed: Embed) -> _Described:
    """Prepare a tool for comparison; takes a few milliseconds per tool the first time."""
    plain = words_of(tool.name)
    fields = fields_of(tool.parameters)
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
    named = set(words_of(tool.name).split()) <= set(copier.words.text.lower().split())
    return meaning + _NAMED * named + _STRICT * min(2, filled) + _LACKING * lacking + _UNUSED * copier.unused


class EmbeddedModel:
    """A model service that needs no API key and no network.

    It is a demo, for first runs, tests and simple commands: a sentence-embedding model picks one tool, and parts of the
    request become its arguments or the fields of structured output, so that none is invented. It says so where no tool
    fits or a value is not found. It does not talk: without tools it says what it is.

    Args:
        embedder: The sentence-embedding model; by default one shared within the process.
    """

    _warned: ClassVar[bool] = False  # once per process is enough

    @checked
    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder: Embedder = embedder or shared_embedder()
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
        tools = offered(request)
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
        fields = fields_of(output.schema)
        copied = (await asyncio.to_thread(Copier, text, fields, self.embedder.embed_now, output.name)).recognised()
        if copied.missing:
            return await self._say(unfound(output.name, copied.missing), turn, ctx, "refusal")
        return await self._say(msgspec.json.encode(copied.values).decode(), turn, ctx)

    async def _say(self, text: str, turn: "_Turn", ctx: Context, finish: FinishReason = "stop") -> ModelResponse:
        await show(text, ctx)
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
        return ", ".join(f"{words_of(str(key))}: {_as_text(part)}" for key, part in value.items())
    if isinstance(value, Sequence):
        return ", ".join(_as_text(part) for part in value) if value else "nothing"
    return json.dumps(value)


def answer(result: ToolResult) -> str:
    text = rendered(result)
    tool = words_of(result.name)
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

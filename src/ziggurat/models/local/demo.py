"""The demo model: sentence embeddings choose the tool, and parts of the request fill it; nothing is invented."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.event import warn_once
from ziggurat.core.service import NAME, Fact
from ziggurat.core.settings import checked
from ziggurat.messages.message import ToolCall, ToolResult
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
from ziggurat.models.local.minilm import MiniLm, Vector, cosine, pieces
from ziggurat.models.local.spans import Copied, Copier, Embed
from ziggurat.models.reply import Collector

_NAME = "demo"
_HEAD, _TAIL = 200, 600
"""How many characters of the beginning and the end of a long request are read, to bound the time."""
_COUNTED = 8192  # up to how many tokens the usage counts
_DOCUMENT = 4000  # how many characters are read for structured output

_LONGEST_SENTENCE = 160
_LISTED = 5
_OTHERS = "choose another model, such as ollama:NAME or openai:NAME."
_THRESHOLD = 0.25  # the lowest score of a tool that is called
_STRICT, _LACKING, _UNUSED, _NAMED = 0.1, -0.25, -0.05, 0.1
"""Added per required number or address that is found or missing, per number left over, and for the name of the tool."""


class Choice(msgspec.Struct, frozen=True):
    tool: str
    copied: Copied


def choose(request: str, tools: Sequence[ToolSpec], embed: Embed, *, must: bool = False) -> Choice | None:
    vector = embed([request])[0]
    scored = []
    for tool in tools:
        purpose = f"{schema.words_of(tool.name)}. {tool.description.strip()}".strip()
        copier = Copier(request, schema.fields_of(tool.parameters), embed, purpose)
        scored.append((_score(tool, purpose, copier, vector, embed), tool.name, copier))
    score, name, copier = max(scored, key=lambda each: each[0])
    return Choice(name, copier.copy()) if score >= _THRESHOLD or must else None


def _score(tool: ToolSpec, purpose: str, copier: Copier, vector: Vector, embed: Embed) -> float:
    plain = schema.words_of(tool.name)
    inputs = "; ".join(field.label for field in copier.fields)
    views = embed([plain, purpose.split(". ", 2)[1] if ". " in purpose else plain, f"{purpose} {inputs}"])
    meaning = sum(cosine(vector, view) for view in views) / len(views)
    filled = sum(field.name in copier.values for field in copier.strict)
    lacking = len(copier.strict) - filled
    named = set(plain.split()) <= set(copier.words.text.lower().split())
    return meaning + _NAMED * named + _STRICT * min(2, filled) + _LACKING * lacking + _UNUSED * copier.unused


class EmbeddedModel:
    """The demo: picks one tool, and copies parts of the request into its arguments or the fields of structured output.

    It says so where no tool fits or a value is not found. It does not talk: without tools it says what it is.
    """

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
        turn = _Turn.of(request)
        tools = schema.offered(request)
        if tools and turn.prompt and not turn.results:
            choice = await asyncio.to_thread(self._choose, tools, turn, request)
            if choice is not None and not choice.copied.missing:
                arguments = msgspec.json.encode(choice.copied.values).decode()
                return await self._reply(ToolCall(f"call-{turn.calls_before + 1}", choice.tool, arguments), turn, ctx)
            if request.output is None:
                refusal = declined(tools) if choice is None else unfound(choice.tool, choice.copied.missing)
                return await self._reply(refusal, turn, ctx)
        if request.output is not None:
            return await self._fill(turn, request.output, ctx)
        if turn.results:
            return await self._reply(" ".join(answer(result) for result in turn.results), turn, ctx)
        warn_once("the demo model only calls tools; without tools it does not answer")
        return await self._reply(declined(tools), turn, ctx)

    def _choose(self, tools: Sequence[ToolSpec], turn: "_Turn", request: ModelRequest) -> Choice | None:
        embed = self.embedder.embed_now
        must = request.settings.tool_choice not in (None, "auto")
        prompt = turn.prompt if len(turn.prompt) <= _HEAD + _TAIL else f"{turn.prompt[:_HEAD]}\n{turn.prompt[-_TAIL:]}"
        return choose(prompt, tools, embed, must=must)

    async def _fill(self, turn: "_Turn", output: OutputSchema, ctx: Context) -> ModelResponse:
        """Fill structured output with what is recognised in the request and the results of tools, or refuse."""
        text = "\n".join((turn.prompt, *(result.text for result in turn.results)))[:_DOCUMENT]
        fields = schema.fields_of(output.schema)
        copied = (await asyncio.to_thread(Copier, text, fields, self.embedder.embed_now, output.name)).recognised()
        if copied.missing:
            return await self._reply(unfound(output.name, copied.missing), turn, ctx, "refusal")
        return await self._reply(msgspec.json.encode(copied.values).decode(), turn, ctx)

    async def _reply(
        self, part: str | ToolCall, turn: "_Turn", ctx: Context, finish: FinishReason | None = None
    ) -> ModelResponse:
        written = part if isinstance(part, str) else part.arguments
        read, generated = (len(pieces(text, _COUNTED)) for text in (turn.prompt, written))
        reply = Collector(ctx, _NAME, Usage(input=read, output=generated, requests=1))
        reply.finish = finish
        for piece in re.findall(r"\s*\S+|\s+$", part) if isinstance(part, str) else (part,):  # as if it were generated
            await reply.push(piece)
        return reply.response()


class _Turn(msgspec.Struct, frozen=True):
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


def answer(result: ToolResult) -> str:
    text = result.text.strip()
    tool = schema.words_of(result.name)
    if result.error is not None:
        return f"I could not get an answer: {tool} failed with: {text or result.error}"
    if not text:
        return "Done."
    if text[0] in "{[":
        return f"Here is what {tool} says: {text}"
    end = "" if text.endswith((".", "!", "?")) else "."
    if len(text) > _LONGEST_SENTENCE or "\n" in text:
        return text
    return f"{text}{end}" if text[0].isupper() else f"The answer is {text}{end}"


def declined(tools: Sequence[ToolSpec]) -> str:
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

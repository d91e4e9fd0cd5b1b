"""The embedded demo model: sentence embeddings choose the tool, and parts of the request fill it."""

__all__ = ["EmbeddedModel"]

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments
from ziggurat.core.facts import NAME, Fact
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.messages.delta import ToolCallDelta
from ziggurat.messages.events import Delta
from ziggurat.messages.facts import MODEL_NAME, OUTPUT_MODES, WINDOW
from ziggurat.messages.message import Message
from ziggurat.messages.model import FinishReason, ModelRequest, ModelResponse, OutputSchema, ToolSpec
from ziggurat.messages.parts import Text, ToolCall, ToolResult
from ziggurat.messages.usage import Usage
from ziggurat.models.local.answers import answer, declined, rendered, unfound
from ziggurat.models.local.choose import Choice, choose, describe
from ziggurat.models.local.copying import Copied, Copier
from ziggurat.models.local.engine import CONTEXT, SLOTS, Engine, engine_for
from ziggurat.models.local.follow import followed
from ziggurat.models.local.install import check_installed, model_path
from ziggurat.models.local.minilm import Embedder, shared_embedder
from ziggurat.models.local.schema import fields_of
from ziggurat.models.local.speech import body_of, chat_messages, offered, show, speak
from ziggurat.models.local.wordpiece import pieces

_NAME = "SmolLM2-135M-Instruct"
_MANNER = "You are a helpful assistant. You answer briefly and correctly, in English."
_NOTICE = "(I am a very small demo model: I can call tools, but what I say is often wrong.)"

_HEAD, _TAIL = 200, 600
"""How many characters of the beginning and the end of a long request are read, to bound the time."""
_DOCUMENT = 4000
"""How many characters are read for structured output."""
_ALIKE = 0.08
"""How similar to its field a text must be at least to be a value of structured output."""

logger: logging.Logger = logging.getLogger("ziggurat")


class EmbeddedModel:
    """A model service that needs no API key, and no network once it is installed.

    It is a demo, for first runs, tests and simple commands: a sentence-embedding model picks one tool, and parts of the
    request become its arguments or the fields of structured output, so that none is invented. It says so where no tool
    fits or a value is not found. Without tools a very small language model talks, and knows next to nothing.

    Args:
        engine: The loaded weights; by default those that `install` put into the cache, shared within the process.
        embedder: The sentence-embedding model; by default one shared within the process.
        slots: Requests served at the same time, if no engine is given.
        context: The context size in tokens, shared by the slots, if no engine is given.
    """

    _warned: ClassVar[bool] = False  # once per process is enough

    @checked
    def __init__(
        self,
        engine: Engine | None = None,
        embedder: Embedder | None = None,
        *,
        slots: PositiveInt = SLOTS,
        context: PositiveInt = CONTEXT,
    ) -> None:
        self._engine = engine
        self._size = {"slots": slots, "context": context}
        self.embedder: Embedder = embedder or shared_embedder()
        self.facts: Mapping[Fact[Any], object] = {
            NAME: "local",
            MODEL_NAME: _NAME,
            WINDOW: context if engine is None else engine.context,
            OUTPUT_MODES: ("native", "prompted"),
        }

    def __repr__(self) -> str:
        return "local()"

    async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        """Answer a request.

        Raises:
            ConfigurationError: the weights are not installed, or their file is damaged.
            MissingExtra: the extra ``local`` is not installed.
            ModelError: the request cannot be served.
        """
        turn = _Turn.of(request)
        tools = offered(request)
        if tools and turn.asked and not turn.results:
            choice = await asyncio.to_thread(self._choose, tools, turn, request)
            if choice is not None and not choice.copied.missing:
                return await self._call(choice, turn, ctx)
            if request.output is None:
                said = declined(tools) if choice is None else unfound(choice.tool, choice.copied.missing)
                return await self._say(said, turn, ctx)
        if request.output is not None:
            return await self._fill(turn, request.output, ctx)
        if turn.results:
            return await self._say(" ".join(answer(result) for result in turn.results), turn, ctx)
        return await self._talk(request, ctx)

    @property
    def engine(self) -> Engine:
        """The engine, created on first access; its weights load with the first use."""
        if self._engine is None:
            check_installed()
            self._engine = engine_for(model_path(), **self._size)
        return self._engine

    def _choose(self, tools: Sequence[ToolSpec], turn: "_Turn", request: ModelRequest) -> Choice | None:
        embed = self.embedder.embed_now
        last = next((tool for tool in tools if turn.last is not None and tool.name == turn.last.name), None)
        if last is not None and turn.last is not None:
            arguments = followed(turn.asked, describe(last, embed), _arguments(turn.last), turn.last_result, embed)
            if arguments is not None:
                return Choice(last.name, Copied(arguments, ()))
        must = request.settings.tool_choice not in (None, "auto")
        asked = turn.asked if len(turn.asked) <= _HEAD + _TAIL else f"{turn.asked[:_HEAD]}\n{turn.asked[-_TAIL:]}"
        return choose(asked, [describe(tool, embed) for tool in tools], embed, must=must)

    async def _call(self, choice: Choice, turn: "_Turn", ctx: Context) -> ModelResponse:
        arguments = msgspec.json.encode(choice.copied.values).decode()
        call = ToolCall(f"call-{turn.calls_before + 1}", choice.tool, arguments)
        if ctx.listens(Delta):
            await ctx.emit(Delta(ctx.path, ToolCallDelta(0, call.arguments, call.id, call.name)))
        return ModelResponse(Message("assistant", (call,)), "tool_calls", _usage(turn.asked, arguments), _NAME)

    async def _fill(self, turn: "_Turn", output: OutputSchema, ctx: Context) -> ModelResponse:
        """Fill structured output from the request and the results of tools; refuse if a value is not found."""
        text = "\n".join((turn.asked, *(rendered(result) for result in turn.results)))[:_DOCUMENT]
        fields = fields_of(output.schema)
        copier = await asyncio.to_thread(Copier, text, fields, self.embedder.embed_now, output.name, floor=_ALIKE)
        copied = await asyncio.to_thread(copier.copy)
        if copied.missing:
            return await self._say(unfound(output.name, copied.missing), turn, ctx, "refusal")
        return await self._say(msgspec.json.encode(copied.values).decode(), turn, ctx)

    async def _say(self, text: str, turn: "_Turn", ctx: Context, finish: FinishReason = "stop") -> ModelResponse:
        await show(text, ctx)
        return ModelResponse(Message("assistant", (Text(text),)), finish, _usage(turn.asked, text), _NAME)

    async def _talk(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        notice = ""
        if not any(message.role == "assistant" for message in request.messages):
            notice = f"{_NOTICE} "
            await show(notice, ctx)
            if not self._warned:
                type(self)._warned = True
                logger.warning(
                    "the embedded model is a demo that calls tools; without tools, what it says is often wrong"
                )
        manner = f"{_MANNER} {request.instructions}" if request.instructions else _MANNER
        told = chat_messages(msgspec.structs.replace(request, instructions=manner))
        fields: dict[str, Any] = {"messages": told, "repeat_penalty": 1.05}
        spoken = await speak(self.engine, "chat", body_of(request.settings, **fields), ctx)
        return ModelResponse(Message("assistant", (Text(notice + spoken.text),)), spoken.finish, spoken.usage, _NAME)


class _Turn(msgspec.Struct, frozen=True):
    """The latest user message, the tool results since, and the last call before it with its result."""

    asked: str
    results: tuple[ToolResult, ...]
    calls_before: int
    last: ToolCall | None
    last_result: str

    @classmethod
    def of(cls, request: ModelRequest) -> "_Turn":
        asked = ""
        results: list[ToolResult] = []
        calls: list[ToolCall] = []
        last: ToolCall | None = None
        last_result = ""
        for message in request.messages:
            if message.role == "user" and message.origin is None:
                last, last_result = (calls[-1] if calls else None), (rendered(results[-1]) if results else last_result)
                asked, results = message.text, []
            results += message.tool_results
            calls += message.tool_calls
        return cls(asked=asked, results=tuple(results), calls_before=len(calls), last=last, last_result=last_result)


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        return call.parsed()
    except InvalidArguments:
        return {}


def _usage(asked: str, said: str) -> Usage:
    return Usage(input=len(pieces(asked, CONTEXT)), output=len(pieces(said, CONTEXT)), requests=1)

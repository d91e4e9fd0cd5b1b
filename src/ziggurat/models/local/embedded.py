"""The embedded model: sentence embeddings choose the tool, the request's words fill it, a small model writes text."""

__all__ = ["EmbeddedModel"]

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments
from ziggurat.core.facts import NAME, Fact
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.messages.delta import ToolCallDelta
from ziggurat.messages.events import Delta
from ziggurat.messages.facts import MODEL_NAME, OUTPUT_MODES, WINDOW
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelResponse, ToolSpec
from ziggurat.messages.parts import Text, ToolCall, ToolResult
from ziggurat.messages.usage import Usage
from ziggurat.models.local.answers import answer_grammar, answer_prompt, plain_answer, rendered
from ziggurat.models.local.choose import Described, ToolChoice, describe, meant
from ziggurat.models.local.complete import arguments_prompt, arguments_schema
from ziggurat.models.local.engine import CONTEXT, SLOTS, Engine, engine_for
from ziggurat.models.local.follow import followed
from ziggurat.models.local.install import check_installed, model_path
from ziggurat.models.local.minilm import Embedder, shared_embedder
from ziggurat.models.local.plan import RequestedAction, plan
from ziggurat.models.local.speech import Spoken, body_of, chat_messages, grammar_of, offered, show, speak
from ziggurat.models.local.wordpiece import pieces

_NAME = "SmolLM2-135M-Instruct"
_MANNER = "You are a helpful assistant. You answer briefly and correctly, in English."
_SHORT = 96
"""The maximum of tokens in the sentence around a tool's result."""


class EmbeddedModel:
    """A model service that needs no API key, and no network once it is installed.

    A sentence-embedding model picks the tool and the request's own words become its arguments, so it answers quickly
    and never invents an argument. It suits first runs, tests, demonstrations and simple commands. It knows little about
    the world, cannot reason and loses track of long conversations.

    Args:
        engine: The loaded weights; by default those that `install` put into the cache, shared within the process.
        embedder: The sentence-embedding model; by default one shared within the process.
        slots: Requests served at the same time, if no engine is given.
        context: The context size in tokens, shared by the slots, if no engine is given.
    """

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
        asked = [turn.asked]
        tools = offered(request)
        if tools and turn.asked:
            today = datetime.fromtimestamp(ctx.clock.now()).date()
            wishes = await asyncio.to_thread(self._plan, tools, turn, today)
            calls = _due(wishes, len(turn.results), request)
            if calls:
                return await self._call(calls, request, turn, ctx)
            asked = [wish.text for wish in wishes]
        if turn.results and request.output is None:
            return await self._answer(turn, asked, request, ctx)
        return await self._talk(request, ctx)

    @property
    def engine(self) -> Engine:
        """The engine, created on first access; its weights load with the first use."""
        if self._engine is None:
            check_installed()
            self._engine = engine_for(model_path(), **self._size)
        return self._engine

    def _describe(self, tools: Sequence[ToolSpec]) -> list[Described]:
        embed = self.embedder.embed_now
        return [describe(tool.name, tool.description, tool.parameters, embed) for tool in tools]

    def _plan(self, tools: Sequence[ToolSpec], turn: "_Turn", today: date) -> list[RequestedAction]:
        again = self._again(tools, turn, today)
        leaning = [] if again is None else [RequestedAction(text=turn.asked, choices=(again,))]
        if again is not None and again.score >= 1.0:
            return leaning
        said = [rendered(result) for result in turn.results]
        wishes = plan(turn.asked, self._describe(tools), self.embedder.embed_now, said, today=today)
        return leaning if leaning and not meant(wishes[0].choices[0]) else wishes

    def _again(self, tools: Sequence[ToolSpec], turn: "_Turn", today: date) -> ToolChoice | None:
        """Return the previous turn's tool with changed arguments, for "and in Rome?" after a call of it."""
        last = next((tool for tool in tools if turn.last and tool.name == turn.last.name), None)
        if last is None or turn.last is None:
            return None
        try:
            before = turn.last.parsed()
        except InvalidArguments:
            before = {}
        described = self._describe([last])[0]
        return followed(turn.asked, described, before, turn.last_result, self.embedder.embed_now, today)

    async def _call(
        self, wishes: Sequence[RequestedAction], request: ModelRequest, turn: "_Turn", ctx: Context
    ) -> ModelResponse:
        usage = Usage(input=len(pieces(turn.asked, CONTEXT)), output=0, requests=1)
        calls: list[ToolCall] = []
        for wish in wishes:
            choice = wish.choices[0]
            arguments = msgspec.json.encode(choice.filled.arguments).decode()
            if choice.filled.missing:
                spoken = await self._complete(wish, request, ctx)
                arguments = spoken.text.strip()
                usage += msgspec.structs.replace(spoken.usage, requests=0)
            call = ToolCall(f"call-{turn.calls_before + len(calls) + 1}", choice.tool, arguments)
            if ctx.listens(Delta):
                delta = ToolCallDelta(len(calls), call.arguments, call.id, call.name)
                await ctx.emit(Delta(ctx.path, delta))
            calls.append(call)
        return ModelResponse(Message("assistant", tuple(calls)), "tool_calls", usage, _NAME)

    async def _complete(self, wish: RequestedAction, request: ModelRequest, ctx: Context) -> Spoken:
        choice = wish.choices[0]
        spec = next(tool for tool in request.tools if tool.name == choice.tool)
        tool = self._describe([spec])[0]
        body = body_of(
            request.settings,
            prompt=arguments_prompt(wish.text, tool),
            grammar=grammar_of(arguments_schema(wish.text, tool, choice, spec.parameters)),
        )
        return await speak(self.engine, "completion", body, ctx, lambda piece: "")

    async def _answer(self, turn: "_Turn", asked: Sequence[str], request: ModelRequest, ctx: Context) -> ModelResponse:
        texts: list[str] = []
        usage = Usage(input=0, output=0, requests=1)
        for at, result in enumerate(turn.results):
            if texts:
                await show(" ", ctx)
            question = asked[min(at, len(asked) - 1)]
            text = plain_answer(question, result)
            if text is not None:
                await show(text, ctx)
            else:
                spoken = await self._sentence(question, result, request, ctx)
                text = spoken.text.lstrip()
                usage += msgspec.structs.replace(spoken.usage, requests=0)
            texts.append(text)
        return ModelResponse(Message("assistant", (Text(" ".join(texts)),)), "stop", usage, _NAME)

    async def _sentence(self, asked: str, result: ToolResult, request: ModelRequest, ctx: Context) -> Spoken:
        plain = msgspec.structs.replace(request.settings, stop=(), max_tokens=None)
        body = body_of(
            plain,
            prompt=answer_prompt(asked, result),
            grammar=answer_grammar(asked, result),
            max_tokens=_SHORT + 2 * len(rendered(result)),
        )
        return await speak(self.engine, "completion", body, ctx, _without_lead())

    async def _talk(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        manner = f"{_MANNER} {request.instructions}" if request.instructions else _MANNER
        told = chat_messages(msgspec.structs.replace(request, instructions=manner), tools=request.output is not None)
        fields: dict[str, Any] = {"messages": told, "repeat_penalty": 1.05}
        if request.output is not None:
            fields["grammar"] = grammar_of(request.output.schema)
        spoken = await speak(self.engine, "chat", body_of(request.settings, **fields), ctx)
        parts = (Text(spoken.text),) if spoken.text else ()
        return ModelResponse(Message("assistant", parts), spoken.finish, spoken.usage, _NAME)


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


def _due(wishes: Sequence[RequestedAction], done: int, request: ModelRequest) -> list[RequestedAction]:
    """Return the wishes to call now: the next ones, up to one that needs a result not yet available."""
    forced = request.settings.tool_choice not in (None, "auto") and not done
    due: list[RequestedAction] = []
    for at, wish in enumerate(wishes[done:]):
        if at and (wish.waits or request.settings.parallel_tools is False):
            break
        if forced or meant(wish.choices[0]):
            due.append(wish)
    return due


def _without_lead() -> Any:
    """Return a function that shows a reply without its leading blanks."""
    begun = False

    def heard(piece: str) -> str:
        nonlocal begun
        shown = piece if begun else piece.lstrip()
        begun = begun or bool(shown)
        return shown

    return heard

"""Any GGUF file as a model: with its own chat template, and replies under a grammar made from the tools' schemas."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments
from ziggurat.core.service import NAME, Fact
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.messages.formatting import shortened
from ziggurat.messages.message import Message, ThinkingDelta, ToolCall, ToolResult
from ziggurat.messages.model import (
    MODEL_NAME,
    OUTPUT_MODES,
    WINDOW,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolSpec,
)
from ziggurat.messages.usage import Usage
from ziggurat.models.local import catalogue, replies
from ziggurat.models.local.engine import CONTEXT, SLOTS, ChatTemplate, Engine, Thinking, engine_for
from ziggurat.models.local.schema import offered
from ziggurat.models.reply import Collector

_TRY_AGAIN = frozenset({"transient", "timeout", "interrupted"})


_LONGEST_REPLY = 512
"""The maximum of tokens in a reply if the caller sets none; small models seldom stop by themselves."""


class TemplatedModel:
    """A model service over any GGUF file that has a chat template; made by `local`.

    If there are tools, a grammar restricts the reply to calls of existing tools with arguments that fit their schemas,
    or to an answer. A call that was answered since the last user message is not repeated: the model is asked for an
    answer instead. If one of these calls failed, and no structured output is needed, the answer is what each call
    returned, word for word: small models say that work was done although it failed.
    """

    def __init__(
        self, engine: Engine, *, name: str | None = None, stated_only: bool = True, only_calls: bool = False
    ) -> None:
        self.engine = engine
        self.stated_only = stated_only
        self.only_calls = only_calls
        self.name: str = f"local:{name or engine.path.stem}"
        self._shown = name or str(engine.path)
        self.facts: Mapping[Fact[Any], object] = {
            NAME: self.name,
            MODEL_NAME: engine.path.stem,
            WINDOW: engine.context,
            OUTPUT_MODES: ("native", "tool", "prompted"),
        }

    def __repr__(self) -> str:
        return f"local({self._shown!r})"

    async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        """Answer a request.

        Raises:
            ConfigurationError: the request requires a tool that is not among its tools.
            MissingExtra: the extra ``local`` is not installed.
            ModelError: the request cannot be served.
        """
        reply = Collector(ctx, self.name, Usage(input=0, output=0, requests=1))
        prompt = _Prompt(request, offered(request), await self.engine.template(), self.stated_only, self.only_calls)
        repeated: list[str] = []
        if prompt.tools:
            calls = prompt.reader()
            await self._generate(reply, prompt.for_calls(), calls)
            if calls.count or not calls.complete or reply.finish or reply.fold.message().text:
                if not calls.complete:
                    reply.finish = reply.finish or "malformed"
                return reply.response()
            repeated = calls.repeated
        if answer := prompt.answer_of_calls():
            await reply.push(answer)
        else:
            await self._generate(reply, prompt.for_answer(repeated), prompt.reader(calls=False))
        return reply.response()

    async def _generate(self, reply: Collector, body: Mapping[str, Any], reader: replies.ReplyReader) -> None:
        async with aclosing(self.engine.stream(body)) as chunks:
            async for chunk in chunks:
                thought, text, reason = text_of(chunk)
                if thought:
                    await reply.push(ThinkingDelta(thought))
                for delta in reader.push(text):
                    await reply.push(delta)
                if reason == "length":
                    reply.finish = "length"
                if chunk.get("usage"):
                    reply.usage += _usage_of(chunk["usage"])
        for delta in reader.end():
            await reply.push(delta)


class _Prompt:
    """The requests to llama.cpp for one request; the second begins as the first, so its prefix is not read again."""

    def __init__(
        self,
        request: ModelRequest,
        tools: Sequence[ToolSpec],
        template: ChatTemplate,
        stated_only: bool,
        only_calls: bool,
    ) -> None:
        self.tools = tools
        self._stated_only = stated_only
        self._only_calls = only_calls and bool(request.tools)
        self._request = request
        self._settings = request.settings
        self._required = request.settings.tool_choice not in (None, "auto", "none")
        self._template = template
        self._thinking: Thinking = "never" if request.settings.reasoning == "none" else template.thinking
        self._variables: dict[str, Any] = {"tools": replies.tool_functions(tools)} if tools and template.tools else {}
        if request.settings.reasoning == "none":
            self._variables["enable_thinking"] = False

    def reader(self, *, calls: bool = True) -> replies.ReplyReader:
        first = sum(len(message.tool_calls) for message in self._request.messages) + 1
        answered = () if self._required else _answered(self._request)
        choice = replies.choice_of(replies.reply_tool(self.tools).name)
        revise = self._revision() if calls and self._stated_only else None
        thinking = self._thinking == "begun"
        return replies.ReplyReader(first, answered, calls=calls, choice=choice, revise=revise, thinking=thinking)

    def _revision(self) -> Callable[[ToolCall], ToolCall]:
        """Return a function that leaves optional arguments that the conversation does not state out of a call."""
        tools = {tool.name: tool for tool in self.tools}
        statements = replies.Statements("\n".join(_statements(self._request)))

        def revise(call: ToolCall) -> ToolCall:
            try:
                arguments = call.parsed()
            except InvalidArguments:  # a grammar of the caller's allowed it
                return call
            stated = statements.only(arguments, tools[call.name]) if call.name in tools else arguments
            if stated.keys() == arguments.keys():
                return call
            return msgspec.structs.replace(call, arguments=json.dumps(stated, ensure_ascii=False))

        return revise

    def for_calls(self) -> dict[str, Any]:
        grammar = replies.calls_grammar(
            self.tools,
            None if self._required else replies.reply_tool(self.tools).name,
            parallel=self._settings.parallel_tool_calls is not False,
            thinking=self._thinking,
        )
        return self._body(replies.chat_messages(self._request, self.tools, self._template), grammar)

    def for_answer(self, repeated: Sequence[str] = ()) -> dict[str, Any]:
        """Return the request for an answer; after the choice to give one, if there are tools."""
        output = None if self._request.output is None else self._request.output.schema
        messages = replies.chat_messages(self._request, self.tools, self._template)
        if self.tools:
            results = any(message.tool_results for message in _since_user(self._request))
            choice = f'{replies.choice_of(replies.reply_tool(self.tools).name)}, "arguments": {{}}}}]'
            prompt = replies.answer_prompt(repeated, results, output)
            messages += [{"role": "assistant", "content": choice}, {"role": "user", "content": prompt}]
        elif output is None:
            return self._body(messages, None)
        return self._body(messages, replies.answer_grammar(output, thinking=self._thinking))

    def answer_of_calls(self) -> str:
        """Return the outcomes of the calls of this turn, a line each; empty if the model is to answer."""
        outcomes = _outcomes(self._request).values()
        failed = any(outcome.error for outcome in outcomes)
        if self._request.output is not None or not (failed or self._only_calls):
            return ""
        if not outcomes:
            names = ", ".join(tool.name for tool in self._request.tools)
            return f"I only call tools, and have called none for this request. There are: {shortened(names, 300)}."
        return "\n".join(f"{outcome.name}: {outcome.text or outcome.error or 'ok'}" for outcome in outcomes)

    def _body(self, messages: list[dict[str, Any]], grammar: str | None) -> dict[str, Any]:
        fields: dict[str, Any] = {"messages": messages, "chat_template_kwargs": self._variables}
        if grammar is not None:
            fields["grammar"] = grammar
        return _body_of(self._settings, **fields)


def _statements(request: ModelRequest) -> Iterator[str]:
    """Yield the texts of a conversation that the model did not write."""
    yield request.instructions or ""
    for message in request.messages:
        if message.role != "assistant":
            yield message.text
            yield from (result.text for result in message.tool_results)


def _since_user(request: ModelRequest) -> list[Message]:
    turn: list[Message] = []
    for message in request.messages:
        if message.role == "user" and message.origin is None:
            turn = []
        else:
            turn.append(message)
    return turn


def _answered(request: ModelRequest) -> frozenset[str]:
    """Return the fingerprints of the calls since the last user message that need not be made again."""
    outcomes = _outcomes(request).items()
    return frozenset(fingerprint for fingerprint, outcome in outcomes if outcome.error not in _TRY_AGAIN)


def _outcomes(request: ModelRequest) -> dict[str, ToolResult]:
    """Return the last result of each different call since the last user message, by the call's fingerprint."""
    calls: dict[str, ToolCall] = {}
    outcomes: dict[str, ToolResult] = {}
    for message in _since_user(request):
        calls |= {call.id: call for call in message.tool_calls}
        for result in message.tool_results:
            if result.id in calls:
                outcomes[calls[result.id].fingerprint()] = result
    return outcomes


def _body_of(settings: ModelSettings, **fields: Any) -> dict[str, Any]:
    """Return the request to llama.cpp for some settings; by default with temperature 0 and at most 512 tokens."""
    body: dict[str, Any] = {
        "temperature": 0.0 if settings.temperature is None else settings.temperature,
        "max_tokens": settings.max_tokens or _LONGEST_REPLY,
        "cache_prompt": True,
    }
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.stop:
        body["stop"] = list(settings.stop)
    if settings.seed is not None:
        body["seed"] = settings.seed
    return {**body, **fields, **settings.extra}


def text_of(chunk: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """Return the thought and the text in a chunk, and the finish reason if it is the last one."""
    for choice in chunk.get("choices", ()):
        delta = choice.get("delta", {})
        return delta.get("reasoning_content") or "", delta.get("content") or "", choice.get("finish_reason")
    return "", "", None


def _usage_of(counted: Mapping[str, Any]) -> Usage:
    return Usage(
        input=counted.get("prompt_tokens"),
        output=counted.get("completion_tokens"),
        cache_read=(counted.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )


@checked
def local(
    path: NonEmptyText | Path,
    *,
    slots: PositiveInt = SLOTS,
    context: PositiveInt = CONTEXT,
    stated_only: bool = True,
    only_calls: bool | None = None,
) -> TemplatedModel:
    """Return the model in a GGUF file; the weights load with the first request.

    Args:
        path: A GGUF file, or the name of an installed model of the catalogue.
        slots: Requests that are served at the same time.
        context: The context size in tokens, shared by the slots.
        stated_only: Whether optional arguments that the conversation does not state are left out of the calls: small
            models invent them. Pass False for a model that infers them well.
        only_calls: Whether answers to requests that have tools are never in the model's own words, but what the calls
            returned: small models state what no call has done. By default only those of ``coder``.

    Raises:
        ConfigurationError: there is no such file, it is not a GGUF file, the model is not installed, or a number is
            below one.

    ::

        Agent(local("coder"), tools=[weather])
        Agent(local("models/qwen.gguf", context=16_384), tools=[weather])
    """
    model, name = None, None
    if path in catalogue.CATALOGUE:
        catalogue.check_installed(str(path))
        model, name = catalogue.pinned(str(path)), str(path)
    engine = engine_for(Path(path) if model is None else model.path, slots=slots, context=context)
    if only_calls is None:
        only_calls = model is not None and model.only_calls
    return TemplatedModel(engine, name=name, stated_only=stated_only, only_calls=only_calls)

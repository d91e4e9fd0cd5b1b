"""Any GGUF file as a model: with its own chat template, and replies under a grammar made from the tools' schemas."""

from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.service import NAME, Fact
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.messages.message import ThinkingDelta
from ziggurat.messages.model import MODEL_NAME, OUTPUT_MODES, WINDOW, ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models.local import catalogue, replies
from ziggurat.models.local.engine import CONTEXT, SLOTS, Engine, engine_for
from ziggurat.models.local.schema import offered
from ziggurat.models.reply import Collector


class TemplatedModel:
    """A model service over any GGUF file that has a chat template; made by `local`."""

    # If there are tools, a grammar restricts the reply to calls of existing tools with arguments that fit their
    # schemas, or to an answer. A call that was answered since the last user message is not repeated: the model is asked
    # for an answer instead. If one of these calls failed, and no structured output is needed, the answer is what each
    # call returned, word for word: small models say that work was done although it failed.

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
        reply = Collector(ctx, self.name, Usage(input=0, output=0, requests=1))
        prompt = replies.Prompt(
            request, offered(request), await self.engine.template(), self.stated_only, self.only_calls
        )
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

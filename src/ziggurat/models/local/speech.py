"""One generation: the request to llama.cpp, the deltas for listeners, and the reply."""

__all__ = ["Spoken", "body_of", "chat_messages", "grammar_of", "offered", "show", "speak"]

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.delta import TextDelta
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message
from ziggurat.messages.model import FinishReason, ModelRequest, ModelSettings, ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import Usage
from ziggurat.models.local.engine import Endpoint, Engine

_LONGEST_REPLY = 512
"""The maximum of tokens in a reply if the caller sets none; small models seldom stop by themselves."""


class Spoken(msgspec.Struct, frozen=True):
    """The result of a generation."""

    text: str
    finish: FinishReason
    usage: Usage


def body_of(settings: ModelSettings, **fields: Any) -> dict[str, Any]:
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


def grammar_of(schema: Mapping[str, Any]) -> str:
    """Return the grammar that restricts a reply to a JSON Schema.

    It allows no whitespace between the parts, because small models that may write whitespace tend to write nothing
    else. Parts of JSON Schema that the grammar engine does not support are ignored.
    """
    guided = {**schema, "x-guidance": {"whitespace_flexible": False, "lenient": True}}
    return f"%llguidance {{}}\nstart: %json {json.dumps(guided)}\n"


def chat_messages(request: ModelRequest, *, tools: bool = True) -> list[dict[str, str]]:
    """Return the conversation in the form of chat templates, which know only text and three roles.

    Args:
        request: Its conversation and instructions.
        tools: Whether to include calls and their results; a very small model that sees them talks of nothing else.
    """
    told: list[dict[str, str]] = []
    if request.instructions:
        told.append({"role": "system", "content": request.instructions})
    for message in request.messages:
        role = "user" if message.role == "tool" else message.role
        text = "\n".join(_lines(message)) if tools else message.text
        if not text:
            continue
        if told and told[-1]["role"] == role:
            told[-1] = {"role": role, "content": f"{told[-1]['content']}\n{text}"}
        else:
            told.append({"role": role, "content": text})
    return told


def _lines(message: Message) -> Iterator[str]:
    if message.text:
        yield message.text
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield f'{{"tool": "{part.name}", "arguments": {part.arguments}}}'
        elif isinstance(part, ToolResult):
            yield f"Result of {part.name}: {part.text}"


def offered(request: ModelRequest) -> tuple[ToolSpec, ...]:
    """Return the tools that may be called, as restricted by the settings.

    Raises:
        ConfigurationError: the settings require a tool that does not exist.
    """
    wanted = request.settings.tool_choice
    if wanted == "none":
        return ()
    if wanted in (None, "auto", "required"):
        return request.tools
    named = tuple(tool for tool in request.tools if tool.name == wanted)
    if not named:
        known = ", ".join(tool.name for tool in request.tools) or "none"
        raise ConfigurationError(f"tool_choice names {wanted!r}, which is not among the tools ({known})")
    return named


async def speak(
    engine: Engine,
    endpoint: Endpoint,
    body: Mapping[str, Any],
    ctx: Context,
    heard: Callable[[str], str] | None = None,
) -> Spoken:
    """Generate a reply, emitting each piece of text to listeners.

    Args:
        engine: The loaded model.
        endpoint: Whether `body` holds a chat or a plain prompt.
        body: The request to llama.cpp.
        ctx: Emits to its listeners.
        heard: Converts each generated piece to the text to show, which may be empty; by default it is shown as it is.
    """
    pieces: list[str] = []
    finish: FinishReason = "stop"
    usage = Usage(requests=1)
    listens = ctx.listens(Delta)
    async with aclosing(engine.stream(endpoint, body)) as chunks:
        async for chunk in chunks:
            text, reason = _text_of(chunk)
            if text:
                pieces.append(text)
                shown = heard(text) if heard is not None else text
                if listens and shown:
                    await ctx.emit(Delta(ctx.path, TextDelta(shown)))
            if reason == "length":
                finish = "length"
            if chunk.get("usage"):
                usage = _usage(chunk["usage"])
    return Spoken(text="".join(pieces), finish=finish, usage=usage)


async def show(text: str, ctx: Context) -> None:
    """Emit a text that is complete, word by word, as if it were generated."""
    if ctx.listens(Delta):
        for at, word in enumerate(text.split(" ")):
            await ctx.emit(Delta(ctx.path, TextDelta(word if at == 0 else f" {word}")))


def _text_of(chunk: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the text in a chunk, and the finish reason if it is the last one."""
    for choice in chunk.get("choices", ()):
        text = choice["text"] if "text" in choice else choice.get("delta", {}).get("content")
        return text or "", choice.get("finish_reason")
    return "", None


def _usage(counted: Mapping[str, Any]) -> Usage:
    return Usage(
        input=counted.get("prompt_tokens"),
        output=counted.get("completion_tokens"),
        cache_read=(counted.get("prompt_tokens_details") or {}).get("cached_tokens"),
        requests=1,
    )

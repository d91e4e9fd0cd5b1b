"""One generation: what llama.cpp is sent, what listeners hear of it, and what comes back."""

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
"""Tokens of a reply where the caller sets no limit; small models seldom stop of themselves."""


class Spoken(msgspec.Struct, frozen=True):
    """What a generation gave."""

    text: str
    finish: FinishReason
    usage: Usage


def body_of(settings: ModelSettings, **fields: Any) -> dict[str, Any]:
    """The request of llama.cpp for some settings; likeliest words and 512 tokens unless they say otherwise."""
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
    """The grammar that holds a reply to a JSON Schema.

    Written without blanks between its parts, for a small model that may write blanks writes nothing else; what
    the grammar engine does not know of JSON Schema it leaves out.
    """
    guided = {**schema, "x-guidance": {"whitespace_flexible": False, "lenient": True}}
    return f"%llguidance {{}}\nstart: %json {json.dumps(guided)}\n"


def chat_messages(request: ModelRequest, *, tools: bool = True) -> list[dict[str, str]]:
    """The conversation in the form of chat templates, which know text and three roles only.

    Args:
        request: Its conversation and instructions.
        tools: Whether calls and their results are told; a very small model that sees them speaks of nothing else.
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
    """The tools that may be called, as the settings choose among them.

    Raises:
        ConfigurationError: the settings insist on a tool that is not there.
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
    """Generate, telling listeners each piece of text as it comes.

    Args:
        engine: The loaded model.
        endpoint: Whether `body` holds a chat or a plain prompt.
        body: The request of llama.cpp.
        ctx: Whose listeners are told.
        heard: Turns a piece as it is generated into the text that is shown for it, which may be nothing; by
            default all is shown as it is.
    """
    pieces: list[str] = []
    finish: FinishReason = "stop"
    usage = Usage(requests=1)
    listens = ctx.listens(Delta)
    async with aclosing(engine.stream(endpoint, body)) as chunks:
        async for chunk in chunks:
            text, reason = _said(chunk)
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
    """Tell listeners of a text that is ready, word by word, as if it were generated."""
    if ctx.listens(Delta):
        for at, word in enumerate(text.split(" ")):
            await ctx.emit(Delta(ctx.path, TextDelta(word if at == 0 else f" {word}")))


def _said(chunk: Mapping[str, Any]) -> tuple[str, str | None]:
    """The text a chunk adds, and why the reply ends with it, if it does."""
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

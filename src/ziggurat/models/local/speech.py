"""One generation: the request to llama.cpp, the deltas for listeners, and the reply."""

__all__ = [
    "Spoken",
    "body_of",
    "chat_messages",
    "json_rule",
    "offered",
    "show",
    "speak",
    "text_of",
    "usage_of",
]

import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.delta import TextDelta
from ziggurat.messages.events import Delta
from ziggurat.messages.model import FinishReason, ModelRequest, ModelSettings, ToolSpec
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


def json_rule(schema: Mapping[str, Any]) -> str:
    """Return the body of a grammar's rule for JSON that fits a schema, on one line.

    There is one space after commas and colons, as in most of the JSON that models were trained on: without any, a
    model of 1.5 billion parameters chose the right tool for 3 of 9 requests, with them for 8. More whitespace is not
    allowed, because small models that may write it tend to write nothing else. Objects have the named properties only,
    unless the schema says otherwise. Parts of JSON Schema that the grammar engine does not support are ignored.
    """
    guidance = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
    return f"%json {json.dumps({**_closed(schema), 'x-guidance': guidance})}"


def _closed(schema: Any) -> Any:
    """Return a schema whose objects allow no unnamed properties where it is silent about them."""
    if not isinstance(schema, Mapping):
        return schema
    closed = dict(schema)
    for place in ("properties", "$defs", "definitions"):
        if isinstance(closed.get(place), Mapping):
            closed[place] = {name: _closed(part) for name, part in closed[place].items()}
    for place in ("anyOf", "oneOf", "prefixItems"):
        if isinstance(closed.get(place), list):
            closed[place] = [_closed(part) for part in closed[place]]
    if "items" in closed:
        closed["items"] = _closed(closed["items"])
    if "properties" in closed and not closed.keys() & {"additionalProperties", "patternProperties", "allOf"}:
        closed["additionalProperties"] = False
    return closed


def chat_messages(request: ModelRequest) -> list[dict[str, str]]:
    """Return the texts of a conversation, without calls and results; a very small model would talk of nothing else."""
    messages: list[dict[str, str]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    for message in request.messages:
        role, text = "user" if message.role == "tool" else message.role, message.text
        if text and messages and messages[-1]["role"] == role:
            messages[-1] = {"role": role, "content": f"{messages[-1]['content']}\n{text}"}
        elif text:
            messages.append({"role": role, "content": text})
    return messages


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
            _, text, reason = text_of(chunk)
            if text:
                pieces.append(text)
                shown = heard(text) if heard is not None else text
                if listens and shown:
                    await ctx.emit(Delta(ctx.path, TextDelta(shown)))
            if reason == "length":
                finish = "length"
            if chunk.get("usage"):
                usage = usage_of(chunk["usage"])
    return Spoken(text="".join(pieces), finish=finish, usage=usage)


async def show(text: str, ctx: Context) -> None:
    """Emit a text that is complete, word by word, as if it were generated."""
    if ctx.listens(Delta):
        for at, word in enumerate(text.split(" ")):
            await ctx.emit(Delta(ctx.path, TextDelta(word if at == 0 else f" {word}")))


def text_of(chunk: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """Return the thought and the text in a chunk, and the finish reason if it is the last one."""
    for choice in chunk.get("choices", ()):
        delta = choice.get("delta", {})
        text = choice["text"] if "text" in choice else delta.get("content")
        return delta.get("reasoning_content") or "", text or "", choice.get("finish_reason")
    return "", "", None


def usage_of(counted: Mapping[str, Any]) -> Usage:
    """Return the usage that llama.cpp counted."""
    return Usage(
        input=counted.get("prompt_tokens"),
        output=counted.get("completion_tokens"),
        cache_read=(counted.get("prompt_tokens_details") or {}).get("cached_tokens"),
        requests=1,
    )

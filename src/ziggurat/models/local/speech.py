"""One generation: the request to llama.cpp, and the reply."""

import json
from collections.abc import Mapping
from typing import Any

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.model import ModelRequest, ModelSettings, ToolSpec
from ziggurat.messages.usage import Usage

_LONGEST_REPLY = 512
"""The maximum of tokens in a reply if the caller sets none; small models seldom stop by themselves."""


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
    """Return the body of a grammar's rule for JSON that fits a schema, on one line."""
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


def offered(request: ModelRequest) -> tuple[ToolSpec, ...]:
    """Return the tools that may be called, as restricted by the settings."""
    choice = request.settings.tool_choice
    if choice == "none":
        return ()
    if choice in (None, "auto", "required"):
        return request.tools
    named = tuple(tool for tool in request.tools if tool.name == choice)
    if not named:
        known = ", ".join(tool.name for tool in request.tools) or "none"
        raise ConfigurationError(f"tool_choice names {choice!r}, which is not among the tools ({known})")
    return named


def text_of(chunk: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """Return the thought and the text in a chunk, and the finish reason if it is the last one."""
    for choice in chunk.get("choices", ()):
        delta = choice.get("delta", {})
        return delta.get("reasoning_content") or "", delta.get("content") or "", choice.get("finish_reason")
    return "", "", None


def usage_of(counted: Mapping[str, Any]) -> Usage:
    return Usage(
        input=counted.get("prompt_tokens"),
        output=counted.get("completion_tokens"),
        cache_read=(counted.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )

"""Write a request of the Responses API."""

import re
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec import Raw

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.strict_schema import is_strict
from ziggurat.models.openai_responses.messages import encode_message

_encode = msgspec.json.Encoder().encode
_CHOICES = ("auto", "none", "required")
_UNREASONING = re.compile(r"(?:.*[/.])?(?:gpt-3|gpt-4|chatgpt-)")  # they refuse requests for encrypted reasoning
_ENCRYPTED = "reasoning.encrypted_content"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def to_wire(request: ModelRequest, *, model: str, stream: bool, dialect: Dialect) -> bytes:
    """Write a request as the body of a call."""
    settings = request.settings
    body: dict[str, Any] = {"model": model, "store": False, **dialect.body}
    if not _UNREASONING.match(model):
        body["include"] = [_ENCRYPTED]
    if request.instructions:
        body["instructions"] = request.instructions
    _put_tools(body, request.tools, settings, dialect)
    _put_settings(body, settings, dialect)
    if request.output is not None and dialect.native_output:
        body["text"] = {"format": _format(request.output)}
    if stream:
        body["stream"] = True
    for name, value in settings.extra.items():
        body[name] = _merged(body.get(name), value)
    if "input" not in body:
        role = dialect.system_role
        fragments = request.messages.fragments(f"openai_responses:{role}", _encoder(role))
        body["input"] = Raw(b"[" + b",".join([each for each in fragments if each]) + b"]")
    return _encode(body)


@lru_cache(maxsize=8)
def _encoder(system_role: str) -> "partial[bytes]":
    return partial(encode_message, system_role=system_role)


def _put_settings(body: dict[str, Any], settings: ModelSettings, dialect: Dialect) -> None:
    if settings.stop:
        raise ConfigurationError(
            f"{dialect.name} does not support stop sequences: the Responses API has none; "
            "omit `stop`, or use a provider that speaks Chat Completions"
        )
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.max_tokens is not None:
        body["max_output_tokens"] = settings.max_tokens
    if settings.reasoning is not None:
        body["reasoning"] = {"effort": settings.reasoning}


def _put_tools(body: dict[str, Any], tools: tuple[ToolSpec, ...], settings: ModelSettings, dialect: Dialect) -> None:
    if tools:
        body["tools"] = [_tool(tool, dialect) for tool in tools]
        if settings.parallel_tools is not None:
            body["parallel_tool_calls"] = settings.parallel_tools
    choice = settings.tool_choice
    if choice is not None:
        body["tool_choice"] = choice if choice in _CHOICES else {"type": "function", "name": choice}


def _tool(tool: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": dialect.strict_tools and is_strict(tool.parameters),  # the API's default is true
    }


def _format(output: OutputSchema) -> dict[str, Any]:
    name = _NOT_IN_A_NAME.sub("_", output.name)[:64] or "answer"
    return {"type": "json_schema", "name": name, "schema": output.schema, "strict": is_strict(output.schema)}


def _merged(ours: Any, theirs: Any) -> Any:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {**ours, **theirs}
    if isinstance(ours, list) and isinstance(theirs, list):
        return ours + [each for each in theirs if each not in ours]
    return theirs

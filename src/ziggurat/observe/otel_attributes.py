"""The attributes of spans: what OpenTelemetry's conventions for generative AI say of agents, models and tools."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments
from ziggurat.journal.entries import Result
from ziggurat.journal.journal import journal_of
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import Audio, File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings
from ziggurat.messages.stops import status_of
from ziggurat.messages.usage import Usage
from ziggurat.observe.conventions import Names

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]
"""Attributes of a span."""

_PROVIDERS = {
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
}
"""Providers that the conventions know by another name."""

_FINISHES = {"tool_calls": "tool_call", "refusal": "content_filter", "malformed": "error"}
"""Finish reasons that the conventions know by another name."""


def of_model(name: str) -> dict[str, str]:
    """Return the labels of calls of a model, for spans and metrics, by its name with or without a provider."""
    scheme, colon, rest = name.partition(":")
    provider, model = (scheme.partition("@")[0], rest) if colon else ("ziggurat", name)
    provider = _PROVIDERS.get(provider, provider)
    return {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider, "gen_ai.request.model": model}


def is_local(name: str) -> bool:
    return name.partition(":")[0] == "local" or ":" not in name


def of_settings(settings: ModelSettings) -> Attributes:
    chosen = {
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.max_tokens": settings.max_tokens,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.request.seed": settings.seed,
        "gen_ai.request.stop_sequences": settings.stop or None,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def of_response(response: ModelResponse, names: Names) -> Attributes:
    facts: dict[str, str | int | Sequence[str]] = {"gen_ai.response.finish_reasons": (_finish(response),)}
    if response.model:
        facts["gen_ai.response.model"] = response.model
    if response.id:
        facts["gen_ai.response.id"] = response.id
    return {**facts, **_of_usage(response.usage, names)}


def of_run(run: AgentRun, names: Names) -> Attributes:
    ended: dict[str, str | int] = {"ziggurat.stop": status_of(run.stop), "ziggurat.steps": run.steps}
    if run.session:
        ended["gen_ai.conversation.id"] = run.session
    return {**ended, **_of_usage(run.usage, names)}


def _of_usage(usage: Usage, names: Names) -> dict[str, int]:
    tokens = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        names.cache_write: usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }
    known = {name: count for name, count in tokens.items() if count is not None}
    return {**known, "ziggurat.usage.estimated": True} if usage.estimated else known


def _finish(response: ModelResponse) -> str:
    return _FINISHES.get(response.finish, response.finish)


# -- content, as JSON in the form of the conventions ------------------------------------------------------------------


def content_of_request(request: ModelRequest, ctx: Context) -> Attributes:
    content: dict[str, Any] = {"gen_ai.input.messages": [_message(each) for each in request.messages]}
    if request.instructions is not None:
        content["gen_ai.system_instructions"] = [_text(request.instructions)]
    if request.tools:
        content["gen_ai.tool.definitions"] = [
            {"type": "function", "name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in request.tools
        ]
    return _masked(content, ctx)


def content_of_response(response: ModelResponse, ctx: Context) -> Attributes:
    message = {**_message(response.message), "finish_reason": _finish(response)}
    return _masked({"gen_ai.output.messages": [message]}, ctx)


def content_of_call(call: ToolCall, ctx: Context) -> Attributes:
    return _masked({"gen_ai.tool.call.arguments": _arguments(call)}, ctx)


def content_of_result(result: ToolResult, ctx: Context) -> Attributes:
    return _masked({"gen_ai.tool.call.result": result.value()}, ctx)


def _masked(content: dict[str, Any], ctx: Context) -> Attributes:
    """Return content as JSON, masked as the record of this run is."""
    screened = journal_of(ctx).screened(Result(ctx.path, "telemetry", None, content))
    values = screened.value
    return {name: encode(value).decode() for name, value in values.items()} if isinstance(values, dict) else {}


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return _text(part.text)
    if isinstance(part, Thinking):
        return {"type": "reasoning", "content": part.text}
    if isinstance(part, ToolCall):
        return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": _arguments(part)}
    if isinstance(part, ToolResult):
        content = part.value() if isinstance(part.content, str) else [_part(each) for each in part.content]
        return {"type": "tool_call_response", "id": part.id, "response": content}
    return _media(part)


def _media(part: Image | Audio | File) -> dict[str, Any]:
    modality = {Image: "image", Audio: "audio"}.get(type(part), "document")
    described = {"modality": modality, "mime_type": part.media_type}
    if part.data is not None:
        return {"type": "blob", **described, "content": b64encode(part.data).decode()}
    if part.url is not None and part.url.startswith("data:"):
        return {"type": "blob", **described, "content": _content_of_data_url(part.url)}
    if part.url is not None:
        return {"type": "uri", **described, "uri": part.url}
    return {"type": "file", **described, "file_id": part.id if isinstance(part, File) else ""}


def _content_of_data_url(url: str) -> str:
    head, _, data = url.partition(",")
    return data if head.endswith(";base64") else b64encode(unquote_to_bytes(data)).decode()


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _arguments(call: ToolCall) -> object:
    """Return the arguments as values; as the model wrote them if they are no JSON object."""
    try:
        return call.parsed()
    except InvalidArguments:
        return call.arguments

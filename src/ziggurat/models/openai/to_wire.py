"""Write a request of Chat Completions."""

from functools import partial
from typing import Any

from ziggurat.messages.model import ModelRequest, ModelSettings, ToolSpec
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.strict_schema import is_strict
from ziggurat.models.openai.message import encode_message, encode_pictures, to_json

_CHOICES = ("auto", "none", "required")


def to_wire(request: ModelRequest, *, model: str, stream: bool, dialect: Dialect) -> bytes:
    """Write the body of a call; each message is encoded only once in a run."""
    head = to_json(_fields(request, model, stream, dialect))
    return b"".join([head[:-1], b',"messages":[', b",".join(filter(None, _messages(request, dialect))), b"]}"])


def _messages(request: ModelRequest, dialect: Dialect) -> list[bytes]:
    key = f"chat {dialect.name} {dialect.system_role} {dialect.reasoning_reply} {dialect.empty_content}"
    transcript = request.messages
    fragments = transcript.fragments(key, partial(encode_message, dialect=dialect))
    pictures = transcript.fragments(f"{key} pictures", partial(encode_pictures, dialect=dialect))
    if any(pictures):
        fragments = _with_pictures(fragments, pictures, [message.role for message in transcript])
    if request.instructions:
        first = to_json({"role": dialect.system_role, "content": request.instructions})
        return [first, *fragments]
    return fragments


def _with_pictures(fragments: list[bytes], pictures: list[bytes], roles: list[str]) -> list[bytes]:
    """Place the images of tool results after all results of the batch, because nothing may stand between results."""
    placed: list[bytes] = []
    waiting: list[bytes] = []
    for fragment, picture, role in zip(fragments, pictures, roles, strict=True):
        if role != "tool":
            placed.extend(waiting)
            waiting = []
        placed.append(fragment)
        if picture:
            waiting.append(picture)
    return placed + waiting


def _fields(request: ModelRequest, model: str, stream: bool, dialect: Dialect) -> dict[str, Any]:
    """Return everything but the messages."""
    settings = request.settings
    fields: dict[str, Any] = {"model": model}
    if stream:
        fields["stream"] = True
        if dialect.stream_usage:
            fields["stream_options"] = {"include_usage": True}
    if dialect.body:
        fields.update(dialect.body)
    tools = [_tool(tool) for tool in request.tools]
    own_tools = settings.extra.get("tools", ())
    if tools or own_tools:
        fields["tools"] = [*tools, *own_tools]
        _add_choice(fields, settings, dialect)
    _add_sampling(fields, settings, dialect)
    if settings.reasoning is not None:
        _add_reasoning(fields, settings.reasoning, dialect)
    if request.output is not None:
        fields["response_format"] = _format(request, dialect)
    if settings.extra:
        fields.update({name: value for name, value in settings.extra.items() if name not in ("tools", "messages")})
    return fields


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    return {"type": "function", "function": function}


def _add_choice(fields: dict[str, Any], settings: ModelSettings, dialect: Dialect) -> None:
    choice = settings.tool_choice
    if choice == "required" or (choice not in (None, *_CHOICES) and not dialect.named_choice):
        fields["tool_choice"] = dialect.required_choice
    elif choice in _CHOICES:
        fields["tool_choice"] = choice
    elif choice is not None:
        fields["tool_choice"] = {"type": "function", "function": {"name": choice}}
    if settings.parallel_tools is not None and dialect.parallel_field:
        fields[dialect.parallel_field] = settings.parallel_tools


def _add_sampling(fields: dict[str, Any], settings: ModelSettings, dialect: Dialect) -> None:
    longest = settings.max_tokens if settings.max_tokens is not None else dialect.max_tokens
    offered = (
        ("temperature", settings.temperature),
        ("top_p", settings.top_p),
        (dialect.max_tokens_field, longest),
        (dialect.stop_field, list(settings.stop) or None),
        (dialect.seed_field, settings.seed),
    )
    fields.update({name: value for name, value in offered if name and value is not None})


def _add_reasoning(fields: dict[str, Any], effort: str, dialect: Dialect) -> None:
    if dialect.reasoning_request == "reasoning_effort":
        fields["reasoning_effort"] = effort
    elif dialect.reasoning_request == "reasoning":
        fields["reasoning"] = {"effort": effort}
    elif dialect.reasoning_request == "thinking":
        fields["thinking"] = {"type": "disabled" if effort == "none" else "enabled"}


def _format(request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
    output = request.output
    if output is None or not dialect.native_output:
        return {"type": "json_object"}
    described: dict[str, Any] = {"name": output.name, "schema": output.schema}
    if dialect.strict_tools:
        described["strict"] = is_strict(output.schema)
    return {"type": "json_schema", "json_schema": described}

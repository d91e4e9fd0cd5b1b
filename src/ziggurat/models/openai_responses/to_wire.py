"""Write a request of the Responses API."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.message import Audio, File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from ziggurat.messages.model import TOOL_CHOICES, ModelRequest, ModelSettings, OutputSchema, ToolSpec
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.fitting import data_url, encoded, fitted, object_text, offered, sampling, to_json
from ziggurat.models.openai_responses.from_wire import is_ours, item_and_place

_UNREASONING = re.compile(r"(?:.*[/.])?(?:gpt-3|gpt-4|chatgpt-)")  # they refuse requests for encrypted reasoning
_ENCRYPTED = "reasoning.encrypted_content"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def to_wire(request: ModelRequest, *, model: str, stream: bool, dialect: Dialect) -> bytes:
    settings = request.settings
    body: dict[str, Any] = {"model": model, "store": False, **dialect.body}
    if not _UNREASONING.match(model):
        body["include"] = [_ENCRYPTED]
    if request.instructions:
        body["instructions"] = request.instructions
    _put_tools(body, request.tools, settings, dialect)
    _put_settings(body, settings, dialect)
    if request.output is not None and dialect.native_output:
        body["text"] = {"format": _format(request.output, dialect)}
    if stream:
        body["stream"] = True
    for name, value in settings.extra.items():
        body[name] = _merged(body.get(name), value)
    if "input" not in body:
        form = (dialect.system_role, dialect.id_rule, dialect.name_rule)
        encode = partial(encode_message, dialect=dialect)
        fragments = encoded(request.messages, f"openai_responses:{form}", encode)
        body["input"] = msgspec.Raw(b"[" + b",".join([each for each in fragments if each]) + b"]")
    return to_json(body)


def _put_settings(body: dict[str, Any], settings: ModelSettings, dialect: Dialect) -> None:
    if settings.stop:
        raise ConfigurationError(
            f"{dialect.name} does not support stop sequences: the Responses API has none; "
            "omit `stop`, or use a provider that speaks Chat Completions"
        )
    body.update(sampling(settings, dialect))
    if settings.reasoning is not None:
        body["reasoning"] = {"effort": settings.reasoning}


def _put_tools(body: dict[str, Any], tools: tuple[ToolSpec, ...], settings: ModelSettings, dialect: Dialect) -> None:
    if tools:
        body["tools"] = [_tool(tool, dialect) for tool in tools]
        if settings.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = settings.parallel_tool_calls
    choice = settings.tool_choice
    if choice is not None and (tools or "tools" in settings.extra):
        named = {"type": "function", "name": fitted(choice, dialect.name_rule)}
        body["tool_choice"] = choice if choice in TOOL_CHOICES else named


def _tool(tool: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    fields = {"type": "function", "name": fitted(tool.name, dialect.name_rule), "description": tool.description}
    schema, strict = offered(tool.parameters, dialect)
    return {**fields, "parameters": schema, "strict": strict}  # the API's default is true


def _format(output: OutputSchema, dialect: Dialect) -> dict[str, Any]:
    name = _NOT_IN_A_NAME.sub("_", output.name)[:64] or "answer"
    schema, strict = offered(output.schema, dialect)
    return {"type": "json_schema", "name": name, "schema": schema, "strict": strict}


def _merged(ours: Any, theirs: Any) -> Any:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {**ours, **theirs}
    if isinstance(ours, list) and isinstance(theirs, list):
        return ours + [each for each in theirs if each not in ours]
    return theirs


_TYPES = {"application/pdf": "pdf", "text/plain": "txt", "text/markdown": "md", "application/json": "json"}


def encode_message(message: Message, dialect: Dialect) -> bytes:
    """Write a message as items, separated by commas; empty if the API accepts none of it."""
    parts = message.parts
    if message.role == "assistant":
        items = _output(parts, dialect)
    else:
        items = [_result(part, dialect) for part in parts if isinstance(part, ToolResult)]
        content = [part for part in parts if not isinstance(part, (ToolResult, Thinking, ToolCall))]
        if any(not isinstance(part, Text) or part.text.strip() for part in content):
            role = dialect.system_role if message.role == "system" else "user"
            items.append({"role": role, "content": _content(content)})
    return to_json(items)[1:-1]


def _content(parts: Sequence[Part]) -> "str | list[dict[str, Any]]":
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_piece(part) for part in parts]


def _piece(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Image):
        return _image(part)
    if isinstance(part, File):
        return _file(part)
    if isinstance(part, Audio) and part.data is not None:
        sound = {"data": part.data, "format": part.media_type.rpartition("/")[2]}
        return {"type": "input_audio", "input_audio": sound}
    raise ConfigurationError(f"the Responses API does not accept this {type(part).__name__}: send its bytes as `data`")


def _image(part: Image) -> dict[str, Any]:
    url = part.url if part.data is None else data_url(part.data, part.media_type)
    image = {"type": "input_image", "image_url": url}
    return image if part.detail is None else {**image, "detail": part.detail}


def _file(part: File) -> dict[str, Any]:
    if part.data is not None:
        name = part.name or f"file.{_TYPES.get(part.media_type, 'bin')}"
        return {"type": "input_file", "filename": name, "file_data": data_url(part.data, part.media_type)}
    if part.id is not None:
        return {"type": "input_file", "file_id": part.id}
    return {"type": "input_file", "file_url": part.url}


def _result(part: ToolResult, dialect: Dialect) -> dict[str, Any]:
    output = part.content if isinstance(part.content, str) else [_piece(each) for each in part.content]
    return {"type": "function_call_output", "call_id": fitted(part.id, dialect.id_rule), "output": output}


def _output(parts: tuple[Part, ...], dialect: Dialect) -> list[Any]:
    """Return the original items of an assistant's message, in order and with their fields."""
    items: list[Any] = []
    beside: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, Text):
            own = beside if beside.get("type") == "message" else {}
            if own or part.text.strip():
                items.append(_message_item(part.text, own))
            beside = {}
        elif isinstance(part, ToolCall):
            fields = beside if beside.get("type") == "function_call" else {}
            call = {"type": "function_call", "call_id": fitted(part.id, dialect.id_rule)}
            call |= {"name": fitted(part.name, dialect.name_rule), "arguments": object_text(part.arguments)}
            items.append({**call, **fields})
            beside = {}
        elif isinstance(part, Thinking) and is_ours(part):
            if part.redacted is None:
                _think(part, items)
            elif (own := msgspec.json.decode(part.redacted, type=dict[str, Any])).get("type") in (
                "message",
                "function_call",
            ):
                beside = own
            else:
                items.append(msgspec.Raw(part.redacted.encode()))
    return items


def _message_item(text: str, fields: dict[str, Any]) -> dict[str, Any]:
    if "id" not in fields:
        return {"role": "assistant", "content": text, **fields}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"role": "assistant", "status": "completed", "content": content, **fields}


def _think(part: Thinking, items: list[Any]) -> None:
    """Add a text to its reasoning item: a first text begins a new item, further texts must follow directly."""
    name, place = item_and_place(part.id or "")
    last = items[-1] if items else None
    if place != 0 and isinstance(last, dict) and _awaits_more(last, name):
        item = last
    else:
        item = {"type": "reasoning", "summary": []}
        if name is not None:
            item["id"] = name
        items.append(item)
    if part.text and place >= 0:
        item["summary"].append({"type": "summary_text", "text": part.text})
    elif part.text:
        item.setdefault("content", []).append({"type": "reasoning_text", "text": part.text})
    if part.signature is not None:
        item["encrypted_content"] = part.signature


def _awaits_more(item: dict[str, Any], name: str | None) -> bool:
    return item.get("type") == "reasoning" and item.get("id") == name and "encrypted_content" not in item

"""Parsing requests of the three formats into a ModelRequest."""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core import codec
from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.message import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    refolded,
    tool_message,
)
from ziggurat.messages.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from ziggurat.wires.types import ApprovalResponse, Json, Wire

_FILE_FIELDS = ("file_url", "file_id", "filename")
_NEEDS = {"chat": "messages", "responses": "input", "messages": "messages"}


def read_request(data: bytes, wire: Wire, *, counting: bool = False) -> tuple[Json, ModelRequest]:
    """Parse the body of a request, and return its JSON and what it asks of a model; unknown fields are ignored."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"We could not parse the JSON body of your request: {error}") from error
    if not isinstance(body, dict):
        raise ValueError("The body must be a JSON object")
    _check(body, wire, counting=counting)
    readers = {"chat": _chat, "responses": _joined_responses, "messages": _anthropic}
    instructions: list[str] = []
    messages: list[Message] = []
    for message in readers[wire](body):
        if message.role == "system":
            instructions.append(message.text)
        elif message.parts:
            messages.append(message)
    request = ModelRequest(
        Conversation(messages).view(),
        "\n\n".join(instructions) or None,
        tuple(_tools(body)),
        _settings(body),
        _output(body),
    )
    return body, request


def read_approvals(body: Json) -> tuple[ApprovalResponse, ...]:
    approvals: list[ApprovalResponse] = []
    for item in _items(body.get("input")):
        if item.get("type") == "mcp_approval_response":
            item_id, approve, reason = item.get("approval_request_id"), item.get("approve"), item.get("reason")
            if not (isinstance(item_id, str) and isinstance(approve, bool) and isinstance(reason, str | None)):
                raise ValueError(
                    "an mcp_approval_response has approval_request_id, a string, approve, true or false, and perhaps "
                    f"reason, a string; got {item!r:.300}"
                )
            approvals.append(ApprovalResponse(item_id, approve, reason or ""))
    return tuple(approvals)


def _check(body: Json, wire: Wire, *, counting: bool) -> None:
    if not isinstance(body.get("model"), str):
        raise ValueError("you must provide a model parameter")
    needed = body.get(_NEEDS[wire])
    if not isinstance(needed, list) and not (wire == "responses" and isinstance(needed, str)):
        raise ValueError(f"Missing required parameter: '{_NEEDS[wire]}'.")
    if wire == "messages" and not counting and not isinstance(body.get("max_tokens"), int):
        raise ValueError("max_tokens: Field required")
    if not isinstance(body.get("tools"), list | None):
        raise ValueError("tools: expected a list")
    if not isinstance(body.get("instructions"), str | None):
        raise ValueError("instructions: expected a string")


def _items(value: object) -> Iterator[Json]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "".join(str(item["text"]) for item in _items(value) if "text" in item)


def _parts(value: object) -> tuple[Part, ...]:
    if isinstance(value, str):
        return (Text(value),) if value else ()
    parts: list[Part] = []
    for item in _items(value):
        image, sound = item.get("image_url"), item.get("input_audio")
        if isinstance(image, dict):
            image = image.get("url")
        if isinstance(image, str):
            parts.append(Image(url=image))
        elif isinstance(sound, dict):
            parts.append(Audio(b64decode(str(sound.get("data"))), media_type=f"audio/{sound.get('format')}"))
        elif item.get("type") in ("file", "input_file"):
            parts.append(_file(item["file"] if isinstance(item.get("file"), dict) else item))
        elif isinstance(text := item.get("text", item.get("refusal")), str):
            parts.append(Text(text))
    return tuple(parts)


def _file(item: Json) -> File:
    head, mark, data = str(item.get("file_data") or "").partition(";base64,")
    media_type = head.removeprefix("data:") if mark else "application/octet-stream"
    url, file_id, name = (item[key] if isinstance(item.get(key), str) else None for key in _FILE_FIELDS)
    content = b64decode(data or head) if data or head else None
    return File(content, url, file_id, name, media_type)


def _tool_call(name: object, arguments: object, id: object) -> ToolCall:  # noqa: A002
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCall(str(id or ""), str(name or ""), text)


class _Function(Struct):
    name: str
    arguments: str


class _Call(Struct):
    id: str
    function: _Function


class _ChatMessage(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Json] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""
    function_call: Json | None = None
    audio: Json | None = None

    def refuse_losses(self) -> None:
        """Raise ValueError if something that was said would be lost."""
        if self.function_call is not None:
            raise ValueError("its function_call is not read; write it as tool_calls, and its result with tool_call_id")
        if self.audio is not None and not self.content:
            raise ValueError("its audio is not read; write its transcript as content")
        if self.content is None and self.role != "assistant":
            raise ValueError("its content is missing")
        for item in self.content if isinstance(self.content, list) else ():
            if not (_parts([item]) if self.role in ("user", "assistant") else _text([item])) and "text" not in item:
                raise ValueError(f"content of the type {item.get('type')!r:.40} is not read")


def from_openai(messages: Iterable[object]) -> list[Message]:
    """Return messages from dictionaries, as OpenAI's Chat Completions and servers like it have them::

        run = await agent.run("And doubled?", history=from_openai(conversation))

    Messages as objects of OpenAI's library are taken, too. Fields that are no part of what was said are left out.
    `to_openai` is the way back.

    Raises:
        InvalidArguments: one of them is no such message; the text says which, and why.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InvalidArguments(f"from_openai takes a list of messages; got {messages!r:.200}")
    found: list[Message] = []
    names: dict[str, str] = {}  # of the tools, by the ids of the calls
    for number, each in enumerate(messages):
        try:
            item = codec.plain(each.model_dump(exclude_none=True) if hasattr(each, "model_dump") else each)
            form = codec.convert(item, _ChatMessage)
            if form.role == "tool" and not form.tool_call_id:
                raise ValueError("its tool_call_id is missing")
            if form.role == "tool" and form.tool_call_id not in names:
                raise ValueError(f"no call before it has its tool_call_id {form.tool_call_id!r:.100}")
            form.refuse_losses()
            (message,) = _chat({"messages": [item]})
        except (TypeError, ValueError) as error:
            raise InvalidArguments(f"message {number} is no message of OpenAI: {error}: {each!r:.200}") from None
        names.update({call.id: call.name for call in message.tool_calls})
        if form.role == "tool":
            result = replace(message.tool_results[0], name=names[form.tool_call_id])
            found.append(tool_message(result))
        elif message.parts:
            found.append(replace(message, name=form.name or None))
    return found


def _chat(body: Json) -> Iterator[Message]:
    for item in _items(body["messages"]):
        role, content = item.get("role"), item.get("content")
        if role in ("system", "developer"):
            yield Message("system", (Text(_text(content)),))
        elif role == "tool":
            yield Message("tool", (ToolResult(str(item.get("tool_call_id")), "", _text(content)),))
        elif role == "assistant":
            calls = tuple(
                _tool_call(call["function"].get("name"), call["function"].get("arguments"), call.get("id"))
                for call in _items(item.get("tool_calls"))
                if isinstance(call.get("function"), dict)
            )
            yield Message("assistant", _parts(content or item.get("refusal")) + calls)
        else:
            yield _user(role, content)


def _joined_responses(body: Json) -> Iterator[Message]:
    for is_assistant, group in groupby(_responses(body), lambda message: message.role == "assistant"):
        if not is_assistant:
            yield from group
            continue
        parts = [part for message in group for part in message.parts]
        while parts and isinstance(parts[-1], Thinking):  # no provider takes a thought without what followed
            parts.pop()
        yield refolded(Message("assistant", tuple(parts)))


def _responses(body: Json) -> Iterator[Message]:
    yield from [Message("system", (Text(body["instructions"]),))] if body.get("instructions") else []
    if isinstance(body["input"], str):
        yield Message("user", _parts(body["input"]))
    for item in _items(body["input"]):
        kind, role, content = item.get("type", "message"), item.get("role"), item.get("content")
        if kind == "function_call":
            call = _tool_call(item.get("name"), item.get("arguments"), item.get("call_id"))
            yield Message("assistant", (call,))
        elif kind == "function_call_output":
            yield Message("tool", (ToolResult(str(item.get("call_id")), "", _text(item.get("output"))),))
        elif kind == "mcp_call":
            yield from _server_call(item)
        elif kind == "reasoning":
            thought = Thinking(_text(item.get("summary")), item.get("encrypted_content"), id=item.get("id"))
            yield Message("assistant", (thought,))
        elif role in ("system", "developer"):
            yield Message("system", (Text(_text(content)),))
        elif role == "assistant":
            yield Message("assistant", _parts(content))
        elif kind == "message":
            yield _user(role, content)


def _user(role: object, content: object) -> Message:
    if role != "user":  # such as the result of an older "function", which no user has said
        raise ValueError(f"the role {role!r:.40} is not supported")
    return Message("user", _parts(content))


def _server_call(item: Json) -> Iterator[Message]:
    """Yield the messages of a call that the server has made: the call and its result; none if it has no result."""
    call = _tool_call(item.get("name"), item.get("arguments"), item.get("id"))
    output, error = item.get("output"), item.get("error")
    if isinstance(output, str):
        result = ToolResult(call.id, call.name, output)
    elif error is not None:
        text = _text(error.get("content")) if isinstance(error, dict) else str(error)
        result = ToolResult(call.id, call.name, text, "permanent")
    else:
        return
    yield Message("assistant", (call,))
    yield Message("tool", (result,))


def _anthropic(body: Json) -> Iterator[Message]:
    if body.get("system"):
        yield Message("system", (Text(_text(body["system"])),))
    for item in _items(body["messages"]):
        content = item.get("content")
        if isinstance(content, str):
            yield Message("assistant" if item.get("role") == "assistant" else "user", _parts(content))
            continue
        results = tuple(
            ToolResult(str(block.get("tool_use_id")), "", _text(block.get("content")))
            for block in _items(content)
            if block.get("type") == "tool_result"
        )
        if results:
            yield Message("tool", results)
        parts = tuple(part for block in _items(content) if (part := _block(block)) is not None)
        if parts or not results:
            yield Message("assistant" if item.get("role") == "assistant" else "user", parts)


def _block(block: Json) -> Part | None:
    kind = block.get("type")
    if kind == "text":
        return Text(str(block.get("text")))
    if kind == "tool_use":
        return _tool_call(block.get("name"), block.get("input"), block.get("id"))
    if kind == "image" and isinstance(block.get("source"), dict):
        return _image(block["source"])
    if kind == "thinking":
        return Thinking(str(block.get("thinking")), block.get("signature"))
    if kind == "redacted_thinking":
        return Thinking(redacted=block.get("data"))
    return None


def _image(source: Json) -> Image:
    if source.get("type") == "url":
        return Image(url=str(source.get("url")))
    return Image(b64decode(str(source.get("data"))), media_type=str(source.get("media_type")))


def _tools(body: Json) -> Iterator[ToolSpec]:
    for item in _items(body.get("tools")):
        tool = item["function"] if isinstance(item.get("function"), dict) else item
        schema = tool.get("parameters") or tool.get("input_schema") or {"type": "object", "properties": {}}
        if isinstance(tool.get("name"), str) and isinstance(schema, dict):
            yield ToolSpec(tool["name"], str(tool.get("description") or ""), schema)


def _number(body: Json, *names: str) -> float | None:
    numbers = (body[name] for name in names if isinstance(body.get(name), (int, float)))
    return next(numbers, None)


def _settings(body: Json) -> ModelSettings:
    limit = _number(body, "max_tokens", "max_completion_tokens", "max_output_tokens")
    return ModelSettings(
        temperature=_number(body, "temperature"),
        max_tokens=None if limit is None else int(limit),
        top_p=_number(body, "top_p"),
    )


def _output(body: Json) -> OutputSchema | None:
    text = body.get("text")
    config = body.get("output_config")
    form = body.get("response_format")
    form = text.get("format") if isinstance(text, dict) else form
    form = config.get("format") if isinstance(config, dict) else form
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return None
    inner = form["json_schema"] if isinstance(form.get("json_schema"), dict) else form
    schema = inner.get("schema")
    return OutputSchema(str(inner.get("name") or "output"), schema) if isinstance(schema, dict) else None

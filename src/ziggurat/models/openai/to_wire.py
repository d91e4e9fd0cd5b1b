"""Write a request of Chat Completions, or messages in their form."""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Audio, File, Image, Message, Text, Thinking, ToolCall, ToolResult
from ziggurat.messages.model import FINAL_ANSWER, TOOL_CHOICES, ModelRequest, ModelSettings, OutputSchema, ToolSpec
from ziggurat.models.http import fitting
from ziggurat.models.http.dialect import Dialect, dialect_of
from ziggurat.models.openai.from_wire import GOOGLE, RECEIVED, details_of


def to_wire(request: ModelRequest, *, model: str, stream: bool, dialect: Dialect) -> bytes:
    head = fitting.to_json(_fields(request, model, stream, dialect))
    messages = encode_conversation(request, dialect, _UNSIGNED if _SIGNED.search(model) else "")
    if dialect.ordered_roles:
        messages = _in_order(messages)
    return b"".join([head[:-1], b',"messages":[', b",".join(filter(None, messages)), b"]}"])


def encode_conversation(request: ModelRequest, dialect: Dialect, unsigned: str = "") -> list[bytes]:
    form = (dialect.system_role, dialect.reasoning_reply, dialect.empty_content, dialect.id_rule, dialect.name_rule)
    key = f"chat {dialect.name} {unsigned} {form}"
    transcript = request.messages
    encode = partial(encode_message, dialect=dialect, unsigned=unsigned)
    fragments = fitting.encoded(transcript, key, encode)
    pictures = transcript.fragments(f"{key} pictures", partial(encode_pictures, dialect=dialect))
    if any(pictures):
        fragments = _with_pictures(fragments, pictures, [message.role for message in transcript])
    if request.instructions:
        first = fitting.to_json({"role": dialect.system_role, "content": request.instructions})
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


_ROLE = re.compile(rb'\{"role":"(\w+)"')
_BETWEEN = b'{"role":"assistant","content":"OK."}'


def _in_order(fragments: list[bytes]) -> list[bytes]:
    """Let the model speak between tools and users, and continue its own last words; later instructions are a user's."""
    ordered: list[bytes] = []
    before = b""
    for fragment in filter(None, fragments):
        match = _ROLE.match(fragment)
        role = match[1] if match else b""
        if role == b"system" and before not in (b"", b"system"):
            role, fragment = b"user", fragment.replace(b'"system"', b'"user"', 1)
        if role == b"user" and before == b"tool":
            ordered.append(_BETWEEN)
        ordered.append(fragment)
        before = role
    if before == b"assistant":
        ordered[-1] = ordered[-1][:-1] + b',"prefix":true}'
    return ordered


def _fields(request: ModelRequest, model: str, stream: bool, dialect: Dialect) -> dict[str, Any]:
    settings = request.settings
    fields: dict[str, Any] = {"model": model}
    if stream:
        fields["stream"] = True
        if dialect.stream_usage:
            fields["stream_options"] = {"include_usage": True}
    if dialect.body:
        fields.update(dialect.body)
    tools = [_tool(tool, dialect) for tool in request.tools]
    own_tools = settings.extra.get("tools", ())
    output = request.output
    if output is not None and (tools or own_tools) and not dialect.output_beside_tools:
        tools.append(_tool(ToolSpec(FINAL_ANSWER, "Give the final answer.", output.schema), dialect))
        output = None
        if settings.tool_choice in (None, "auto", "none"):
            settings = msgspec.structs.replace(settings, tool_choice="required")
    if tools or own_tools:
        fields["tools"] = [*tools, *own_tools]
        _add_choice(fields, settings, dialect)
    fields.update(fitting.sampling(settings, dialect))
    if settings.reasoning is not None:
        _add_reasoning(fields, settings.reasoning, dialect)
    if output is not None:
        fields["response_format"] = _format(output, dialect)
    if settings.extra:
        fields.update({name: value for name, value in settings.extra.items() if name not in ("tools", "messages")})
    return fields


def _tool(tool: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    function: dict[str, Any] = {"name": fitting.fitted(tool.name, dialect.name_rule)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"], strict = fitting.offered(tool.parameters, dialect)
    if strict and dialect.makes_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _add_choice(fields: dict[str, Any], settings: ModelSettings, dialect: Dialect) -> None:
    choice = settings.tool_choice
    if choice == "required":
        fields["tool_choice"] = dialect.required_choice
    elif choice in TOOL_CHOICES:
        fields["tool_choice"] = choice
    elif choice is not None:
        fields["tool_choice"] = {"type": "function", "function": {"name": fitting.fitted(choice, dialect.name_rule)}}
    if settings.parallel_tool_calls is not None and dialect.parallel_field:
        fields[dialect.parallel_field] = settings.parallel_tool_calls


def _add_reasoning(fields: dict[str, Any], effort: str, dialect: Dialect) -> None:
    if dialect.reasoning_request == "reasoning_effort":
        fields["reasoning_effort"] = effort
    elif dialect.reasoning_request == "reasoning":
        fields["reasoning"] = {"effort": effort}


def _format(output: OutputSchema, dialect: Dialect) -> dict[str, Any]:
    if not dialect.native_output:
        return {"type": "json_object"}
    schema, strict = fitting.offered(output.schema, dialect)
    described: dict[str, Any] = {"name": output.name, "schema": schema}
    if dialect.strict_tools:
        described["strict"] = strict
    return {"type": "json_schema", "json_schema": described}


_SIGNED = re.compile(r"gemini-([3-9]|\d\d)")
"""The models that refuse calls without a signature, and take this word for calls that another model made."""

_UNSIGNED = "skip_thought_signature_validator"


Wire = dict[str, Any]


def encode_message(message: Message, dialect: Dialect, unsigned: str = "") -> bytes:
    """Return a message as one or more JSON objects separated by commas, without brackets; empty if there are none."""
    role = message.role
    if role == "assistant":
        said = _assistant(message, dialect, unsigned)
        content = said["content"]
        blank = not (content.strip() if isinstance(content, str) else content)
        wires = [] if blank and "tool_calls" not in said else [said]
    elif role == "tool" or any(isinstance(part, ToolResult) for part in message.parts):
        wires = _results(message, dialect)
    else:
        wires = [_encode_plain(message, dialect)]
    return b",".join([fitting.to_json(wire) for wire in wires])


def _encode_plain(message: Message, dialect: Dialect) -> Wire:
    wire: Wire = {"role": dialect.system_role if message.role == "system" else message.role}
    wire["content"] = _content(message.parts, dialect)
    if message.name:
        wire["name"] = _name(message.name)
    return wire


def _name(name: str) -> str:
    return "".join([letter if letter.isalnum() or letter in "_-" else "_" for letter in name])[:64]


def _content(parts: tuple[Any, ...], dialect: Dialect) -> str | list[Wire]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    content: list[Wire] = []
    for part in parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, (Image, Audio, File)):
            content.append(_media_part(part, dialect))
    return content or ""


def _results(message: Message, dialect: Dialect) -> list[Wire]:
    wires: list[Wire] = []
    for part in message.parts:
        if not isinstance(part, ToolResult):
            continue
        wire: Wire = {"role": "tool", "tool_call_id": fitting.fitted(part.id, dialect.id_rule)}
        if dialect.tool_names:
            wire["name"] = fitting.fitted(part.name, dialect.name_rule)
        wire["content"] = _result(part, dialect)
        wires.append(wire)
    rest = tuple([part for part in message.parts if not isinstance(part, (ToolResult, ToolCall, Thinking))])
    if rest:
        if dialect.ordered_roles:
            wires.append(msgspec.json.decode(_BETWEEN))
        wires.append(_encode_plain(Message("user", rest, message.name), dialect))
    return wires


def _result(part: ToolResult, dialect: Dialect) -> str | list[Wire]:
    content = part.content
    if isinstance(content, str):
        return content
    if all(isinstance(each, Text) for each in content):
        return _content(content, dialect)
    return part.text or "(what it gave follows)"


def encode_pictures(message: Message, dialect: Dialect) -> bytes:
    """Return the user message with the media of tool results, for providers whose tool messages are text only."""
    if message.role != "tool":
        return b""
    content: list[Wire] = []
    for result in message.tool_results:
        if isinstance(result.content, str):
            continue
        media = [_media_part(part, dialect) for part in result.content if not isinstance(part, Text)]
        if media:
            call = fitting.fitted(result.id, dialect.id_rule)
            content.append({"type": "text", "text": f"What {result.name or 'the tool'} gave for the call {call}:"})
            content.extend(media)
    return fitting.to_json({"role": "user", "content": content}) if content else b""


def _assistant(message: Message, dialect: Dialect, unsigned: str) -> Wire:
    wire: Wire = {"role": "assistant"}
    texts: list[str] = []
    thoughts: list[Thinking] = []
    calls: list[Wire] = []
    signature: str | None = None
    for part in message.parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, Thinking):
            if part.id == GOOGLE:
                signature = part.signature
            else:
                thoughts.append(part)
        elif isinstance(part, ToolCall):
            first = signature or (None if calls else unsigned)
            calls.append(_call(part, first if dialect.signed_calls else None, dialect))
            signature = None
    text = "".join(texts)
    wire["content"] = text if text or not calls or dialect.empty_content == "empty" else None
    if thoughts:
        _set_thoughts(wire, thoughts, dialect)
    if dialect.thoughts_needed:
        wire.setdefault(dialect.reasoning_reply, " ")
    if signature and dialect.signed_calls:
        wire["extra_content"] = {"google": {"thought_signature": signature}}
    if calls:
        wire["tool_calls"] = calls
    if message.name:
        wire["name"] = _name(message.name)
    return wire


def _call(part: ToolCall, signature: str | None, dialect: Dialect) -> Wire:
    arguments = fitting.object_text(part.arguments, dialect.key_rule)
    function = {"name": fitting.fitted(part.name, dialect.name_rule), "arguments": arguments}
    call: Wire = {"id": fitting.fitted(part.id, dialect.id_rule), "type": "function", "function": function}
    if signature:
        call["extra_content"] = {"google": {"thought_signature": signature}}
    return call


def _set_thoughts(wire: Wire, thoughts: list[Thinking], dialect: Dialect) -> None:
    """Send thoughts back in the provider's field for them; providers without one refuse them."""
    field: str = dialect.reasoning_reply
    if field == "received":
        thoughts = [thought for thought in thoughts if thought.id in RECEIVED]
        field = RECEIVED[thoughts[0].id or ""] if thoughts else ""
    if field == "reasoning_details":
        details = details_of(thoughts)
        if details:
            wire[field] = details
            return
        field = "reasoning"
    if field == "content":
        spoken = wire.get("content")
        texts = [thought.text for thought in thoughts if thought.text]
        blocks = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in texts]
        if blocks:
            wire["content"] = [*blocks, {"type": "text", "text": spoken}] if spoken else blocks
    elif field:
        text = "".join([thought.text for thought in thoughts])
        if text:
            wire[field] = text


_FORMATS = {  # others are called as they are
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/pcm": "pcm16",
}


def _media_part(part: Image | Audio | File, dialect: Dialect) -> dict[str, Any]:
    if isinstance(part, Image):
        return _image(part)
    if isinstance(part, Audio):
        return _audio(part)
    return _file(part, dialect)


def _image(part: Image) -> dict[str, Any]:
    url = part.url if part.data is None else fitting.data_url(part.data, part.media_type)
    detail = {"detail": part.detail} if part.detail else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _audio(part: Audio) -> dict[str, Any]:
    if part.data is None:
        raise ConfigurationError("sound is sent as bytes on this wire; fetch it and pass Audio(data=...)")
    kind = _FORMATS.get(part.media_type, part.media_type.rpartition("/")[2])
    return {"type": "input_audio", "input_audio": {"data": part.data, "format": kind}}


def _file(part: File, dialect: Dialect) -> dict[str, Any]:
    if part.data is not None and part.media_type.startswith("text/"):
        title = f"{part.name}:\n" if part.name else ""
        return {"type": "text", "text": title + part.data.decode("utf-8", "replace")}
    if not dialect.files:
        raise ConfigurationError(
            f"{dialect.name} takes no documents; pass their text, or File(data=..., media_type='text/plain')"
        )
    if part.id is not None:
        return {"type": "file", "file": {"file_id": part.id}}
    data = part.url if part.data is None else fitting.data_url(part.data, part.media_type)
    if dialect.document_field:
        return {"type": dialect.document_field, dialect.document_field: data}
    name = part.name or "document" + _SUFFIXES.get(part.media_type, "")
    return {"type": "file", "file": {"filename": name, "file_data": data}}


_SUFFIXES = {"application/pdf": ".pdf", "application/json": ".json"}


def to_openai(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages as dictionaries, as OpenAI's Chat Completions and servers like it have them.

    `from_openai` is the way back. Thoughts have no place in them, nor has whether a tool failed.

    Raises:
        InvalidArguments: it is no list of messages.
    """
    if isinstance(messages, AgentRun):
        raise InvalidArguments("to_openai takes messages; got a run: pass run.messages")
    listed = tuple(messages) if isinstance(messages, Iterable) else (messages,)
    if not all(isinstance(each, Message) for each in listed):
        raise InvalidArguments(f"to_openai takes a list of messages; got {messages!r:.200}")
    dialect = msgspec.structs.replace(dialect_of("openai"), system_role="system")  # which other servers know, too
    fragments = filter(None, encode_conversation(ModelRequest(Transcript.of(*listed)), dialect))
    return msgspec.json.decode(b"[%b]" % b",".join(fragments), type=list[dict[str, Any]])

"""Write a request of the Messages API."""

import re
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.messages.limits import check_depth
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from ziggurat.messages.parts import Audio, File, Image, Part, Text, Thinking, ToolCall, ToolResult
from ziggurat.models.anthropic.blocks import CALLER, OPAQUE
from ziggurat.models.http.dialect import Dialect

_NAME = re.compile(r"claude-(?:([a-z]+)-)?(\d+)(?:[-.](\d{1,2})(?!\d))?(?:-([a-z]+))?")
_NEWEST = (99, 0)  # a name without a version counts as a new model


class ModelCapabilities(Struct, frozen=True, gc=False):
    """The differences between models."""

    longest: int | None
    thinking: Literal["", "budget", "effort"] = ""
    native_output: bool = False
    sampling: Literal["both", "one", "none"] = "both"
    inline_system: bool = False


@lru_cache(maxsize=256)
def capabilities(model: str) -> ModelCapabilities:
    """Return the capabilities of a model.

    >>> capabilities("claude-sonnet-4-5-20250929").longest
    64000
    """
    if "claude" not in model:
        return ModelCapabilities(None, "budget")
    family, version = _read(model)
    if version < (3, 7):
        return ModelCapabilities(8192 if version == (3, 5) else 4096)
    sampling: Literal["both", "one", "none"] = "both" if version < (4, 1) else "one" if version < (4, 7) else "none"
    return ModelCapabilities(
        _longest(family, version),
        "budget" if version < (4, 6) else "effort",
        version >= (4, 5),
        sampling,
        version >= (4, 8),
    )


def _longest(family: str, version: tuple[int, int]) -> int:
    if family == "opus":
        return 32000 if version < (4, 5) else 64000 if version < (4, 6) else 128000
    return 64000


def _read(model: str) -> tuple[str, tuple[int, int]]:
    match = _NAME.search(model)
    if match is None:
        old = model.startswith("claude-instant")
        return "", (1, 0) if old else _NEWEST
    before, major, minor, after = match.groups()
    return before or after or "", (int(major), int(minor or 0))


CACHE = "prompt_cache"
"""The extra setting that caches the prompt: ``True`` (five minutes), ``"5m"`` or ``"1h"``.

It sets a cache mark on the instructions (or the tools, if there are none), which later conversations share, and
requests a mark that moves along with the end of the conversation.
"""

FINAL_ANSWER = "final_answer"
"""The tool with which a model answers if it cannot enforce a schema on its text."""

_USUAL = 16000  # tokens; a much higher limit makes plain calls wait for minutes
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16000}
_LEAST_BUDGET = 1024
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
_encode = msgspec.json.Encoder().encode


def to_wire(request: ModelRequest, *, model: str, stream: bool, dialect: Dialect) -> bytes:
    """Write a request as the body of a call."""
    settings = request.settings
    can = capabilities(model)
    mark = _cache_mark(settings)
    body: dict[str, Any] = {**dialect.body, "model": model}
    tools = [_tool(tool) for tool in request.tools]
    choice = _choice(settings, bool(tools))
    if request.output is not None:
        choice = _enforce_schema(body, tools, choice, request.output, can)
    forced = choice is not None and choice["type"] in ("any", "tool")
    _put_limits(body, settings, can, longest=can.longest or dialect.max_tokens or 4096, forced=forced)
    system, messages = _conversation(request, can)
    if mark is not None:
        body["cache_control"] = mark
        for last in (system or tools)[-1:]:
            last["cache_control"] = mark
    if system:
        body["system"] = system[0]["text"] if len(system) == 1 and mark is None else system
    _put_tools(body, tools, choice, settings)
    if stream:
        body["stream"] = True
    _put_extra(body, settings)
    if "messages" not in body:
        body["messages"] = Raw(messages)
    return _encode(body)


# -- the conversation ------------------------------------------------------------------------------------------------


def _conversation(request: ModelRequest, can: ModelCapabilities) -> tuple[list[dict[str, Any]], bytes]:
    """Return the blocks of the system prompt, and the messages; consecutive ones of the same role are merged."""
    instructions = [request.instructions] if request.instructions else []
    turns: list[_Turn] = []
    last = ""
    inline = False
    messages = request.messages
    for message, written in zip(messages[:], messages.fragments("anthropic", encode_message), strict=True):
        role: str = message.role
        if role == "system":
            if not turns:
                instructions.append(message.text)
                continue
            inline = inline or can.inline_system
            role = "system" if can.inline_system else "user"
        elif role == "tool":
            role = "user"
        if written:
            if role != last:
                blocks: list[bytes] = []
                turns.append((role, blocks))
                last = role
            blocks.append(written)
    if inline:
        turns = _place_system(turns)
    pieces = [b'{"role":"%b","content":[%b]}' % (role.encode(), b",".join(blocks)) for role, blocks in turns]
    return [{"type": "text", "text": text} for text in instructions if text.strip()], b"[%b]" % b",".join(pieces)


_Turn = tuple[str, list[bytes]]


def _add(turns: list[_Turn], role: str, blocks: list[bytes]) -> None:
    if turns and turns[-1][0] == role:
        turns[-1][1].extend(blocks)
    else:
        turns.append((role, blocks))


def _place_system(turns: list[_Turn]) -> list[_Turn]:
    """Keep system messages between a user turn and a model turn, as the API requires; make others user messages."""
    placed: list[_Turn] = []
    for index, (role, blocks) in enumerate(turns):
        follows = turns[index + 1][0] if index + 1 < len(turns) else "assistant"
        fits = follows == "assistant" and bool(placed) and placed[-1][0] == "user"
        _add(placed, "user" if role == "system" and not fits else role, blocks)
    return placed


# -- tools and output ------------------------------------------------------------------------------------------------


def _tool(tool: ToolSpec) -> dict[str, Any]:
    wire = {"name": tool.name, "input_schema": tool.parameters}
    if tool.description:
        wire["description"] = tool.description
    return wire


def _choice(settings: ModelSettings, tools: bool) -> dict[str, Any] | None:
    setting = settings.tool_choice
    if not tools:
        return None
    choice: dict[str, Any] | None = None
    if setting in ("auto", "none"):
        choice = {"type": setting}
    elif setting == "required":
        choice = {"type": "any"}
    elif setting is not None:
        choice = {"type": "tool", "name": setting}
    if settings.parallel_tools is not None and setting != "none":
        choice = choice or {"type": "auto"}
        choice["disable_parallel_tool_use"] = not settings.parallel_tools
    return choice


def _enforce_schema(
    body: dict[str, Any],
    tools: list[dict[str, Any]],
    choice: dict[str, Any] | None,
    output: OutputSchema,
    can: ModelCapabilities,
) -> dict[str, Any] | None:
    """Enforce a schema, on the text if the model supports it, else with a tool for the answer; return the choice."""
    schema = strict_schema(output.schema) if can.native_output else None
    if schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": Raw(schema)}}
        return choice
    alone = not tools
    tools.append(
        {
            "name": FINAL_ANSWER,
            "description": f"Give the final answer, of the type {output.name}; call this when you are done.",
            "input_schema": output.schema,
        }
    )
    if choice is not None and choice["type"] == "tool":
        return choice
    return {"type": "tool", "name": FINAL_ANSWER} if alone else {**(choice or {}), "type": "any"}


def _put_tools(
    body: dict[str, Any], tools: list[dict[str, Any]], choice: dict[str, Any] | None, settings: ModelSettings
) -> None:
    tools = [*tools, *settings.extra.get("tools", ())]
    if tools:
        body["tools"] = tools
    if choice is not None:
        body["tool_choice"] = choice


# -- settings --------------------------------------------------------------------------------------------------------


def _put_limits(
    body: dict[str, Any], settings: ModelSettings, can: ModelCapabilities, *, longest: int, forced: bool
) -> None:
    """Set the longest reply, thinking and sampling, which depend on each other."""
    thinking = None if forced else _thinking(settings, can, longest)
    usual = min(longest, _USUAL)
    if thinking is not None:
        usual = min(longest, _USUAL + thinking.get("budget_tokens", _USUAL))
        body["thinking"] = thinking
        if can.thinking == "effort":
            body.setdefault("output_config", {})["effort"] = _EFFORTS[settings.reasoning or "high"]
    elif settings.reasoning == "none" and can.thinking:
        body["thinking"] = {"type": "disabled"}
    body["max_tokens"] = settings.max_tokens or usual
    if settings.stop:
        body["stop_sequences"] = settings.stop
    if can.sampling == "none":
        return
    temperature, top_p = settings.temperature, settings.top_p
    if temperature is not None and thinking is None:
        body["temperature"] = min(temperature, 1.0)
        if can.sampling == "one":
            return
    if top_p is not None and (thinking is None or top_p >= 0.95):
        body["top_p"] = top_p


def _thinking(settings: ModelSettings, can: ModelCapabilities, longest: int) -> dict[str, Any] | None:
    effort = settings.reasoning
    if effort in (None, "none") or not can.thinking:
        return None
    if can.thinking == "effort":
        return {"type": "adaptive", "display": "summarized"}
    limit = settings.max_tokens or longest
    budget = min(_BUDGETS[effort], limit * 3 // 4)  # the rest of the limit is for the answer
    return {"type": "enabled", "budget_tokens": budget} if budget >= _LEAST_BUDGET else None


def _cache_mark(settings: ModelSettings) -> dict[str, Any] | None:
    lifetime = settings.extra.get(CACHE)
    if lifetime in (None, False):
        return None
    if lifetime not in (True, "5m", "1h"):
        raise ConfigurationError(f"extra[{CACHE!r}] is True, '5m' or '1h'; got {lifetime!r}")
    return {"type": "ephemeral"} if lifetime is True else {"type": "ephemeral", "ttl": lifetime}


def _put_extra(body: dict[str, Any], settings: ModelSettings) -> None:
    for name, value in settings.extra.items():
        if name == "output_config" and isinstance(value, dict):
            body[name] = {**body.get(name, {}), **value}
        elif name not in (CACHE, "tools"):
            body[name] = value


_KEPT = frozenset({"type", "title", "description", "enum", "const", "default", "required", "$ref"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
_MAPS = ("properties", "$defs", "definitions")
_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_DROPPED = frozenset({"$schema", "$id", "$comment", "additionalProperties", "discriminator", "examples"})


class _Inexpressible(Exception):
    """Raised for a schema that the subset cannot express."""


def strict_schema(schema: dict[str, Any]) -> bytes | None:
    """Return a schema in the API's subset, as JSON; None if the subset cannot express it (open objects, recursion)."""
    return _strict(msgspec.json.encode(schema))


@lru_cache(maxsize=128)
def _strict(written: bytes) -> bytes | None:
    schema = msgspec.json.decode(written)
    try:
        _refuse_circles(schema)
        return msgspec.json.encode(_node(schema))
    except (_Inexpressible, RecursionError):
        return None


def _node(node: Any) -> dict[str, Any]:
    if not isinstance(node, dict) or not node:
        raise _Inexpressible  # true or {}, which accept anything
    closed: dict[str, Any] = {}
    constraints: list[str] = []
    for name, value in node.items():
        if name in _MAPS:
            closed[name] = {key: _node(each) for key, each in value.items()}
        elif name in _LISTS:
            closed[_LISTS[name]] = [_node(each) for each in value]
        elif name == "items":
            closed[name] = _node(value)
        elif name in _KEPT or (name == "format" and value in _FORMATS) or (name == "minItems" and value in (0, 1)):
            closed[name] = value
        elif name not in _DROPPED:
            constraints.append(f"{name}: {msgspec.json.encode(value).decode()}")
    if "properties" in node or node.get("type") == "object":
        _close(node, closed)
    if constraints:
        closed["description"] = " ".join(filter(None, (node.get("description"), f"({', '.join(constraints)})")))
    return closed


def _close(node: dict[str, Any], closed: dict[str, Any]) -> None:
    """Set `additionalProperties` of an object to false, or raise if the object must allow others."""
    others = node.get("additionalProperties")
    if isinstance(others, dict) or (others is not False and not node.get("properties")):
        raise _Inexpressible
    closed.setdefault("type", "object")
    closed["additionalProperties"] = False


def _refuse_circles(schema: dict[str, Any]) -> None:
    definitions = {**schema.get("$defs", {}), **schema.get("definitions", {})}

    def walk(node: Any, within: tuple[str, ...]) -> None:
        if isinstance(node, list):
            for each in node:
                walk(each, within)
        elif isinstance(node, dict):
            for name, value in node.items():
                if name == "$ref":
                    target = str(value).rpartition("/")[2]
                    if target in within or target not in definitions:
                        raise _Inexpressible
                    walk(definitions[target], (*within, target))
                elif name not in ("$defs", "definitions", "enum", "const", "default"):
                    walk(value, within)

    walk(schema, ())


_ID = re.compile(r"[A-Za-z0-9_-]+")
_NOT_ID = re.compile(r"[^A-Za-z0-9_-]")
_object = msgspec.json.Decoder(dict[str, Raw])


def encode_message(message: Message) -> bytes:
    """Write a message as content blocks separated by commas; empty if none of it can be sent."""
    return b",".join(map(_encode, _blocks_of(message)))


def _blocks_of(message: Message) -> list[Any]:
    # Blank texts, thoughts from other providers, and thoughts at the end of a reply are left out, because the API
    # accepts none of them.
    blocks: list[Any] = []
    caller: Raw | None = None
    for part in message.parts:
        block = _block(part)
        if isinstance(part, Thinking) and part.id == CALLER:
            caller = block
            continue
        if caller is not None and isinstance(part, ToolCall):
            block["caller"] = caller
        caller = None
        if block is not None:
            blocks.append(block)
    if message.role == "assistant":
        while blocks and isinstance(blocks[-1], dict) and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            blocks.pop()
    return blocks


def _block(part: Part) -> Any:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if isinstance(part, ToolCall):
        return {"type": "tool_use", "id": _id(part.id), "name": part.name, "input": _input(part.arguments)}
    if isinstance(part, ToolResult):
        return _result(part)
    if isinstance(part, Thinking):
        return _thought(part)
    return _media(part)


def _thought(part: Thinking) -> Any:
    if part.id is not None:
        return Raw((part.redacted or "").encode()) if part.id.startswith(OPAQUE) else None
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    if part.signature is not None:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None


def _id(call_id: str) -> str:
    """Return an id with only the characters that the API allows; other providers' ids may have more."""
    return call_id if _ID.fullmatch(call_id) else _NOT_ID.sub("_", call_id) or "call"


def _input(arguments: str) -> Any:
    """Return arguments unchanged if they are an object; otherwise wrapped in one, as the API requires."""
    written = arguments or "{}"
    try:
        check_depth(written)
        _object.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return {"invalid_arguments": arguments}
    return Raw(written.encode())


def _result(part: ToolResult) -> dict[str, Any]:
    content: Any = part.content
    if not isinstance(content, str):
        content = [block for each in content if (block := _block(each)) is not None]
    block = {"type": "tool_result", "tool_use_id": _id(part.id), "content": content}
    if part.error is not None:
        block["is_error"] = True
    return block


def _media(part: Image | Audio | File) -> dict[str, Any]:
    if isinstance(part, Audio):
        raise ModelError("Anthropic's models take no audio; send its transcript as text", kind="invalid_request")
    picture = isinstance(part, Image) or part.media_type.startswith("image/")
    block = {"type": "image" if picture else "document", "source": _source(part, picture)}
    if isinstance(part, File) and part.name and not picture:
        block["title"] = part.name
    return block


def _source(part: Image | File, picture: bool) -> dict[str, Any]:
    if isinstance(part, File) and part.id is not None:
        return {"type": "file", "file_id": part.id}
    if part.data is not None:
        media = part.media_type
        if picture or media == "application/pdf":
            return {"type": "base64", "media_type": media, "data": part.data}
        return {"type": "text", "media_type": "text/plain", "data": _plain(part.data, media)}
    if not part.url:
        raise ModelError("a picture or document needs its data, a url or a file id", kind="invalid_request")
    if part.url.startswith("data:"):
        head, _, data = part.url[5:].partition(",")
        return {"type": "base64", "media_type": head.partition(";")[0] or part.media_type, "data": data}
    return {"type": "url", "url": part.url}


def _plain(data: bytes, media_type: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(
            f"Anthropic's models read PDF, text and pictures, not {media_type!r}; convert the document, or upload it "
            "and send its file id",
            kind="invalid_request",
        ) from None

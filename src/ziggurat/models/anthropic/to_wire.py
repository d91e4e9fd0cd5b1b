"""Write a request of the Messages API."""

import functools
import re
from typing import Any, Literal

import msgspec

from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.messages.message import Audio, File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from ziggurat.messages.model import FINAL_ANSWER, ModelRequest, ModelSettings, OutputSchema, ToolSpec
from ziggurat.models.anthropic.from_wire import CALLER, OPAQUE
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.fitting import encoded, fitted, fitted_parameters, object_text, to_json
from ziggurat.models.http.strict import strict_schema

CACHE = "prompt_cache"
"""The extra setting that caches the prompt: ``True`` (five minutes), ``"5m"`` or ``"1h"``."""
# It sets a cache mark on the instructions (or the tools, if there are none), which later conversations share, and
# requests a mark that moves along with the end of the conversation.

_USUAL = 16000  # tokens; a much higher limit makes plain calls wait for minutes
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16000}
_LEAST_BUDGET = 1024
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}


_NAME = re.compile(r"claude-(?:([a-z]+)-)?(\d+)(?:[-.](\d{1,2})(?!\d))?(?:-([a-z]+))?")
_NEWEST = (99, 0)  # a name without a version counts as a new model


class ModelCapabilities(msgspec.Struct, frozen=True, gc=False):
    longest: int | None
    thinking: Literal["", "budget", "effort"] = ""
    native_output: bool = False
    sampling: Literal["both", "one", "none"] = "both"


@functools.lru_cache(maxsize=256)
def capabilities(model: str) -> ModelCapabilities:
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


def to_wire(request: ModelRequest, *, model: str, stream: bool, dialect: Dialect) -> bytes:
    settings = request.settings
    can = capabilities(model)
    mark = _cache_mark(settings)
    body: dict[str, Any] = {**dialect.body, "model": model}
    tools = [_tool(tool, dialect) for tool in request.tools]
    choice = _choice(settings, bool(tools), dialect)
    if request.output is not None:
        choice = _enforce_schema(body, tools, choice, request.output, can, dialect)
    forced = choice is not None and choice["type"] in ("any", "tool")
    if can.thinking == "budget" and _goes_on_without_thoughts(request):
        forced = True  # thinking cannot begin among the calls of a turn
    _put_limits(body, settings, can, longest=can.longest or 4096, forced=forced)
    system, messages = _conversation(request, dialect)
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
        body["messages"] = msgspec.Raw(messages)
    return to_json(body)


# -- the conversation ------------------------------------------------------------------------------------------------


def _conversation(request: ModelRequest, dialect: Dialect) -> tuple[list[dict[str, Any]], bytes]:
    """Return the blocks of the system prompt, and the messages; consecutive ones of the same role are merged."""
    instructions = [request.instructions] if request.instructions else []
    turns: list[tuple[str, list[bytes]]] = []
    encode = functools.partial(encode_message, dialect=dialect)
    form = (dialect.id_rule, dialect.name_rule, dialect.key_rule)
    fragments = encoded(request.messages, f"anthropic {form}", encode, strips_end=True)
    for message, written in zip(request.messages, fragments, strict=True):
        if message.role == "system" and not turns:
            instructions.append(message.text)
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if written and turns and turns[-1][0] == role:
            turns[-1][1].append(written)
        elif written:
            turns.append((role, [written]))
    if turns and turns[0][0] == "assistant":
        turns.insert(0, ("user", [_BEGIN]))
    pieces = [b'{"role":"%b","content":[%b]}' % (role.encode(), b",".join(blocks)) for role, blocks in turns]
    return [{"type": "text", "text": text} for text in instructions if text.strip()], b"[%b]" % b",".join(pieces)


def _goes_on_without_thoughts(request: ModelRequest) -> bool:
    """Return whether the last message of the model makes calls without a thought of this API, as of another model."""
    last = next((message for message in reversed(request.messages[:]) if message.role == "assistant"), None)
    if last is None or not last.tool_calls:
        return False
    return not isinstance(last.parts[0], Thinking) or _thought(last.parts[0]) is None


_BEGIN = b'{"type":"text","text":"Begin."}'  # what a user says before a model that begins a conversation


# -- tools and output ------------------------------------------------------------------------------------------------


def _tool(tool: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "name": fitted(tool.name, dialect.name_rule),
        "input_schema": fitted_parameters(tool.parameters, dialect.key_rule),
    }
    if tool.description:
        wire["description"] = tool.description
    return wire


def _choice(settings: ModelSettings, tools: bool, dialect: Dialect) -> dict[str, Any] | None:
    setting = settings.tool_choice
    if not tools:
        return None
    choice: dict[str, Any] | None = None
    if setting in ("auto", "none"):
        choice = {"type": setting}
    elif setting == "required":
        choice = {"type": "any"}
    elif setting is not None:
        choice = {"type": "tool", "name": fitted(setting, dialect.name_rule)}
    if settings.parallel_tool_calls is not None and setting != "none":
        choice = choice or {"type": "auto"}
        choice["disable_parallel_tool_use"] = not settings.parallel_tool_calls
    return choice


def _enforce_schema(
    body: dict[str, Any],
    tools: list[dict[str, Any]],
    choice: dict[str, Any] | None,
    output: OutputSchema,
    can: ModelCapabilities,
    dialect: Dialect,
) -> dict[str, Any] | None:
    """Enforce a schema, on the text if the model supports it, else with a tool for the answer; return the choice."""
    schema = strict_schema(output.schema) if can.native_output else None
    if schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": msgspec.Raw(schema)}}
        return choice
    alone = not tools
    tools.append(
        {
            "name": FINAL_ANSWER,
            "description": f"Give the final answer, of the type {output.name}; call this when you are done.",
            "input_schema": fitted_parameters(output.schema, dialect.key_rule),
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


def encode_message(message: Message, dialect: Dialect) -> bytes:
    return b",".join(map(to_json, _blocks_of(message, dialect)))


def _blocks_of(message: Message, dialect: Dialect) -> list[Any]:
    # Blank texts, thoughts from other providers, and thoughts at the end of a reply are left out, because the API
    # accepts none of them.
    blocks: list[Any] = []
    caller: msgspec.Raw | None = None
    for part in message.parts:
        block = _block(part, dialect)
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


def _block(part: Part, dialect: Dialect) -> Any:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if isinstance(part, ToolCall):
        arguments = msgspec.Raw(object_text(part.arguments, dialect.key_rule).encode())
        name, call_id = fitted(part.name, dialect.name_rule), fitted(part.id, dialect.id_rule)
        return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    if isinstance(part, ToolResult):
        return _result(part, dialect)
    if isinstance(part, Thinking):
        return _thought(part)
    return _media(part)


def _thought(part: Thinking) -> Any:
    if part.id is not None:
        return msgspec.Raw((part.redacted or "").encode()) if part.id.startswith(OPAQUE) else None
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    if part.signature is not None:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None


def _result(part: ToolResult, dialect: Dialect) -> dict[str, Any]:
    content: Any = part.content
    if not isinstance(content, str):
        content = [block for each in content if (block := _block(each, dialect)) is not None]
    block = {"type": "tool_result", "tool_use_id": fitted(part.id, dialect.id_rule), "content": content}
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
    url = part.url or ""
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        return {"type": "base64", "media_type": head.partition(";")[0] or part.media_type, "data": data}
    return {"type": "url", "url": url}


def _plain(data: bytes, media_type: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(
            f"Anthropic's models read PDF, text and pictures, not {media_type!r}; convert the document, or upload it "
            "and send its file id",
            kind="invalid_request",
        ) from None

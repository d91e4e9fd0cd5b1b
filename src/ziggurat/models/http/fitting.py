"""Fit what is said to the rules of a provider, and map its reply back.

A conversation may hold calls that another model wrote: names that are no names, ids in another form, arguments that are
no JSON. The record keeps them as they are. A request has them in a form that its provider accepts, always the same one;
names that a provider refuses of tools and parameters are mapped back in its reply.
"""

import re
from base64 import b32encode, b64encode
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ziggurat.messages.arguments import text_left_out
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message, Part, PartDelta, Text, ToolCall, ToolCallDelta, ToolResult, decoded
from ziggurat.messages.model import FINAL_ANSWER, ModelRequest, ModelResponse, ModelSettings, ToolSpec
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.stated import whole
from ziggurat.models.http.strict import OPENAI, strict_schema

_REFUSED = re.compile(r"[^A-Za-z0-9_-]")
_encode = msgspec.json.Encoder().encode


def to_json(value: Any) -> bytes:
    """Return JSON; lone surrogates, which UTF-8 cannot encode, become question marks."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(whole(value))


def fitted(text: str, rule: str) -> str:
    """Return a text that a rule accepts: itself, or one made of its beginning and a digest of all of it."""
    if re.fullmatch(rule, text):
        return text
    start = _REFUSED.sub("_", text[:24])
    mark = b32encode(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).digest())[:9].decode()
    return next(each for each in (f"{start}_{mark}", f"_{start}_{mark}", mark) if re.fullmatch(rule, each))


def data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{b64encode(data).decode()}"


def is_object(arguments: str) -> bool:
    return isinstance(decoded(arguments, dict[str, Raw]), dict)


def object_text(arguments: str, key_rule: str = "") -> str:
    """Return the text of a JSON object: the arguments of a call if they are one, otherwise one that holds them."""
    if not arguments.strip():
        return "{}"
    fields = decoded(arguments, dict[str, Raw])
    if isinstance(fields, str):
        return to_json({"invalid_arguments": arguments}).decode()
    if not key_rule or all(re.fullmatch(key_rule, key) for key in fields):
        return arguments
    return _encode({fitted(key, key_rule): value for key, value in fields.items()}).decode()


def fitted_parameters(schema: dict[str, Any], key_rule: str) -> dict[str, Any]:
    properties = schema.get("properties")
    if not key_rule or not properties or all(re.fullmatch(key_rule, key) for key in properties):
        return schema
    return {
        **schema,
        "properties": {fitted(key, key_rule): value for key, value in properties.items()},
        "required": [fitted(key, key_rule) for key in schema.get("required", ())],
    }


def offered(schema: dict[str, Any], dialect: Dialect) -> tuple[Any, bool]:
    """Return a schema as a provider is sent it, and whether it enforces it strictly."""
    made = strict_schema(schema, OPENAI) if dialect.strict_tools else None
    if made is None:
        return schema, False
    return (Raw(made), True) if dialect.makes_strict else (schema, msgspec.json.decode(made) == schema)


def sampling(settings: ModelSettings, dialect: Dialect) -> dict[str, Any]:
    fields = (
        ("temperature", settings.temperature),
        ("top_p", settings.top_p),
        (dialect.max_tokens_field, settings.max_tokens),
        ("stop", list(settings.stop) or None),
        (dialect.seed_field, settings.seed),
    )
    return {name: value for name, value in fields if name and value is not None}


class Names:
    """The names of the tools and parameters of a request, for a provider that refuses some of them."""

    def __init__(self, request: ModelRequest, dialect: Dialect) -> None:
        self._dialect = dialect
        self._maps = bool(dialect.key_rule or dialect.makes_strict or dialect.name_rule != Dialect.name_rule)
        self._tools = {fitted(tool.name, dialect.name_rule): tool for tool in request.tools if self._maps}
        if request.output is not None:
            self._tools.setdefault(FINAL_ANSWER, ToolSpec(FINAL_ANSWER, parameters=request.output.schema))
        self._keys = {made: key for tool in self._tools.values() for made, key in _keys_of(tool, dialect).items()}
        self._held: dict[int, str] = {}

    def restored(self, response: ModelResponse) -> ModelResponse:
        if not self._maps or not response.message.tool_calls:
            return response
        parts = tuple(map(self._restored, response.message.parts))
        if parts == response.message.parts:
            return response
        return replace(response, message=replace(response.message, parts=parts))

    def _restored(self, part: Part) -> Part:
        tool = self._tools.get(part.name) if isinstance(part, ToolCall) else None
        if tool is None or not isinstance(part, ToolCall):
            return part
        arguments = part.arguments
        if self._dialect.makes_strict and offered(tool.parameters, self._dialect)[1]:
            arguments = text_left_out(arguments, tool.parameters)
        return ToolCall(part.id, tool.name, _with_keys(arguments, _keys_of(tool, self._dialect)))

    def shown(self, delta: PartDelta) -> PartDelta:
        """Return a piece of a call with the names that it means; the beginning of one waits for the next piece."""
        if not self._maps or not isinstance(delta, ToolCallDelta):
            return delta
        text = _with_keys(self._held.pop(delta.index, "") + delta.arguments, self._keys)
        begun = max((n for made in self._keys for n in range(len(made)) if text.endswith(made[:n])), default=0)
        self._held[delta.index] = text[len(text) - begun :]
        tool = self._tools.get(delta.name)
        name = delta.name if tool is None else tool.name
        return ToolCallDelta(delta.index, text[: len(text) - begun], delta.id, name)


def _keys_of(tool: ToolSpec, dialect: Dialect) -> dict[str, str]:
    """Return the keys of a tool's parameters in JSON, by what a provider has in their place."""
    keys = tool.parameters.get("properties") or () if dialect.key_rule else ()
    made = {key: fitted(key, dialect.key_rule) for key in keys}
    return {f'"{made[key]}"': to_json(key).decode() for key in keys if made[key] != key}


def _with_keys(text: str, keys: dict[str, str]) -> str:
    for made, key in keys.items():  # no other text has the digest of a key in it
        text = text.replace(made, key)
    return text


class OwnIds:
    """The messages of a conversation, in which a call that repeats an id, and its result, have an id of their own."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._times: dict[str, int] = {}
        self._repeated: dict[str, list[str]] = {}  # the ids for the last calls and their results, by the id they had

    def follow(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages; of those that were returned before, only the new ones are read."""
        self._messages.extend(map(self._with_own_ids, messages[len(self._messages) :]))
        return self._messages

    def _with_own_ids(self, message: Message) -> Message:
        if message.role == "assistant":
            given: dict[str, list[str]] = {}
            for call in message.tool_calls:
                self._times[call.id] = number = self._times.get(call.id, 0) + 1
                given.setdefault(call.id, []).append(call.id if number == 1 else f"{call.id}#{number}")
            self._repeated = {key: each for key, each in given.items() if each != [key]}
        repeated = self._repeated
        if not any(isinstance(part, (ToolCall, ToolResult)) and part.id in repeated for part in message.parts):
            return message
        left = {key: [*each] for key, each in repeated.items()} if message.role == "assistant" else repeated
        return replace(message, parts=tuple([_with_own_id(part, left) for part in message.parts]))


def _with_own_id(part: Part, ids: dict[str, list[str]]) -> Part:
    if not isinstance(part, (ToolCall, ToolResult)) or part.id not in ids:
        return part
    left = ids[part.id]
    return replace(part, id=left.pop(0) if len(left) > 1 else left[0])


def encoded(
    messages: Transcript, form: str, encode: Callable[[Message], bytes], *, strips_end: bool = False
) -> list[bytes]:
    """Return messages in a form, in which each is encoded once in a run; those that need it are changed before."""
    fitting = messages.note("own ids", OwnIds).follow(messages)
    fragments = messages.fragments(form, encode, fitting)
    if strips_end and messages and (end := without_end(fitting[len(messages) - 1])):
        return [*fragments[:-1], encode(end)]
    return fragments


def without_end(message: Message) -> Message | None:
    """Return a message that the model is to continue without the spaces at its end; None for any other."""
    text = message.parts[-1] if message.role == "assistant" and message.parts else None
    if not isinstance(text, Text):
        return None
    return replace(message, parts=(*message.parts[:-1], Text(text.text.rstrip())))

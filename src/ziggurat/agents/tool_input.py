"""The input of an agent that is called as a tool: one text, or a typed value that travels as text."""

from collections.abc import Callable
from functools import partial
from inspect import isroutine
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.core import codec
from ziggurat.core.codec import canonical, encode
from ziggurat.core.context import Key
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.service import Fact
from ziggurat.tools.arguments import listing, read
from ziggurat.tools.parameter import Parameter
from ziggurat.tools.signature import Signature

AGENT_INPUT: Key[Any] = Key("agent input")
"""The key of the input of an agent that was called as a tool: ``ctx.scope[AGENT_INPUT]`` is a value of its input type.

For its instructions, tools and hooks.
"""


TOOL_INPUT: Fact[Callable[[], Any] | None] = Fact("tool input", None)
"""Returns the `input_type` with which a flow becomes a tool; None for what has a conversation."""


class ToolInput(Struct, frozen=True, eq=False):
    schema: dict[str, Any]
    value: Callable[[str], Any]
    normal: Callable[[str], str]
    prompt: Callable[[str], str]


class _Text(Struct, forbid_unknown_fields=True):
    input: str


_text_decoder = codec.decoder(_Text)


def input_of(kind: Any, name: str) -> ToolInput:
    if kind is None:
        return _input_as_text(name)
    return _input_of_function(kind) if isroutine(kind) or isinstance(kind, partial) else _input_of_type(kind)


def _input_as_text(name: str) -> ToolInput:

    def value(arguments: str) -> str:
        try:
            text = _text_decoder.decode(arguments).input
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments(f"{name} takes one text named input: {error}") from error
        if not text.strip():
            raise InvalidArguments(f"{name} was given nothing to do: its input is empty")
        return text

    schema = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "What it should do, in full."}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return ToolInput(schema, value, lambda text: encode({"input": value(text)}).decode(), value)


def _input_of_type(kind: Any) -> ToolInput:
    parameter = Parameter.of("input", kind, required=True)
    schema = parameter.root
    if schema.get("type") != "object":
        raise ConfigurationError(
            f"an agent's input is an object with named fields (a Struct, dataclass, TypedDict or pydantic model); got "
            f"{kind!r}"
        )

    def value(arguments: str) -> Any:
        try:
            return parameter.convert(read(arguments))
        except InvalidArguments:
            raise
        except ValueError as error:  # Problem
            raise InvalidArguments(listing([str(error)])) from error

    def normal(arguments: str) -> str:
        return canonical(parameter.recorded(value(arguments), read(arguments))).decode()

    return ToolInput(schema, value, normal, lambda text: text)


def _input_of_function(function: Callable[..., object]) -> ToolInput:
    signature = Signature.of(function)
    return ToolInput(signature.parameters, signature.decode, signature.normalize, lambda text: text)

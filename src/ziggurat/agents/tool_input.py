"""The input of an agent that is called as a tool, and of a flow: one text, or a typed value that travels as text."""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import isroutine
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.core.codec import canonical, digest, encode
from ziggurat.core.context import Context, Key
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.path import check_new_name
from ziggurat.core.service import Fact
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.message import Message
from ziggurat.tools.arguments import listing, read
from ziggurat.tools.parameter import Parameter
from ziggurat.tools.signature import Signature

AGENT_INPUT: Key[Any] = Key("agent input")
"""The input of the agent that was called as a tool, as a value of its type; for its instructions, tools and hooks."""


TOOL_INPUT: Fact[Callable[[], Any] | None] = Fact("tool input", None)
"""Returns the `input_type` with which a flow becomes a tool; None for what has a conversation."""


class ToolInput(Struct, frozen=True, eq=False):
    """How the arguments of a model's call become the input of an agent."""

    schema: dict[str, Any]
    value: Callable[[str], Any]
    normal: Callable[[str], str]
    prompt: Callable[[str], str]


class _Text(Struct, forbid_unknown_fields=True):
    input: str


_text_decoder = msgspec.json.Decoder(_Text)


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


class FlowInput(Struct, frozen=True, eq=False):
    kind: Any
    parameter: Parameter

    @classmethod
    def of(cls, names: list[str], hints: Mapping[str, Any], title: str) -> "tuple[FlowInput, str | None]":
        """Return the input among the parameters, and the name of the one for the Context, if there is one."""
        check_new_name(title, "the name of a flow")
        context = next((each for each in names if hints.get(each) is Context), None)
        inputs = [each for each in names if each != context]
        if len(inputs) > 1:
            raise ConfigurationError(
                f"the flow {title} takes one input, got {', '.join(inputs)}: put them into one Struct or dataclass"
            )
        if inputs and inputs[0] not in hints:
            raise ConfigurationError(f"the input {inputs[0]!r} of the flow {title} needs an annotation")
        kind = hints[inputs[0]] if inputs else None
        return cls(kind, Parameter.of(inputs[0] if inputs else "input", kind, required=True)), context

    @property
    def digest(self) -> str:
        """A digest of its schema, which differs when the type has changed."""
        return digest(self.parameter.schema)[:8]

    def prompt(self, value: object, arguments: Mapping[str, Any]) -> str | Message | None:
        """Return the prompt for an input; None if a recorded run is continued."""
        if value is None and self.kind is not None and arguments.get("run_id") is not None:
            return None
        if value is None and (arguments.get("decisions") or arguments.get("strict")):
            return None
        if isinstance(value, Message):
            return value
        if self.kind is str:
            if not isinstance(value, str):
                raise ConfigurationError(f"the flow takes text, got {value!r:.200}")
            return value
        try:
            if isinstance(value, str):
                accepted = read(value)
                plain = self.parameter.recorded(self.parameter.convert(accepted), accepted)
            else:
                plain = self.parameter.given(value)
        except (TypeError, ValueError, ConfigurationError) as error:  # ValueError: Problem, InvalidArguments
            instead = f"pass {self.parameter.name} as a value of its type, or as JSON text"
            if self.kind is None:
                instead = "it takes no input"
            raise ConfigurationError(f"the input of the flow does not fit: {error}; {instead}") from error
        return canonical(plain).decode()

    def value(self, request: AgentRequest) -> Any:
        text = request.messages[-1].text
        return text if self.kind is str else self._decode(text)

    def _decode(self, text: str) -> Any:
        try:
            return self.parameter.revive(read(text))
        except InvalidArguments:
            raise
        except ValueError as error:  # Problem
            raise InvalidArguments(str(error)) from error

    def tool_input(self, name: str) -> Any:
        if self.kind is str:
            return None
        if self.parameter.root.get("type") != "object":
            raise ConfigurationError(
                f"the flow {name} cannot be a tool as it is: the input of a tool is text or an object (a Struct, "
                "dataclass, TypedDict or pydantic model)"
            )
        return self.kind

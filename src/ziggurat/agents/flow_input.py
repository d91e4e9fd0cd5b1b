"""The input of a flow: one typed value, which travels as the text of a message."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ziggurat.core.codec import canonical, digest
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.message import Message, user
from ziggurat.runs.prompt import Prompt
from ziggurat.tools.arguments import read
from ziggurat.tools.parameter import Parameter


class FlowInput(Struct, frozen=True, eq=False):
    """What a flow takes."""

    kind: Any
    parameter: Parameter

    @classmethod
    def of(cls, function: Callable[..., Any], hints: Mapping[str, Any], title: str) -> "tuple[FlowInput, str | None]":
        """Return what a function takes, and the name of its parameter for the Context, if it has one."""
        names = list(inspect.signature(function).parameters)
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

    def prompt(self, value: object, arguments: Mapping[str, Any]) -> Prompt | None:
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
                value = self._decode(value)
            plain = self.parameter.plain(value)
            self.parameter.restore(plain)
        except (TypeError, ValueError) as error:  # ValueError: Problem, InvalidArguments
            instead = f"pass {self.parameter.name} as a value of its type, or as JSON text"
            if self.kind is None:
                instead = "it takes no input"
            raise ConfigurationError(f"the input of the flow does not fit: {error}; {instead}") from error
        return user(canonical(plain).decode())

    def value(self, request: AgentRequest) -> Any:
        """Return the input in a request."""
        text = request.messages[-1].text
        return text if self.kind is str else self._decode(text)

    def _decode(self, text: str) -> Any:
        try:
            return self.parameter.convert(read(text))
        except InvalidArguments:
            raise
        except ValueError as error:  # Problem
            raise InvalidArguments(str(error)) from error

    def tool_input(self, name: str) -> Any:
        """Return the type of input as `AgentTool` takes it."""
        if self.kind is str:
            return None
        if self.parameter.schema.get("type") != "object":
            raise ConfigurationError(
                f"the flow {name} cannot be a tool as it is: the input of a tool is text or an object (a Struct, "
                "dataclass, TypedDict or pydantic model)"
            )
        return self.kind

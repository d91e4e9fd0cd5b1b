"""Output: the type of an agent's answer; how a model is asked for it, and how the answer is read and checked."""

import typing
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic

import msgspec
from msgspec import Struct

from ziggurat.core import codec
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.service import fact
from ziggurat.core.settings import CheckedStruct, NonNegativeInt
from ziggurat.messages.agent import Out
from ziggurat.messages.arguments import MAX_ARGUMENTS, text_left_out
from ziggurat.messages.middleware import ParsedAnswer
from ziggurat.messages.model import FINAL_ANSWER, OUTPUT_MODES, OutputMode, OutputSchema, ToolSpec
from ziggurat.tools.arguments import listing, read
from ziggurat.tools.parameter import Parameter, Problem, read_back
from ziggurat.tools.type_parts import alternatives

if TYPE_CHECKING:
    from typing_extensions import TypeForm


class Output(CheckedStruct, Generic[Out], frozen=True, eq=False):
    """The type of an agent's answers, with settings::

        agent = Agent(model, output=Output(City, mode="prompted", retries=4))

    Attributes:
        kind: The type.
        mode: How the model is asked for it: ``"native"``, ``"tool"`` or ``"prompted"``; by default in the first mode
            that the model supports.
        retries: How often the model is asked again when its answer does not fit.
    """

    if TYPE_CHECKING:
        kind: TypeForm[Out]
    else:
        kind: Any
    mode: OutputMode | None = None
    retries: NonNegativeInt = 2


if TYPE_CHECKING:
    OutputOf: typing.TypeAlias = Output[Out] | Sequence[type[Out]] | TypeForm[Out]


class AnswerReader(Struct, frozen=True, eq=False):
    kind: Any
    mode: OutputMode
    schema: dict[str, Any]
    wrapped: bool
    retries: int
    parameter: Parameter

    @classmethod
    def of(cls, output: Any, model: object) -> "AnswerReader":
        chosen = output if isinstance(output, Output) else Output(output)
        kind = _one_of(chosen.kind)
        modes = fact(model, OUTPUT_MODES)
        if chosen.mode is not None and chosen.mode not in modes:
            raise ConfigurationError(
                f"the model {model!r} cannot give its output by {chosen.mode!r}; it can by {modes}"
            )
        parameter = Parameter.of("answer", kind, required=True)
        schema = dict(parameter.root)
        wrapped = schema.get("type") != "object"
        if wrapped:
            parameter = Parameter.of("value", kind, required=True)
            schema = dict(parameter.schema)
            definitions = schema.pop("$defs", None)
            schema = {
                "type": "object",
                "properties": {"value": schema},
                "required": ["value"],
                "additionalProperties": False,
            }
            if definitions is not None:
                schema["$defs"] = definitions
        return cls(kind, chosen.mode or modes[0], schema, wrapped, chosen.retries, parameter)

    @property
    def name(self) -> str:
        return str(getattr(self.kind, "__name__", "answer"))

    @property
    def value_schema(self) -> dict[str, Any]:
        value: dict[str, Any] = self.schema["properties"]["value"] if self.wrapped else self.schema
        return value

    def native(self) -> OutputSchema | None:
        return OutputSchema(self.name, self.schema) if self.mode == "native" else None

    def tool(self) -> ToolSpec | None:
        if self.mode != "tool":
            return None
        return ToolSpec(FINAL_ANSWER, "Give the final answer; call this when you are done.", self.schema, "none")

    def instructions(self) -> str | None:
        if self.mode != "prompted":
            return None
        schema = msgspec.json.encode(self.schema).decode()
        return f"Answer with one JSON object that fits this JSON Schema, and nothing else:\n{schema}"

    def read(self, text: str) -> ParsedAnswer:
        body = text_left_out(_json_in(text), self.schema)
        try:
            value = read(body)
            return self._unwrapped(value, text) if self.wrapped else ParsedAnswer(self.parameter.convert(value), value)
        except ValueError as error:  # Problem, InvalidArguments
            problems = listing([self._refusal(body) or str(error)])
            members = " or ".join(getattr(each, "__name__", str(each)) for each in alternatives(self.kind))
            form = ' (its form is {"value": ...})' if self.wrapped else ""
            raise InvalidArguments(
                f"the answer does not fit the type {members or self.name}{form}: {problems}"
            ) from error

    def _unwrapped(self, value: Any, text: str) -> ParsedAnswer:
        """Return the value within its object; an object that fits the type, and is no part of a list, is the value."""
        try:
            if not isinstance(value, dict) or "value" not in value:
                raise Problem("value: missing (required)")
            return ParsedAnswer(self.parameter.convert(value["value"]), value["value"])
        except Problem:
            if isinstance(value, dict) and "[" not in text.partition("{")[0]:
                with suppress(Problem):
                    return ParsedAnswer(self.parameter.exactly(value), value)
            raise

    def _refusal(self, body: str) -> str | None:
        """Return the decoder's own words if msgspec alone reads the type: they stand in requests on record."""
        if self.parameter.check is not None or len(body) > MAX_ARGUMENTS:
            return None
        kind = msgspec.defstruct("Answer", [("value", self.kind)]) if self.wrapped else self.kind
        try:
            codec.decoder(kind, strict=False, dec_hook=read_back).decode(body)
        except (ValueError, RecursionError) as error:
            return str(error)
        return None


def _one_of(kind: Any) -> Any:
    if not isinstance(kind, (list, tuple)):
        return kind
    if not kind:
        raise ConfigurationError(
            "output=[] has no types: list those of which the answer is one, as in output=[City, Town]"
        )
    return typing.Union[tuple(kind)]  # noqa: UP007 - made at run time


def _json_in(text: str) -> str:
    """Return the JSON in a text that may have words or a code fence around it."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text

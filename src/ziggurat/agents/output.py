"""Output: the type of an agent's answer; how a model is asked for it, and how the answer is read and checked."""

__all__ = ["FINAL_ANSWER", "Output"]

from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.core.errors import ConfigurationError, InvalidArguments, JournalCorrupt
from ziggurat.core.facts import fact
from ziggurat.messages.facts import OUTPUT_MODES, OutputMode
from ziggurat.messages.limits import check_size
from ziggurat.messages.model import OutputSchema, ToolSpec
from ziggurat.messages.tool import FINAL_ANSWER


class Output(Struct, frozen=True, eq=False):
    """The type of an agent's answers.

    Attributes:
        kind: The type.
        mode: How the model is asked for it: ``"native"``, ``"tool"`` or ``"prompted"``.
        schema: Its JSON Schema; an object, with the value under ``value`` if the type is not an object.
        wrapped: Whether the value is under ``value``.
        retries: How often the model is asked again when its answer does not fit.
    """

    kind: Any
    mode: OutputMode
    schema: dict[str, Any]
    wrapped: bool
    retries: int = 2

    @classmethod
    def of(cls, kind: Any, model: object, mode: OutputMode | None = None, retries: int = 2) -> "Output":
        """Make the output of type `kind` for `model`, in the best mode the model supports unless `mode` is given.

        Raises:
            ConfigurationError: the type has no schema, or the model does not support this mode.
        """
        from ziggurat.tools.schema import schema_of

        if not callable(model):
            raise ConfigurationError(f"Output.of(type, model) takes the model itself, made by resolve(); got {model!r}")
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            raise ConfigurationError(f"retries is how often an answer is asked for again, 0 or more; got {retries!r}")
        modes = fact(model, OUTPUT_MODES)
        if mode is not None and mode not in modes:
            raise ConfigurationError(f"the model {model!r} cannot give its output by {mode!r}; it can by {modes}")
        schema = schema_of(kind)
        try:
            msgspec.json.Decoder(kind, dec_hook=_make_pydantic)
        except TypeError as error:
            raise ConfigurationError(f"an output of the type {kind} cannot be read from JSON: {error}") from error
        wrapped = schema.get("type") != "object"
        if wrapped:
            schema = {
                "type": "object",
                "properties": {"value": schema},
                "required": ["value"],
                "additionalProperties": False,
            }
        return cls(kind, mode or modes[0], schema, wrapped, retries)

    @property
    def name(self) -> str:
        """The name of the type."""
        return str(getattr(self.kind, "__name__", "answer"))

    def native(self) -> OutputSchema | None:
        """Return the schema to send with the request in the mode ``"native"``, otherwise None."""
        return OutputSchema(self.name, self.schema) if self.mode == "native" else None

    def tool(self) -> ToolSpec | None:
        """Return the tool that takes the answer in the mode ``"tool"``, otherwise None."""
        if self.mode != "tool":
            return None
        return ToolSpec(FINAL_ANSWER, "Give the final answer; call this when you are done.", self.schema, "none")

    def instructions(self) -> str | None:
        """Return the instructions that ask for the answer in the mode ``"prompted"``, otherwise None."""
        if self.mode != "prompted":
            return None
        schema = msgspec.json.encode(self.schema).decode()
        return f"Answer with one JSON object that fits this JSON Schema, and nothing else:\n{schema}"

    def read(self, text: str) -> Any:
        """Parse an answer from the model's text.

        Raises:
            InvalidArguments: it does not fit the type; the message is written for the model.
        """
        check_size(text, "the answer")
        body = _json_in(text)
        try:
            if hasattr(self.kind, "model_validate_json") and not self.wrapped:
                return self.kind.model_validate_json(body)
            if self.wrapped:
                wrapper = msgspec.defstruct("Answer", [("value", self.kind)])
                return msgspec.json.decode(body, type=wrapper, strict=False, dec_hook=_make_pydantic).value  # type: ignore[attr-defined]
            return msgspec.json.decode(body, type=self.kind, strict=False, dec_hook=_make_pydantic)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(f"the answer does not fit the type {self.name}: {error}") from error

    def revived(self, value: Any) -> Any:
        """Convert the plain values of a recorded answer to this type.

        Raises:
            JournalCorrupt: they do not fit, because the type was different when they were written.
        """
        try:
            return msgspec.convert(value, self.kind, str_keys=True, dec_hook=_make_pydantic)
        except ValueError as error:
            raise JournalCorrupt(f"the recorded output is not of the type {self.name}: {error}") from error


def _make_pydantic(kind: Any, value: object) -> object:
    """Make a pydantic model from plain values, without importing pydantic."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind!r} cannot be read from JSON")


def _json_in(text: str) -> str:
    """Return the JSON in a text that may have words or a code fence around it."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text

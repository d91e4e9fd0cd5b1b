"""Typed values of flows and agents: the input of a flow, which travels as text, and the output as it is recorded."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ziggurat.core.codec import canonical, decode, digest, encode, plain
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments, JournalCorrupt
from ziggurat.core.failures import note_mistake
from ziggurat.messages.agent import AgentRequest, AgentRun, Out
from ziggurat.messages.message import Message
from ziggurat.tools.arguments import read
from ziggurat.tools.parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import TypeForm


class FlowInput(Struct, frozen=True, eq=False):
    kind: Any
    parameter: Parameter

    @classmethod
    def of(cls, names: list[str], hints: Mapping[str, Any], title: str) -> "tuple[FlowInput, str | None]":
        context = next((each for each in names if hints.get(each) is Context), None)
        inputs = [each for each in names if each != context]
        if "self" in inputs:
            raise ConfigurationError(f"the flow {title} is a method without its object: write flow(desk.{title})")
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


def encode_run(run: AgentRun) -> bytes:
    """Return a run as JSON, such as for a column of your own database; `decode_run` reads it back equal.

    Raises:
        TypeError: its output has no JSON form.
    """
    return encode(run)


def decode_run(data: bytes | str, output: "TypeForm[Out]") -> AgentRun[Out]:
    """Return the run that `encode_run` wrote: ``city = decode_run(saved, City).output``, with the type of the output.

    Raises:
        InvalidArguments: it is no run in JSON, or its output is of another type; the text names the place.
    """
    try:
        run = decode(data, AgentRun)
        form = OutputForm(Parameter.of_result("the output", output))
        return form.read(run)
    except JournalCorrupt as error:
        raise InvalidArguments(f"this is no run of encode_run() with an output of {output!r:.100}: {error}") from None


class OutputForm(Struct, frozen=True, eq=False):
    parameter: Parameter

    def keep(self, run: AgentRun) -> AgentRun:
        """Return a run with the JSON of its output where that is not read back as it is."""
        output = run._output
        try:
            form = self.parameter.recorded(output, *(() if run._accepted is UNSET else (run._accepted,)))
        except Exception as error:  # of the output's type
            note_mistake(error)
            raise
        try:
            natural = form == plain(output) and canonical(form) == canonical(output)
        except TypeError:  # such as of a pattern in it, which only its type can write
            return replace(run, output=form, _accepted=form)
        accepted = UNSET if natural else form
        return run if accepted is run._accepted else replace(run, _accepted=accepted)

    def read(self, run: AgentRun) -> AgentRun:
        if run._output is None and run._accepted is UNSET:  # NaN is null, too, and has its text beside it
            return run
        try:
            output = self.parameter.revive(run._output if run._accepted is UNSET else run._accepted)
        except ValueError as error:
            raise JournalCorrupt(f"the recorded output is not of the type it has now: {error}") from error
        return replace(run, output=output)

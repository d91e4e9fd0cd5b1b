"""Signature: a tool's name, description and schema for the model, and the decoding of its arguments."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.messages.arguments import SHORT, check_size
from ziggurat.messages.message import ToolCall
from ziggurat.tools.arguments import MAX_DEPTH, has_infinity, listing, read, shown
from ziggurat.tools.inspection import Docstring, Inspection, describe, inspect_function, reader_of
from ziggurat.tools.parameter import Parameter, Problem
from ziggurat.tools.results import ended_by
from ziggurat.tools.validator import SchemaValidator

_Reader = Callable[[str | bytes], dict[str, object]]


class Signature(Inspection, frozen=True, eq=False):
    """The interface between a model and a function, read once from the function's annotations and docstring."""

    description: str
    parameters: dict[str, object]
    is_plain: bool
    _read: _Reader
    _length: int
    _inexact: tuple[str, ...]
    _checked: bool

    def __repr__(self) -> str:
        return f"Signature({self.name}({', '.join(self.inputs)}))"

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> "Signature":
        """Make the signature of a function, a coroutine function, a bound method, a partial or a callable object."""
        inspection = inspect_function(function, name)
        text, inputs = describe(function), inspection.inputs.values()
        return cls(
            **msgspec.structs.asdict(inspection),
            description=text.summary if description is None else description,
            parameters=_object(inspection, text),
            is_plain=inspection.extra is None and all(each.is_scalar for each in inputs),
            _read=reader_of(inspection),
            _length=2 * MAX_DEPTH if any(each.nested for each in inputs) else 2**63,
            _inexact=tuple(each.name for each in inputs if each.inexact),
            _checked=any(each.check is not None for each in inputs),
        )

    def decode(self, arguments: str | bytes) -> dict[str, object]:
        """Decode a model's JSON into keyword arguments for the function; the error has a line for each problem."""
        # Small mistakes are repaired: ``"3"`` for 3, null for a parameter with a default, one value for a list, JSON
        # within a string, an empty text for no arguments.
        if len(arguments) > SHORT:
            check_size(arguments)
        try:
            values = self._read(arguments)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self.validate(_object_in(arguments))
        except Exception:
            raise
        except BaseException as error:  # raised by the types' own code, such as a dataclass's __post_init__
            raise ended_by(error) from error
        # If there are as many colons as decoded keys, no key was unknown and none was given twice.
        colons = arguments.count(":") if isinstance(arguments, str) else arguments.count(b":")
        if colons == len(values) and self.is_plain:
            return values
        return self._examined(values, arguments, unclear=colons != len(values))

    def _examined(self, values: dict[str, object], arguments: str | bytes, *, unclear: bool) -> dict[str, object]:
        """Return decoded values, or those of `validate` if the decoder alone does not show that they fit."""
        if unclear or len(arguments) > self._length:
            plain = _object_in(arguments)
            if len(plain) != len(values):
                return self.validate(plain)
        if self._checked or any(has_infinity(values.get(name)) for name in self._inexact):
            return self.validate(_object_in(arguments))
        return values

    def normalize(self, arguments: str) -> str:
        """Return a model's JSON as the function will receive it: values as they are decoded, defaults filled in."""
        if self.is_plain:  # numbers, texts and truth values are read as they were written
            values = self.decode(arguments)
            return canonical({**self.defaults, **values} if self.defaults else values, True).decode()
        values = self.decode(arguments)
        accepted = _object_in(arguments)
        forms = {name: self._parameter(name).recorded(value, accepted[name]) for name, value in values.items()}
        return canonical({**self.defaults, **forms}).decode()

    def _parameter(self, name: str) -> Parameter:
        return self.inputs.get(name) or cast(Parameter, self.extra)

    @property
    def decode_normal(self) -> Callable[[str], dict[str, object]]:
        """Decodes arguments in their normal form, which need no further check if they are plain."""
        return self._read if self.is_plain else self.decode

    def validate(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Convert plain JSON data into keyword arguments, as `decode` does for text; used for edited arguments."""
        result: dict[str, object] = {}
        problems: list[str] = []
        missing = [name for name, each in self.inputs.items() if each.required and name not in arguments]
        for name, value in arguments.items():
            parameter = self.inputs.get(name) or (self.extra if name != self.context_parameter else None)
            try:
                if parameter is not None:
                    result[name] = parameter.convert(value)
                else:
                    problems.append(f"{name}: unknown parameter")
            except Problem as problem:
                if value is not None or parameter is None or parameter.required:
                    problems.append(_named(str(problem), name, parameter))
            except Exception:
                raise
            except BaseException as error:  # as above
                raise ended_by(error) from error
        if problems or missing:
            raise InvalidArguments(listing([*problems, *[f"{name}: missing (required)" for name in missing]]))
        return result


def _named(problem: str, name: str, parameter: Parameter | None) -> str:
    return problem if parameter is None or parameter.name == name else name + problem.removeprefix(parameter.name)


def _object_in(text: str | bytes) -> dict[str, object]:
    """Parse a text as an object; empty text and null give an empty object, a JSON string the object in it."""
    if not text.strip():
        return {}
    value = read(text)
    if isinstance(value, str):
        value = read(value) if value.strip() else {}
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidArguments(f"the arguments must be a JSON object, got {shown(value)}")
    return value


def _object(inspection: Inspection, text: Docstring) -> dict[str, object]:
    """Combine the parameters' schemas and descriptions into one, with shared definitions at the top."""
    definitions: dict[str, object] = {}
    properties: dict[str, object] = {}
    for name, each in inspection.inputs.items():
        schema = dict(each.schema)
        if name not in inspection.described and name in text.parameters:
            schema["description"] = text.parameters[name]
        _hoist(inspection.name, schema, definitions)
        properties[name] = schema
    others: object = False
    if inspection.extra is not None:
        others = extra = dict(inspection.extra.schema)
        _hoist(inspection.name, extra, definitions)
    result: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": [name for name, each in inspection.inputs.items() if each.required],
        "additionalProperties": others,
    }
    return {**result, "$defs": definitions} if definitions else result


def _hoist(tool: str, schema: dict[str, object], definitions: dict[str, object]) -> None:
    for name, definition in cast("dict[str, object]", schema.pop("$defs", {})).items():
        if definitions.setdefault(name, definition) != definition:
            raise ConfigurationError(f"tool {tool!r}: two recursive types are both called {name!r}; rename one")


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Return whether a function takes so many arguments by their positions."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


class RawSchema(msgspec.Struct, frozen=True):
    """Checks a tool's arguments against a JSON Schema, and passes them on unchanged."""

    name: str
    validator: SchemaValidator
    function: Callable[..., Any]
    is_async: bool
    context_parameter: str | None

    @classmethod
    def of(cls, function: Callable[..., Any], name: str, schema: dict[str, Any]) -> "RawSchema":
        if schema.get("type", "object") != "object":
            raise ConfigurationError(
                f"the parameters of {name} must be a JSON Schema of type 'object', got {str(schema)[:200]}"
            )
        try:
            signature = inspect.signature(function)
        except ValueError as error:
            raise ConfigurationError(f"the signature of {name} cannot be read; wrap it in a function") from error
        count = len(signature.parameters)
        if count not in (1, 2) or not _takes(signature, count):
            raise ConfigurationError(
                f"the function of {name} must take (arguments) or (arguments, ctx), it takes {signature}"
            )
        is_async = inspect.iscoroutinefunction(function)

        def call(**arguments: Any) -> Any:
            ctx = arguments.pop("ctx", None)
            return function(arguments["arguments"], ctx) if count == 2 else function(arguments["arguments"])

        return cls(
            name, SchemaValidator(schema, f"the schema of {name}"), call, is_async, "ctx" if count == 2 else None
        )

    def normalize(self, arguments: str) -> str:
        return canonical(self.decode(arguments)["arguments"]).decode()

    def decode(self, arguments: str | bytes) -> dict[str, Any]:
        """Return the arguments as the function's one keyword argument; one line of the error for each problem."""
        values = _object_in(arguments)
        problems = self.validator.problems(values)
        if problems:
            raise InvalidArguments("\n".join(problems))
        return {"arguments": values}

    decode_normal = decode
    """Arguments in their normal form are decoded and validated as any others."""

    is_plain = is_method = False


def plain_form(call: ToolCall) -> ToolCall:
    """Return a call with its arguments as canonical JSON; for tools that decode their arguments themselves."""
    text = canonical(_object_in(call.arguments)).decode()
    return call if text == call.arguments else ToolCall(call.id, call.name, text)

"""Arguments of a tool whose schema was written by hand, or came from elsewhere."""

__all__ = ["RawSchema"]

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.core.errors import ConfigurationError, InvalidArguments

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class RawSchema(Struct, frozen=True):
    """A JSON Schema as a tool's door: required and unknown names and the types of the top level are checked."""

    name: str
    schema: dict[str, Any]
    function: Callable[..., Any]
    is_async: bool
    context_parameter: str | None

    @classmethod
    def of(cls, function: Callable[..., Any], name: str, schema: dict[str, Any]) -> "RawSchema":
        """Look at a function `(arguments)` or `(arguments, ctx)` and the schema of its arguments.

        Raises:
            ConfigurationError: either is not as it must be.
        """
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            raise ConfigurationError(f"the parameters of {name} must be a JSON Schema of type 'object', got {schema!r}")
        count = len(inspect.signature(function).parameters)
        if count not in (1, 2):
            raise ConfigurationError(
                f"the function of {name} must take (arguments) or (arguments, ctx), it takes {count} parameters"
            )
        is_async = inspect.iscoroutinefunction(function)

        def call(**given: Any) -> Any:
            ctx = given.pop("ctx", None)
            return function(given["arguments"], ctx) if count == 2 else function(given["arguments"])

        return cls(name, schema, call, is_async, "ctx" if count == 2 else None)

    def decode(self, arguments: str | bytes) -> dict[str, Any]:
        """Return the arguments as the one keyword that the function takes.

        Raises:
            InvalidArguments: they do not fit; every problem on a line of its own.
        """
        try:
            given = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments(f"the arguments are not a JSON object: {error}") from error
        properties: dict[str, Any] = self.schema.get("properties", {})
        problems = [f"{name}: missing (required)" for name in self.schema.get("required", ()) if name not in given]
        if self.schema.get("additionalProperties") is False:
            problems += [f"{name}: unknown parameter" for name in given if name not in properties]
        for name, value in given.items():
            wanted = properties.get(name, {}).get("type")
            if isinstance(wanted, str) and not _fits(value, wanted):
                problems.append(f"{name}: expected {wanted}, got {msgspec.json.encode(value).decode()[:80]}")
        if problems:
            raise InvalidArguments("\n".join(problems))
        return {"arguments": given}


def _fits(value: object, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES.get(wanted, (object,)))

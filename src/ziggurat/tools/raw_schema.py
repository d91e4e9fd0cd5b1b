"""RawSchema: the arguments of a tool whose JSON Schema was written by hand or came from elsewhere."""

import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.tools.arguments import read, shown
from ziggurat.tools.normal_form import normal_form
from ziggurat.tools.validator import SchemaValidator


class RawSchema(Struct, frozen=True):
    """Checks a tool's arguments against a JSON Schema, and passes them on unchanged."""

    name: str
    validator: SchemaValidator
    function: Callable[..., Any]
    is_async: bool
    context_parameter: str | None

    @classmethod
    def of(cls, function: Callable[..., Any], name: str, schema: dict[str, Any]) -> "RawSchema":
        """Make one from a function `(arguments)` or `(arguments, ctx)` and the schema of its arguments.

        Raises:
            ConfigurationError: the function has other parameters, or `SchemaValidator` refuses the schema.
            MissingExtra: the extra ``schemas`` is not installed.
        """
        if schema.get("type", "object") != "object":
            raise ConfigurationError(
                f"the parameters of {name} must be a JSON Schema of type 'object', got {str(schema)[:200]}"
            )
        try:
            count = len(inspect.signature(function).parameters)
        except ValueError as error:
            raise ConfigurationError(f"the signature of {name} cannot be read; wrap it in a function") from error
        if count not in (1, 2):
            raise ConfigurationError(
                f"the function of {name} must take (arguments) or (arguments, ctx), it takes {count} parameters"
            )
        is_async = inspect.iscoroutinefunction(function)

        def call(**arguments: Any) -> Any:
            ctx = arguments.pop("ctx", None)
            return function(arguments["arguments"], ctx) if count == 2 else function(arguments["arguments"])

        return cls(
            name, SchemaValidator(schema, f"the schema of {name}"), call, is_async, "ctx" if count == 2 else None
        )

    def normalize(self, arguments: str) -> str:
        """Return the arguments as canonical JSON of what the function will receive.

        Raises:
            InvalidArguments: they do not fit.
        """
        return normal_form(arguments, lambda text: canonical(self.decode(text)["arguments"]).decode())

    def decode(self, arguments: str | bytes) -> dict[str, Any]:
        """Return the arguments as the function's one keyword argument.

        Raises:
            InvalidArguments: they do not fit; one problem per line.
        """
        values = read(arguments) if arguments.strip() else {}
        if not isinstance(values, dict):
            raise InvalidArguments(f"the arguments must be a JSON object, got {shown(values)}")
        problems = self.validator.problems(values)
        if problems:
            raise InvalidArguments("\n".join(problems))
        return {"arguments": values}

    decode_normal = decode
    """Arguments in their normal form are decoded and validated as any others."""

    is_plain = False

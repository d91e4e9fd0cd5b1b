"""Asked: the type of an answer or an event, which comes from outside as JSON."""

from functools import lru_cache
from typing import Any

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.tools.parameter import Parameter
from ziggurat.tools.schema import form_of, shown_form
from ziggurat.tools.values import difference

NO_DEFAULT = object()
"""Says that nothing follows if no value comes in time."""


class Asked(Struct, frozen=True, eq=False):
    """The type of a value that a run waits for."""

    parameter: Parameter
    schema: dict[str, Any]

    @classmethod
    def of(cls, name: str, kind: Any) -> "Asked":
        """Make it for a type, once for a class: a run that is continued asks all again that it has asked before."""
        return _of_class(name, kind) if isinstance(kind, type) else _of_type(name, kind)

    def plain(self, value: object, name: str) -> object:
        """Return a choice or a default as plain JSON data; `name` says which one it is."""
        try:
            return self.parameter.recorded(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{name} does not fit: {error}") from error

    def misfit(self, value: object) -> str | None:
        """Return why plain JSON data is not of the type, None if it is."""
        try:
            self.parameter.restore(value)
        except ValueError as error:
            return str(error)
        return None

    async def value(self, accepted: object, ctx: Context) -> Any:
        """Return a value made of accepted JSON, the same each time; recorded where its type generates a part of it."""
        value = self.parameter.restore(accepted)
        if difference(value, self.parameter.restore(accepted)) is None:
            return value

        async def recorded(_: None, ctx: Context) -> object:
            return self.parameter.recorded(value, accepted)

        return self.parameter.revive(await ctx.at("value").once("value", None, recorded, returns=object))


def _of_type(name: str, kind: Any) -> Asked:
    return Asked(Parameter.of(name, kind, required=True), shown_form(form_of(kind), asked=True))


_of_class = lru_cache(128)(_of_type)

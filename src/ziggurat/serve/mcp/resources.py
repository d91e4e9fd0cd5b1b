"""Resources: functions that are read by an address, or by one for each value of the variables in it."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.messages.parts import ToolResult
from ziggurat.tools.toolbox import Toolbox

_VARIABLE = re.compile(r"\{([A-Za-z_]\w*)\}")


class Resource(Struct, frozen=True, eq=False):
    """A resource, or one for each value of the variables in its address; made by `resource`."""

    uri: str
    name: str
    description: str
    media_type: str | None
    _box: Toolbox
    _pattern: "re.Pattern[str]"

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(_VARIABLE.findall(self.uri))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the variables."""
        return self._box.specs[0].parameters

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the variables in an address; None if it is not one of this resource.

        A value is one name in a path: it leads nowhere else.
        """
        match = self._pattern.fullmatch(uri)
        if match is None:
            return None
        values = {name: unquote(value) for name, value in match.groupdict().items()}
        safe = all(value not in (".", "..") and not re.search(r"[/\\\x00-\x1f]", value) for value in values.values())
        return values if safe else None

    async def read(self, values: dict[str, str]) -> ToolResult:
        return await self._box.call(self.name, values)


@checked
def resource(
    uri: NonEmptyText, *, name: NonEmptyText | None = None, media_type: NonEmptyText | None = None
) -> Callable[[Callable[..., Any]], Resource]:
    """Make a resource of a typed function, for `McpServer`::

        @serve.resource("notes://{title}")
        def note(title: str) -> str:
            "One of my notes."
            return (FOLDER / f"{title}.md").read_text()

    The function is called whenever the resource is read. It returns text, a value, or parts such as `Image` and `File`.

    Args:
        uri: Its address. Each ``{variable}`` is a parameter of the function, and stands for one name: a value never has
            a slash, nor is it ``..``.
        name: Its name; that of the function by default.
        media_type: The type of its contents; by default that of the parts, or ``text/plain``.

    Raises:
        ConfigurationError: the variables are not the parameters of the function.
    """

    def make(function: Callable[..., Any]) -> Resource:
        box = Toolbox([function])
        (spec,) = box.specs
        variables, parameters = set(_VARIABLE.findall(uri)), set(spec.parameters.get("properties", {}))
        if variables != parameters:
            raise ConfigurationError(
                f"the resource {uri} has the variables {sorted(variables)}, and its function the parameters "
                f"{sorted(parameters)}: they must be the same"
            )
        pieces = _VARIABLE.split(uri)
        pattern = "".join(f"(?P<{each}>[^/]+)" if odd % 2 else re.escape(each) for odd, each in enumerate(pieces))
        return Resource(uri, spec.name, spec.description, media_type, box, re.compile(pattern))

    return make

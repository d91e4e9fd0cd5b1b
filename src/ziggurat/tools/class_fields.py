"""Classes of attrs, and dataclasses that no library reads whole: fields are read, and ``__init__`` is called."""

import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ziggurat.tools.arguments import Problem, shown
from ziggurat.tools.type_parts import field_types
from ziggurat.tools.values import kept_fields

if TYPE_CHECKING:
    from ziggurat.tools.parameter import Parameter


class ClassFields:
    """Converts a class field by field, so that its converters, validators and private names hold."""

    def __init__(self, name: str, annotation: Any, of: "Callable[..., Parameter]") -> None:
        self._name = name
        self._kind: Any = typing.get_origin(annotation) or annotation
        self._fields = [
            (field, of(f"{name}.{field.key}", kind, required=field.required)) for field, kind in field_types(annotation)
        ]

    @property
    def one_way(self) -> str | None:
        """The reason why a field is not read as it is written."""
        return next((each.one_way for _, each in self._fields if each.one_way is not None), None)

    def check(self, value: object) -> object:
        """Convert plain JSON data to the class."""
        if not isinstance(value, dict):
            raise Problem(f"{self._name}: expected an object, got {shown(value)}")
        given: dict[str, object] = {}
        problems: list[str] = []
        for field, parameter in self._fields:
            if field.key in value:
                try:
                    given[field.key] = parameter.exactly(value[field.key])
                except Problem as problem:
                    problems.append(str(problem))
            elif parameter.required:
                problems.append(f"{parameter.name}: missing (required)")
        if problems:
            raise Problem("\n".join(problems))
        try:
            return self._kind(**given)
        except (TypeError, ValueError) as error:
            raise Problem(f"{self._name}: {error}") from error

    def dump(self, value: object, whole: bool) -> object:
        """Return a value as plain JSON data, without its defaults unless it is to be `whole`."""
        if not isinstance(value, self._kind):
            raise Problem(f"{self._name}: expected a {self._kind.__name__}, got a {type(value).__name__}")
        kept = {each.name for each in kept_fields(value, whole)}
        fields = [(field, each) for field, each in self._fields if field.name in kept]
        return {field.key: parameter.plain(getattr(value, field.name), whole) for field, parameter in fields}

"""Unions that the decoder refuses, such as two dataclasses: which member is meant, and how its values are written."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ziggurat.tools.arguments import Problem, expectation, shown
from ziggurat.tools.type_parts import alternatives
from ziggurat.tools.unions import chosen, fits, followed, key_of, members, tagged, without
from ziggurat.tools.values import difference

if TYPE_CHECKING:
    from ziggurat.tools.parameter import Parameter


class Members:
    """Converts a union that the decoder refuses, such as two dataclasses; classes in it are told apart by name."""

    def __init__(self, name: str, annotation: object, form: dict[str, Any], of: "Callable[..., Parameter]") -> None:
        self._name = name
        self._form = form
        self._definitions = cast("dict[str, dict[str, Any]]", form.get("$defs", {}))
        self._members = [of(name, arm, required=True) for arm in alternatives(annotation)]
        forms = [followed(each, self._definitions) for each in form["anyOf"]]
        self._classes = members(form, self._definitions)
        self._of_class = [index for index, arm in enumerate(forms) if any(arm is each for each in self._classes)]

    @property
    def one_way(self) -> str | None:
        """The reason why a member is not read as it is written."""
        return next((each.one_way for each in self._members if each.one_way is not None), None)

    def check(self, value: object) -> object:
        """Convert plain JSON data: an object to the class that is meant, the rest to the first strict or lax match."""
        if self._classes and isinstance(value, dict):
            number, _ = chosen(value, self._classes, self._definitions, self._name)
            inner = without(value, key_of(self._classes)[0], self._classes)
            try:
                return self._members[self._of_class[number]].exactly(inner)
            except Problem as problem:
                title = self._classes[number]["title"]
                raise Problem("\n".join(f"{line} ({title})" for line in str(problem).split("\n"))) from None
        arms = zip(self._members, self._form["anyOf"], strict=True)
        fitting = [member for member, arm in arms if fits(value, arm, self._definitions)]
        for member in fitting:
            if member.check is None:
                try:
                    return member.strictly(value)
                except msgspec.ValidationError:
                    continue
        problems: list[str] = []
        for member in fitting or self._members:
            try:
                return member.exactly(value)
            except Problem as problem:
                problems.append(str(problem))
        # The member whose fields are all there is the one that was meant.
        inside = [
            each for each in problems if not each.startswith(f"{self._name}:") and "missing (required)" not in each
        ]
        found = f"{self._name}: expected {expectation(self._form)}, got {shown(value)}"
        raise Problem(inside[0] if len(inside) == 1 else found)

    def dump(self, value: object, whole: bool) -> object:
        """Return a value as plain JSON data, with the tag of its class."""
        for index, member in enumerate(self._members):
            try:
                form = member.plain(value, whole)
                if difference(value, member.restore(form)) is None:
                    is_class = index in self._of_class
                    return tagged(form, self._of_class.index(index), self._classes) if is_class else form
            except (TypeError, ValueError, AttributeError):
                continue
        raise Problem(f"{self._name}: a {type(value).__name__} is not read back as it is written")

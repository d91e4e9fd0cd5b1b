"""The members of a union, told apart by name (by a field that all of them have, or a tag of ours), and their values."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ziggurat.tools.arguments import Problem, expectation, shown
from ziggurat.tools.type_parts import alternatives
from ziggurat.tools.values import difference

if TYPE_CHECKING:
    from ziggurat.tools.parameter import Parameter

Schema = dict[str, Any]
Definitions = Mapping[str, Schema]


def followed(schema: Schema, definitions: Definitions) -> Schema:
    while (name := str(schema.get("$ref", "")).removeprefix("#/$defs/")) in definitions:
        schema = definitions[name]
    return schema


def members(schema: Schema, definitions: Definitions) -> list[Schema]:
    """Return the classes among the members of a union; none where they need not be told apart."""
    arms = [followed(each, definitions) for each in schema.get("anyOf", ())]
    classes = [each for each in arms if each.get("type") == "object" and "properties" in each and "title" in each]
    return classes if len(classes) > 1 else []


def key_of(classes: Sequence[Schema]) -> tuple[str, dict[str, int]]:
    """Return the key that tells classes apart, and which class each of its values means."""
    for key in classes[0]["properties"]:
        choices = [_choices(each["properties"].get(key, {})) for each in classes]
        values = [str(value) for each in choices for value in each]
        if all(choices) and len(set(values)) == len(values):
            return key, {str(value): number for number, each in enumerate(choices) for value in each}
    tag = "type"
    while any(tag in each["properties"] for each in classes):
        tag += "_"
    titles = [str(each["title"]) for each in classes]
    again = {title for title in titles if titles.count(title) > 1}
    return tag, {f"{title}{number}" if title in again else title: number for number, title in enumerate(titles)}


def is_tag(key: str, classes: Sequence[Schema]) -> bool:
    return all(key not in each["properties"] for each in classes)


def _choices(schema: Schema) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def shown_union(schema: Schema, definitions: Definitions, asked: bool) -> Schema:
    """Return a union as it is shown: each class closed, and with the key that tells it from the others."""
    classes = members(schema, definitions)
    if not classes:
        return schema
    key, names = key_of(classes)
    needed = not asked or any(_overlap(one, other) for one in classes for other in classes if one is not other)
    arms = []
    for arm in schema["anyOf"]:
        arm = followed(arm, definitions)
        number = next((number for number, each in enumerate(classes) if each is arm), None)
        if number is not None:
            own = {} if key in arm["properties"] else {key: {"const": _name_of(number, names)}}
            required = arm.get("required", [])
            required = [key, *required] if needed and key not in required else required
            closed = {"required": required, "additionalProperties": arm.get("additionalProperties", False)}
            arm = {**arm, "properties": {**own, **arm["properties"]}, **closed}
        arms.append(arm)
    return {**schema, "anyOf": arms}


def _overlap(one: Schema, other: Schema) -> bool:
    return all(name in b["properties"] for a, b in ((one, other), (other, one)) for name in a.get("required", ()))


def _name_of(number: int, names: Mapping[str, int]) -> str:
    return next(name for name, at in names.items() if at == number)


def chosen(
    value: dict[str, Any], classes: Sequence[Schema], definitions: Definitions, path: str
) -> tuple[int, dict[str, Any], bool]:
    """Return the number of the class that an object is meant to be, its fields, and whether only its tag says so."""
    key, names = key_of(classes)
    fitting = [number for number, each in enumerate(classes) if fits(without(value, key, classes), each, definitions)]
    if key in value:
        number = names.get(str(value[key]))
        if number is None:
            raise Problem(f"{path}.{key}: expected one of {', '.join(map(repr, names))}, got {shown(value[key])}")
    elif len(fitting) > 1:
        raise Problem(f"{path}.{key}: missing (required): one of {', '.join(map(repr, names))}")
    else:
        near = [_distance(value, each) for each in classes]
        number = fitting[0] if fitting else near.index(min(near))
        if not fitting and near.count(min(near)) > 1:
            raise Problem(f"{path}: expected {' or '.join(_titled(each) for each in classes)}, got {shown(value)}")
    meant, rest = classes[number], without(value, key, classes)
    of = f" of {meant['title']}"
    problems = [f"{path}.{name}: missing (required){of}" for name in meant.get("required", ()) if name not in rest]
    if not meant.get("additionalProperties"):
        problems += [f"{path}.{name}: unknown field{of}" for name in rest if name not in meant["properties"]]
    if problems:
        raise Problem("\n".join(problems))
    return number, rest, len(fitting) > 1


def without(value: dict[str, Any], key: str, classes: Sequence[Schema]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name != key} if is_tag(key, classes) else value


def tagged(data: object, number: int, classes: Sequence[Schema]) -> object:
    key, names = key_of(classes)
    if not isinstance(data, dict) or not is_tag(key, classes):
        return data
    return {key: _name_of(number, names), **data}


def _titled(schema: Schema) -> str:
    required = ", ".join(schema.get("required", ()))
    return f"{schema['title']} (an object with {required})" if required else str(schema["title"])


def _distance(value: dict[str, Any], schema: Schema) -> int:
    unknown = sum(name not in schema["properties"] for name in value)
    return unknown + sum(name not in value for name in schema.get("required", ()))


def fits(value: object, schema: Schema, definitions: Definitions) -> bool:
    """Return whether a value has the form of a schema: the right keys at any depth; numbers and texts are not read."""
    schema = followed(schema, definitions)
    if isinstance(value, dict) and (classes := members(schema, definitions)):
        key, names = key_of(classes)
        if is_tag(key, classes) and key in value:
            number = names.get(str(value[key]))
            return number is not None and fits(without(value, key, classes), classes[number], definitions)
    if arms := schema.get("anyOf") or schema.get("oneOf"):
        return any(fits(value, each, definitions) for each in arms)
    kind = schema.get("type")
    if choices := _choices(schema):
        return value in choices
    if isinstance(value, dict):
        closed = "properties" in schema and not schema.get("additionalProperties")
        return (
            kind in ("object", None)
            and all(name in value for name in schema.get("required", ()))
            and not (closed and any(name not in schema["properties"] for name in value))
            and all(fits(each, field_of(schema, name), definitions) for name, each in value.items())
        )
    if isinstance(value, list):
        items = enumerate(value)
        return kind in ("array", None) and all(fits(each, item_of(schema, n), definitions) for n, each in items)
    return kind not in ("object", "array") and (value is not None or kind in ("null", None))


def field_of(schema: Schema, name: str) -> Schema:
    others = schema.get("additionalProperties")
    found: Schema = schema.get("properties", {}).get(name, others if isinstance(others, dict) else {})
    return found


def item_of(schema: Schema, number: int) -> Schema:
    first, rest = schema.get("prefixItems", []), schema.get("items")
    found: Schema = first[number] if number < len(first) else rest if isinstance(rest, dict) else {}
    return found


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
        return next((each.one_way for each in self._members if each.one_way is not None), None)

    def check(self, value: object) -> object:
        """Convert plain JSON data: an object to the class that is meant, the rest to the first strict or lax match."""
        if self._classes and isinstance(value, dict):
            number, inner, _ = chosen(value, self._classes, self._definitions, self._name)
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

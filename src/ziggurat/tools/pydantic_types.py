"""Types that pydantic reads: their schemas, and the conversion of plain JSON data to them, and back."""

import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import is_typed_dict
from ziggurat.tools import unions
from ziggurat.tools.arguments import Problem, shown
from ziggurat.tools.type_parts import classes_in, rebuilt
from ziggurat.tools.values import mappings_in, plain

if TYPE_CHECKING:
    import pydantic


def _with_sorted_sets(data: object, value: object) -> object:
    """Return plain JSON data with the lists sorted that are sets in `value`: their order varies by process."""
    if isinstance(data, list) and isinstance(value, (list, tuple, set, frozenset)) and len(data) == len(value):
        items = [_with_sorted_sets(each, inner) for each, inner in zip(data, value, strict=True)]
        return sorted(items, key=canonical) if isinstance(value, (set, frozenset)) else items
    if isinstance(data, dict) and isinstance(value, dict) and len(data) == len(value):
        inner_values = zip(data.items(), value.values(), strict=True)
        return {key: _with_sorted_sets(each, inner) for (key, each), inner in inner_values}
    return data


def pydantic_schema(annotation: Any) -> dict[str, object]:
    adapter = _adapter(annotation)
    import pydantic
    from pydantic.json_schema import GenerateJsonSchema

    class Shown(GenerateJsonSchema):
        """Leaves out what no constructor takes."""

        def field_is_present(self, field: Any) -> bool:
            return field.get("init") is not False and super().field_is_present(field)

    try:
        return adapter.json_schema(schema_generator=Shown)
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(str(error)) from error


class PydanticReader:
    def __init__(self, name: str, annotation: Any, schema: unions.Schema) -> None:
        self._name = name
        self._adapter = _adapter(annotation)
        for node in _nodes(self._adapter.core_schema):
            if node.get("type") == "enum" and not all(isinstance(each.value, _SCALARS) for each in node["members"]):
                raise ConfigurationError(f"{annotation} has an Enum whose values JSON does not have: use texts")
        kinds = {kind for node in _nodes(self._adapter.core_schema) if isinstance(kind := node.get("type"), str)}
        self._has_sets = bool(kinds & {"set", "frozenset", "any"})
        if "is-subclass" in kinds:
            raise ConfigurationError(
                f"{annotation} has a field that is a class, which JSON does not have: use its name"
            )
        if "generator" in kinds:
            raise ConfigurationError(
                f"{annotation} has a field of the type Iterable, which pydantic reads once: use list"
            )
        for each, field, paths in _fields(self._adapter.core_schema):
            if _is_required(field) and all(len(path) > 1 for path in paths):
                raise ConfigurationError(f"{annotation} reads the field {each!r} by a path, which no schema shows")
        self._schema = schema
        self._definitions: unions.Definitions = schema.get("$defs", {})
        self._has_unions = any(unions.members(each, self._definitions) for each in mappings_in(schema))
        self._classes = {each.__name__: each for each in classes_in(annotation)} if self._has_unions else {}

    @property
    def one_way(self) -> str | None:
        """The reason why no value is read as it is written; None if there is none."""
        for name, field, paths in _fields(self._adapter.core_schema):
            excluded = field.get("serialization_exclude") is True or field.get("init_only") is True
            written = None if excluded else field.get("serialization_alias", name)
            if _is_required(field) and [written] not in paths and field.get("init", True):
                read = " or ".join(repr(".".join(map(str, path))) for path in paths)
                how = f"written as {written!r}" if written else "not written"
                return f"the field {name!r} is read as {read}, and {how}"
        return None

    def check(self, value: object) -> object:
        steered: list[object] = []
        if self._has_unions:
            value = self._told_apart(value, self._schema, self._name, steered)
        return self._validated(self._adapter, value, self._name, bool(steered))

    def dump(self, value: object, whole: bool) -> object:
        options: dict[str, Any] = {"round_trip": True, "exclude_defaults": not whole, "warnings": False}
        data: object = self._adapter.dump_python(value, mode="json", by_alias=True, **options)
        if self._has_sets:
            data = _with_sorted_sets(data, self._adapter.dump_python(value, **options))
        data = plain(data)  # numbers that JSON does not have, too
        return self._with_tags(data, value, self._schema) if self._has_unions else data

    def _validated(self, adapter: "pydantic.TypeAdapter[Any]", value: object, path: str, steered: bool) -> object:
        import pydantic

        try:
            if steered:  # with instances in it, which show pydantic the unions.members that are meant
                return adapter.validate_python(value)
            return adapter.validate_json(msgspec.json.encode(value))
        except pydantic.ValidationError as error:
            lines = []
            for each in error.errors(include_url=False, include_context=False):
                place = path + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in each["loc"])
                if each["type"] == "missing":
                    lines.append(f"{place}: missing (required)")
                else:
                    lines.append(f"{place}: {each['msg'][0].lower()}{each['msg'][1:]}, got {shown(each['input'])}")
            raise Problem("\n".join(lines)) from None

    def _told_apart(self, value: object, schema: unions.Schema, path: str, steered: list[object]) -> object:
        """Return plain data without tags of unions, and with instances where only the tag says which is meant."""
        schema = unions.followed(schema, self._definitions)
        classes = unions.members(schema, self._definitions)
        if not classes or not isinstance(value, dict):
            arms = schema.get("anyOf") or schema.get("oneOf") or ()
            schema = next((each for each in arms if unions.fits(value, each, self._definitions)), schema)
            return self._inside(value, unions.followed(schema, self._definitions), path, steered)
        number, fields, ambiguous = unions.chosen(value, classes, self._definitions, path)
        meant, inner_steered = classes[number], list[object]()
        inner = self._inside(fields, meant, path, inner_steered)
        kind = self._classes.get(str(meant["title"]))
        if kind is not None:
            try:
                instance = self._validated(_adapter(kind), inner, path, bool(inner_steered))
            except Problem as problem:
                raise Problem("\n".join(f"{line} ({meant['title']})" for line in str(problem).split("\n"))) from None
            if inner_steered or (ambiguous and unions.is_tag(unions.key_of(classes)[0], classes)):
                steered.append(instance)
                return instance
        steered += inner_steered
        return inner

    def _inside(self, value: object, schema: unions.Schema, path: str, steered: list[object]) -> object:
        if isinstance(value, dict):
            inner = {name: (each, unions.field_of(schema, name), f"{path}.{name}") for name, each in value.items()}
            return {name: self._told_apart(*each, steered) for name, each in inner.items()}
        if isinstance(value, list):
            items = enumerate(value)
            return [self._told_apart(each, unions.item_of(schema, n), f"{path}[{n}]", steered) for n, each in items]
        return value

    def _with_tags(self, data: object, value: object, schema: unions.Schema) -> object:
        """Return written data with tags where a class cannot be told from the others of its union otherwise."""
        schema = unions.followed(schema, self._definitions)
        classes = unions.members(schema, self._definitions)
        number = next((n for n, each in enumerate(classes) if each["title"] == type(value).__name__), None)
        if number is None and (arms := schema.get("anyOf") or schema.get("oneOf")):
            schema = unions.followed(
                next((e for e in arms if unions.fits(data, e, self._definitions)), schema), self._definitions
            )
        elif number is not None:
            schema = classes[number]
        if isinstance(data, dict):
            fields = value if isinstance(value, Mapping) else {name: getattr(value, name, None) for name in data}
            data = {
                name: self._with_tags(each, fields.get(name), unions.field_of(schema, name))
                for name, each in data.items()
            }
        elif isinstance(data, list) and isinstance(value, (list, tuple)) and len(data) == len(value):
            pairs = enumerate(zip(data, value, strict=True))
            data = [self._with_tags(each, inner, unions.item_of(schema, n)) for n, (each, inner) in pairs]
        several = number is not None and sum(unions.fits(data, each, self._definitions) for each in classes) > 1
        return unions.tagged(data, number, classes) if several and number is not None else data


_SCALARS = (str, int, float, NoneType)
_FIELDS = ("model-field", "dataclass-field", "typed-dict-field")


def _nodes(schema: object) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes of a schema of pydantic-core, each with the configuration that holds in it."""
    waiting: list[tuple[object, object]] = [(schema, {})]
    while waiting:
        node, config = waiting.pop()
        if isinstance(node, (list, tuple)):
            waiting += [(each, config) for each in node]
        elif isinstance(node, dict):
            config = node.get("config") or config
            yield {**node, "config": config}
            waiting += [(each, config) for each in node.values()]


def _fields(schema: object) -> Iterator[tuple[str, Mapping[str, Any], list[list[Any]]]]:
    """Yield the fields in a schema of pydantic-core, each with its name and the paths under which it is read."""
    for node in _nodes(schema):
        named = node.get("fields")
        for key, field in named.items() if isinstance(named, dict) else [(None, each) for each in named or ()]:
            if isinstance(field, dict) and field.get("type") in _FIELDS:
                name = key or field["name"]
                yield name, field, _paths(name, field, node["config"])


def _is_required(field: Mapping[str, Any]) -> bool:
    kind = field["schema"]
    return field.get("required") is not False and not (isinstance(kind, dict) and kind.get("type") == "default")


def _paths(name: str, field: Mapping[str, Any], config: Mapping[str, object]) -> list[list[Any]]:
    alias = field.get("validation_alias")
    if alias is None or config.get("validate_by_alias") is False:
        return [[name]]
    paths = [[alias]] if isinstance(alias, str) else [alias] if isinstance(alias[0], str) else alias
    return [*paths, [name]] if config.get("validate_by_name") or config.get("populate_by_name") else paths


def _adapter(annotation: Any) -> "pydantic.TypeAdapter[object]":
    try:
        import pydantic
    except ImportError as error:
        raise ConfigurationError(f"{annotation} is read by a package that is not installed: {error}") from error
    try:
        return pydantic.TypeAdapter(_readable(annotation))
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(str(error)) from error


def _readable(annotation: Any, within: tuple[Any, ...] = ()) -> Any:
    """Return a type with the TypedDicts that pydantic reads: before Python 3.12, only those of typing_extensions."""
    if sys.version_info >= (3, 12) or annotation in within:
        return annotation
    if typing.get_args(annotation) and typing.get_origin(annotation) is not typing.Literal:
        return rebuilt(annotation, lambda part: _readable(part, within))
    if not is_typed_dict(annotation) or type(annotation).__module__ != "typing":
        return annotation
    import typing_extensions

    fields: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(annotation, include_extras=True).items():
        if typing.get_origin(kind) in (typing.Required, typing.NotRequired):
            (kind,) = typing.get_args(kind)
        kind = _readable(kind, (*within, annotation))
        fields[name] = kind if name in annotation.__required_keys__ else typing.NotRequired[kind]
    make = cast("Callable[[str, dict[str, Any]], type]", typing_extensions.TypedDict)
    result = make(annotation.__name__, fields)
    result.__doc__ = annotation.__doc__
    return result

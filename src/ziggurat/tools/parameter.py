"""Parameter: one parameter of a tool, with its schema and the conversion of a model's JSON to the function's type."""

import typing
from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache
from typing import Any

import msgspec

from ziggurat.core import codec
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.tools.arguments import (
    Problem as Problem,
    expectation,
    explain,
    makes_infinity,
    path_in,
    read,
    shown,
)
from ziggurat.tools.schema import form_of, shown_form, unfolded
from ziggurat.tools.type_parts import Part, divide
from ziggurat.tools.unions import Members
from ziggurat.tools.values import difference, key_text, numbers, plain

Dump = Callable[[Any, bool], object]
"""Returns a value as plain JSON data; without its defaults if the second argument is false."""


class Parameter(msgspec.Struct, frozen=True, eq=False):
    """A named value of a type: its schema for a model, how its JSON is read, and how it is recorded."""

    name: str
    wire: Any
    schema: dict[str, object]
    required: bool
    check: Callable[[object], object] | None = None
    dump: Dump = plain
    inexact: bool = False
    nested: bool = False
    one_way: str | None = None

    @classmethod
    def of(cls, name: str, annotation: object, *, required: bool, asked: bool = False) -> "Parameter":
        form = form_of(annotation)
        schema = shown_form(form, asked=asked)
        skeleton, parts = divide(annotation)
        whole = parts.get(skeleton)
        if whole is not None and whole.reader == "pydantic":
            from ziggurat.tools.pydantic_types import PydanticReader

            reader = PydanticReader(name, annotation, form)
            return cls(name, Any, schema, required, reader.check, reader.dump, nested=True, one_way=reader.one_way)
        if whole is not None:
            made = Members(name, annotation, form, cls.of)
            return cls(name, Any, schema, required, made.check, made.dump, nested=True, one_way=made.one_way)
        if parts:
            inner = [cls.of("", part.annotation, required=True).one_way for part in parts.values()]
            check, one_way = _in_parts(name, skeleton, parts), next(filter(None, inner), None)
            return cls(name, Any, schema, required, check, _dump_of(annotation), nested=True, one_way=one_way)
        written = msgspec.json.encode(schema)
        inexact = b'"number"' in written or b'"decimal"' in written
        wire: Any = Any if annotation is object else annotation
        return cls(name, wire, schema, required, None, plain, inexact, nested=not _flat(schema))

    @classmethod
    def of_result(cls, name: str, annotation: Any) -> "Parameter":
        """Make a parameter for a type of values that code makes, and that are read only if they were recorded."""
        try:
            parameter = cls.of(name, annotation, required=True)
        except ConfigurationError:  # such as of a class with its own `from_json`, which has no schema
            if not hasattr(annotation, "from_json"):
                raise
            return cls(name, annotation, {}, True, nested=True)
        if parameter.one_way is not None:
            raise ConfigurationError(
                f"{name}: {parameter.one_way}; values are recorded as JSON and read back, so it is to be written as it "
                "is read: under the same name, and with a default if it is not written"
            )
        return parameter

    @classmethod
    def of_asked(cls, name: str, annotation: object) -> "Parameter":
        """Make a parameter for a type of values that are asked for, such as of a person."""
        return (_of_class if isinstance(annotation, type) else _of_asked)(name, annotation)

    def convert(self, value: object) -> object:
        """Convert one plain JSON value, repairing unambiguous mistakes."""
        first: Problem | None = None
        for reading in _readings(value):
            try:
                return self.exactly(reading)
            except Problem as problem:
                if first is None or (isinstance(value, str) and isinstance(reading, dict)):
                    first = problem
        raise first or Problem(f"{self.name}: expected {expectation(self.schema)}, got {shown(value)}")

    def restore(self, value: object) -> object:
        """Convert a value that was recorded as plain JSON data back to the type, without repairs."""
        if self.check is not None:
            return self.check(value)
        try:
            return codec.convert(value, self.wire, str_keys=True, dec_hook=read_back)
        except msgspec.ValidationError:
            if (again := numbers(value)) == value:
                raise
        return codec.convert(again, self.wire, str_keys=True, dec_hook=read_back)

    def revive(self, form: object) -> object:
        try:
            return self.restore(form)
        except ValueError:
            return self.exactly(form)  # it is what was accepted, such as a number as text

    def recorded(self, value: object, *accepted: object) -> object:
        """Return the plain JSON data with which a value is recorded, which reads back as the value."""
        if type(value) is self.wire and self.is_scalar:
            return value
        wrong, place = "", None
        for whole in (True, False):
            try:
                form = self.plain(value, whole)
                if whole and makes_infinity(form, value):
                    continue  # a default, which a model may not write
                again = self.revive(form)
                place = difference(value, again)
                if place is None and codec.canonical(self.plain(again, whole)) == codec.canonical(form):
                    return form
                wrong = wrong or f"{self.name}{place or ''} is not read back as it is written"
            except RecursionError:
                wrong = wrong or "it holds itself, or is nested too deeply"
            except (TypeError, ValueError, AttributeError) as error:
                wrong = wrong or f"{error}"
        for form in (reading for each in accepted for reading in _readings(each)):
            try:
                if difference(value, self.revive(form)) is None:
                    return form
                if place is not None:
                    wrong = f"{wrong}, and its JSON gives another value each time"
            except Problem:
                continue
        raise ConfigurationError(
            f"a value of the type {type(value).__name__} cannot be recorded: {wrong}; values are recorded as JSON and "
            "read back, so their types must be annotated, and serializers and validators must fit together"
        )

    def given(self, value: object) -> object:
        """Return what `recorded` returns for a value that code gives, perhaps as a dictionary; raises as it does."""
        try:
            return self.recorded(value)
        except ConfigurationError as error:
            try:
                data = plain(value)
            except (TypeError, ValueError):
                raise error from None  # it says that the value has no JSON
            try:
                other = self.restore(data)
            except msgspec.ValidationError as misfit:
                raise ConfigurationError(self._explain(misfit, data)) from error
            except (TypeError, ValueError) as misfit:
                raise ConfigurationError(str(misfit)) from error
            if type(other) is type(value):
                raise
            return self.recorded(other, data)

    @property
    def root(self) -> dict[str, object]:
        """The schema with its root written in place, also that of a type that contains itself."""
        return unfolded(self.schema)

    @property
    def is_scalar(self) -> bool:
        conversion = self.check or self.nested or self.inexact
        special = self.schema.keys() & {"format", "contentEncoding", "enum"}
        return not (conversion or special) and self.schema.get("type") in ("string", "integer", "boolean")

    def plain(self, value: object, whole: bool = True) -> object:
        """Return a value of the parameter's type as plain JSON data, without defaults unless it is to be `whole`."""
        data: object = msgspec.json.decode(codec.canonical(self.dump(value, whole)))
        return data

    def is_plain(self, default: object) -> bool:
        """Return whether the parameter's default can be passed as JSON; null stands for the default None."""
        if default is None:
            return True
        try:
            form = self.plain(default)
            again = self.convert(form)
            # Plain data is converted, such as the value of an enum. Otherwise the function would get another value.
            return difference(again, default) is None or bool(again == default or form == default)
        except (TypeError, ValueError):
            return False

    def strictly(self, value: object) -> object:
        return codec.convert(value, self.wire, dec_hook=read_back)

    def exactly(self, value: object) -> object:
        """Convert one plain JSON value, numbers as text too; raises Problem."""
        if self.check is not None:
            return self.check(value)
        try:
            decoded: object = codec.convert(value, self.wire, strict=False, dec_hook=read_back)
        except msgspec.ValidationError as error:
            raise Problem(self._explain(error, value)) from None
        if self.inexact and makes_infinity(value, decoded):
            raise Problem(f"{self.name}: expected a finite number, got {shown(value)}")
        return decoded

    def _explain(self, error: msgspec.ValidationError, value: object) -> str:
        for key, each in value.items() if isinstance(value, dict) and "`$[...]" in str(error) else ():
            try:
                codec.convert({key: each}, self.wire, strict=False, dec_hook=read_back)
            except msgspec.ValidationError as first:
                return explain(self.name, first, {key: each}, self.schema)
        return explain(self.name, error, value, self.schema)


def _of_asked(name: str, annotation: object) -> Parameter:
    return Parameter.of(name, annotation, required=True, asked=True)


_of_class = lru_cache(128)(_of_asked)  # a run that is continued asks all again that it has asked before


def _flat(schema: dict[str, object]) -> bool:
    if isinstance(arms := schema.get("anyOf"), list):
        return all(_flat(arm) for arm in arms)
    return "enum" in schema or schema.get("type") in ("string", "integer", "number", "boolean", "null")


def _readings(value: object) -> Iterator[object]:
    """Yield a value and its possible repairs, the likeliest first."""
    yield value
    if isinstance(value, str) and value.strip():
        inner = _inner(value)
        if inner is not value:
            yield inner
            if not isinstance(inner, list) and inner is not None:
                yield [inner]
    if value is not None and not isinstance(value, list):
        yield [value]


def _inner(text: str) -> object:
    bare = text.strip()
    if bare[0] not in '[{"':
        return bare if bare != text else text
    try:
        return read(bare)
    except InvalidArguments:
        return text


def _dump_of(annotation: Any) -> Dump:
    """Return how a container with parts that msgspec does not read is written."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _dump_of(arguments[0])
    inner = [Parameter.of("", each, required=True).dump for each in arguments if each is not ...]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return lambda value, whole: {key_text(key): inner[1](each, whole) for key, each in value.items()}
    if origin is tuple and ... not in arguments:
        return lambda value, whole: [dump(each, whole) for dump, each in zip(inner, value, strict=True)]
    if isinstance(origin, type) and issubclass(origin, Set):
        return lambda value, whole: sorted((inner[0](each, whole) for each in value), key=codec.canonical)
    return lambda value, whole: [inner[0](each, whole) for each in value]


def read_back(kind: Any, value: object) -> object:
    """Read what msgspec does not: classes with their own ``from_json``, and types of the standard library."""
    reader = getattr(kind, "from_json", None)
    return codec.read_standard(kind, value) if reader is None else reader(value)


def _in_parts(name: str, skeleton: Any, parts: dict[type, Part]) -> Callable[[object], object]:
    """Return a check for a type that msgspec reads but for some parts, such as a list of two kinds of models."""
    readers = {kind: Parameter.of("", part.annotation, required=True) for kind, part in parts.items()}

    def hook(kind: type, inner: object) -> object:
        return readers[kind].exactly(inner) if kind in readers else read_back(kind, inner)

    def check(value: object) -> object:
        try:
            decoded: object = codec.convert(value, skeleton, strict=False, dec_hook=hook)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, Problem):
                path = path_in(name, error)
                raise Problem("\n".join(f"{path}{line}" for line in str(error.__cause__).split("\n"))) from None
            raise Problem(explain(name, error, value, {})) from None
        if makes_infinity(value, decoded):
            raise Problem(f"{name}: expected a finite number, got {shown(value)}")
        return decoded

    return check

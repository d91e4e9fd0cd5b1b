"""Parameter: one parameter of a tool, with its schema and the conversion of a model's JSON to the function's type."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ziggurat.core.codec import canonical
from ziggurat.core.errors import InvalidArguments
from ziggurat.tools.arguments import Problem as Problem, expectation, explain, has_infinity, path_in, read, shown
from ziggurat.tools.schema import schema_of
from ziggurat.tools.type_parts import Part, alternatives, divide, needs_plain, plain


class Parameter(msgspec.Struct, frozen=True, eq=False):
    """A named parameter as the model sees it and as the function takes it."""

    name: str
    wire: Any
    schema: dict[str, object]
    required: bool
    check: Callable[[object], object] | None = None
    dump: Callable[[object], object] | None = None
    inexact: bool = False
    nested: bool = False

    @classmethod
    def of(cls, name: str, annotation: object, *, required: bool) -> "Parameter":
        """Make a parameter for a type."""
        schema = schema_of(annotation)
        skeleton, parts = divide(annotation)
        whole = parts.get(skeleton)
        if whole is not None and whole.reader == "pydantic":
            from ziggurat.tools.type_parts import pydantic_reader

            check, dump = pydantic_reader(name, annotation)
            return cls(name, Any, schema, required, check, dump, nested=True)
        written = msgspec.json.encode(schema)
        inexact = b'"number"' in written or b'"decimal"' in written
        written_out = plain if needs_plain(skeleton if whole is None else annotation) else None
        if whole is not None:
            return cls(name, Any, schema, required, _by_members(name, annotation, schema), written_out, nested=True)
        if parts:
            return cls(name, Any, schema, required, _in_parts(name, skeleton, parts), written_out, nested=True)
        wire: Any = Any if annotation is object else annotation
        return cls(name, wire, schema, required, None, written_out, inexact, nested=not _flat(schema))

    def convert(self, value: object) -> object:
        """Convert one plain JSON value, repairing unambiguous mistakes."""
        first: Problem | None = None
        for reading in _readings(value):
            try:
                return self._exactly(reading)
            except Problem as problem:
                if first is None or (isinstance(value, str) and isinstance(reading, dict)):
                    first = problem
        raise first or Problem(f"{self.name}: expected {expectation(self.schema)}, got {shown(value)}")

    def restore(self, value: object) -> object:
        """Convert a value that was recorded as plain JSON data back to the type, without repairs."""
        return msgspec.convert(value, self.wire, str_keys=True) if self.check is None else self.check(value)

    @property
    def is_scalar(self) -> bool:
        """Whether its values are texts, whole numbers or truth values, which JSON holds as they are."""
        conversion = self.check or self.dump or self.nested or self.inexact
        special = self.schema.keys() & {"format", "contentEncoding", "enum"}
        return not (conversion or special) and self.schema.get("type") in ("string", "integer", "boolean")

    def plain(self, value: object) -> object:
        """Return a value of the parameter's type as plain JSON data."""
        data: object = msgspec.json.decode(canonical(value if self.dump is None else self.dump(value)))
        return data

    def is_plain(self, default: object) -> bool:
        """Return whether the parameter's default can be passed as JSON; null stands for the default None."""
        if default is None:
            return True
        try:
            again = self.convert(self.plain(default))
            return canonical(again) == canonical(default) or bool(again == default)
        except (TypeError, ValueError):
            return False

    def _exactly(self, value: object) -> object:
        if self.check is not None:
            return self.check(value)
        try:
            decoded: object = msgspec.convert(value, self.wire, strict=False)
        except msgspec.ValidationError as error:
            raise Problem(self._explain(error, value)) from None
        if self.inexact and has_infinity(decoded):
            raise Problem(f"{self.name}: expected a finite number, got {shown(value)}")
        return decoded

    def _explain(self, error: msgspec.ValidationError, value: object) -> str:
        """Explain the decoder's error; it does not name the entry of a mapping, so try the entries one by one."""
        for key, each in value.items() if isinstance(value, dict) and "`$[...]" in str(error) else ():
            try:
                msgspec.convert({key: each}, self.wire, strict=False)
            except msgspec.ValidationError as first:
                return explain(self.name, first, {key: each}, self.schema)
        return explain(self.name, error, value, self.schema)


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


def _by_members(name: str, annotation: object, schema: dict[str, object]) -> Callable[[object], object]:
    """Return a check for a union the decoder refuses, such as two dataclasses: first strict matches, then lax ones."""
    members = [Parameter.of(name, arm, required=True) for arm in alternatives(annotation)]

    def check(value: object) -> object:
        for member in members:
            if member.check is None:
                try:
                    return msgspec.convert(value, member.wire)
                except msgspec.ValidationError:
                    continue
        problems: list[str] = []
        for member in members:
            try:
                return member._exactly(value)
            except Problem as problem:
                problems.append(str(problem))
        # The member whose fields are all there is the one that was meant.
        inside = [each for each in problems if not each.startswith(f"{name}:") and "missing (required)" not in each]
        raise Problem(inside[0] if len(inside) == 1 else f"{name}: expected {expectation(schema)}, got {shown(value)}")

    return check


def _in_parts(name: str, skeleton: Any, parts: dict[type, Part]) -> Callable[[object], object]:
    """Return a check for a type that msgspec reads but for some parts, such as a list of two kinds of models."""
    readers = {kind: Parameter.of("", part.annotation, required=True) for kind, part in parts.items()}

    def check(value: object) -> object:
        try:
            decoded: object = msgspec.convert(
                value, skeleton, strict=False, dec_hook=lambda kind, inner: readers[kind]._exactly(inner)
            )
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, Problem):
                path = path_in(name, error)
                raise Problem("\n".join(f"{path}{line}" for line in str(error.__cause__).split("\n"))) from None
            raise Problem(explain(name, error, value, {})) from None
        if has_infinity(decoded):
            raise Problem(f"{name}: expected a finite number, got {shown(value)}")
        return decoded

    return check

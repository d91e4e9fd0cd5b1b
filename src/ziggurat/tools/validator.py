"""SchemaValidator: validate values against JSON Schema, without network access and in bounded time."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
from msgspec import Struct

from ziggurat.core import codec
from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.tools.arguments import expectation, listing, shown
from ziggurat.tools.values import mappings_in

if TYPE_CHECKING:
    import jsonschema_rs


MAX_SCHEMA = 500_000  # bytes of JSON that a schema may have
_MAX_MATCHING = 1_000_000  # characters of a value times the weight of the patterns that they may be matched with
_MAX_PATTERNS = 1_000  # weight of all patterns of a schema together
_ALL_TOLD = 20_000  # checks of one value up to which all problems are collected
_FIRST_TOLD = 500_000  # checks of one value up to which the first problem is searched for
_PATTERN_SIZE = 256 * 1024  # bytes that one pattern may take when it is compiled


_CACHE_SIZE = 64 * 1024  # bytes that the states of one pattern may take while it is matched


class SchemaValidator:
    """Validates plain JSON values against a JSON Schema: draft 2020-12, or the draft that its ``$schema`` names.

    Nothing is ever fetched, and patterns are matched in linear time. Formats are annotations, as in the standard, and
    are not checked.

    ::

        validator = SchemaValidator({"type": "object", "required": ["city"]})
        validator.problems({})          # ['city: missing (required)']

    Args:
        schema: The schema; it is compiled once.
        what: What the schema describes, for the text of errors.

    Raises:
        ConfigurationError: it is not a valid schema, refers to something outside itself, names an unknown dialect, has
            a pattern with look-around or back-references, or is too large.
        MissingExtra: the extra ``schemas`` is not installed.
    """

    __slots__ = ("_compiled", "_unfolding", "schema", "what")

    def __init__(self, schema: dict[str, Any] | bool, what: str = "the schema") -> None:
        if not isinstance(what, str):
            raise ConfigurationError(f"SchemaValidator(what=...) is a text; got {what!r}")
        self.schema: dict[str, Any] | bool = schema
        self.what: str = what
        self._compiled = _compiled(schema, what)
        self._unfolding = Unfolding.of(schema, what)

    def problems(self, value: object) -> list[str]:
        """Return what is wrong with a value, one line per problem: path, what was expected, what was given.

        Empty if it fits. At most `MAX_PROBLEMS` lines of bounded length, and one that counts the rest.
        """
        bounds = self._unfolding
        if not bounds.modest and bounds.work(value) > MAX_WORK:
            return ["arguments: nested too deep, or too long, for a schema with so many alternatives"]
        if bounds.patterns and (matching := bounds.matching(value)) > _MAX_MATCHING:
            times = matching / _MAX_MATCHING
            return [f"arguments: {times:.1f} times as much text as can be matched with the patterns of the schema"]
        if self._compiled.is_valid(value):
            return []
        return self._problems_of(value, bounds.work(value))

    def _problems_of(self, value: object, work: int) -> list[str]:
        """Return all problems, or only the first if finding all would take long."""
        if work > _FIRST_TOLD:
            return ["arguments: do not fit the schema; there is too much of them to say where"]
        if work <= _ALL_TOLD:
            return _schema_errors(self._compiled.iter_errors(value))
        from jsonschema_rs import ValidationError

        try:
            self._compiled.validate(value)
        except ValidationError as error:
            return _schema_errors([error])
        return []

    def __repr__(self) -> str:
        return f"SchemaValidator({self.what!r})"


def _compiled(schema: dict[str, Any] | bool, what: str) -> "jsonschema_rs.Validator":
    try:
        import jsonschema_rs
    except ImportError as error:
        raise MissingExtra("Holding a call to a JSON Schema of your own", "schemas") from error
    try:
        size = len(msgspec.json.encode(schema))
        if size > MAX_SCHEMA:
            raise ConfigurationError(f"{what} has {size:,} bytes of JSON; a schema may have {MAX_SCHEMA:,}")
        weight = weight_of_patterns(schema)
        if weight > _MAX_PATTERNS:
            raise ConfigurationError(f"{what} has patterns of the weight {weight:,}; they may have {_MAX_PATTERNS:,}")
        return jsonschema_rs.validator_for(
            schema,
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_SIZE, dfa_size_limit=_CACHE_SIZE),
            mask="it",
        )
    except jsonschema_rs.ValidationError as error:
        raise ConfigurationError(f"{what} is refused: {_refusal(error)}") from None
    except (RecursionError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{what} is not a JSON Schema that can be used: {error}") from None


def _refusal(error: "jsonschema_rs.ValidationError") -> str:
    if error.kind.name == "$ref" or type(error.kind).__name__ == "Referencing":
        reason = error.message.split("\n")[0][:300]
        if "meta-schema" in reason:
            return f"$schema names a dialect that is not known here: {reason}"
        return f"$ref must stay within the schema, as nothing is ever fetched; put what is meant under $defs: {reason}"
    if error.instance_path and (error.instance_path[-1] == "pattern" or "patternProperties" in error.instance_path):
        place = "/".join(map(str, error.instance_path))
        return (
            f"the pattern at {place} cannot be matched in linear time and bounded memory: look-around and "
            "back-references are not taken, nor very long repetitions, nor what is not a regular expression"
        )
    return "; ".join(_schema_errors([error]))


# -- errors ------------------------------------------------------------------------------------------------------------

_MAX_LINE = 300  # characters of one problem's text

_MISSING = ": missing (required)"
_MAX_MESSAGE = 120
_MAX_STEP = 60
_MAX_ARMS = 5


def _schema_errors(errors: "Iterable[jsonschema_rs.ValidationError]") -> list[str]:
    problems = dict.fromkeys(line for error in errors for line in _lines(error))
    lines = sorted(problems, key=lambda line: line.endswith(_MISSING))
    return listing(_short(line, _MAX_LINE) for line in lines).split("\n")


def _lines(error: "jsonschema_rs.ValidationError") -> list[str]:
    path = error.instance_path
    kind: Any = error.kind
    match kind.name:
        case "required":
            return [f"{_path([*path, kind.property])}{_MISSING}"]
        case "additionalProperties" | "unevaluatedProperties":
            what = "field" if path else "parameter"
            return [f"{_path([*path, name])}: unknown {what}" for name in kind.unexpected]
        case "falseSchema":
            return [f"{_path(path)}: not allowed, leave it out"]
        case "anyOf" | "oneOf":
            return _no_alternative(error)
    return [f"{_path(path)}: {_sentence(error)}"]


def _sentence(error: "jsonschema_rs.ValidationError") -> str:
    kind: Any = error.kind
    if kind.name == "type":
        wanted = _type_names(kind.types)
    elif kind.name == "enum":
        wanted = f"expected {expectation({'enum': kind.options})}"
    else:
        wanted = _short(error.message, _MAX_MESSAGE)
        if isinstance(error.instance, (list, dict)):
            return wanted
    return f"{wanted}, got {shown(error.instance)}"


def _type_names(names: Iterable[str]) -> str:
    ordered = dict.fromkeys(sorted(names, key=lambda each: each == "null"))
    return f"expected {' or '.join(expectation({'type': each}) for each in ordered)}"


def _no_alternative(error: "jsonschema_rs.ValidationError") -> list[str]:
    """Return why no alternative fits, or that too many do; explains only alternatives whose type fits."""
    arms: list[list[Any]] = error.kind.context  # type: ignore[attr-defined]
    path, actual = _path(error.instance_path), shown(error.instance)
    if type(error.kind).__name__ == "OneOfMultipleValid":
        return [f"{path}: fits more than one of {len(arms)} alternatives, expected exactly one; got {actual}"]
    types = [each.kind.types for arm in arms for each in arm if _is_of_type(each, error)]
    candidates = [arm for arm in arms if not any(_is_of_type(each, error) for each in arm)]
    if not candidates:
        return [f"{path}: {_type_names(each for names in types for each in names)}, got {actual}"]
    if len(candidates) == 1:
        return [line for each in candidates[0] for line in _lines(each)]
    room = _MAX_LINE // min(len(candidates), _MAX_ARMS) - 10
    texts = ["; ".join(line for each in arm[:3] for line in _lines(each)) for arm in candidates[:_MAX_ARMS]]
    return [f"{path}: fits none of the alternatives: {' | '.join(_short(text, room) for text in texts)}"]


def _is_of_type(inner: Any, error: "jsonschema_rs.ValidationError") -> bool:
    return bool(inner.kind.name == "type" and inner.instance_path == error.instance_path)


def _path(steps: list[str | int]) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{_short(step, _MAX_STEP)}"
    return text.removeprefix(".") or "arguments"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


# -- cost --------------------------------------------------------------------------------------------------------------

# A few lines of schema can cause millions of checks: references that fan out at every level, or a recursion that visits
# each child twice. Two figures give an upper bound of the work: how many checks one place in a value can need
# (`breadth`), and the factor by which that grows with each level of the value (`growth`).

_MAX_BREADTH = 100_000  # checks that one place in a value may need
MAX_WORK = 20_000_000  # checks that one whole value may need, which take a fraction of a second

_MAX_CHAIN = 200
_MAX_STEPS = 1_000_000

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_MAPPINGS = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")


class Unfolding(Struct, frozen=True):
    """Upper bounds of the work to validate values against a schema."""

    breadth: int
    growth: int
    patterns: int

    @classmethod
    def of(cls, schema: dict[str, Any] | bool, what: str) -> "Unfolding":
        return _Survey(schema, what).result() if isinstance(schema, dict) else cls(1, 1, 0)

    @property
    def modest(self) -> bool:
        """Whether the work grows only with the size of a value, so that values need not be measured."""
        return self.growth <= 1 and self.breadth <= 1_000

    def work(self, value: object) -> int:
        """Return an upper bound of the checks a value needs; counting stops above `MAX_WORK`."""
        total, checks = 0, self.breadth
        for level in _levels(value):
            total += len(level) * checks
            checks *= max(self.growth, 1)
            if total > MAX_WORK:
                break
        return total

    def matching(self, value: object) -> int:
        """Return an upper bound of the characters to match in a value, times the weight of the patterns."""
        total, times = 0, self.patterns
        for level in _levels(value):
            texts = [each for each in level if isinstance(each, str)]
            texts += [name for each in level if isinstance(each, dict) for name in each]
            total += times * sum(map(len, texts))
            times *= max(self.growth, 1)
        return total


def weight_of_patterns(schema: object) -> int:
    return sum(map(_patterns, mappings_in(schema)))


def _levels(value: object) -> Iterator[list[object]]:
    level = [value]
    while level:
        yield level
        children: list[object] = []
        for each in level:
            if isinstance(each, dict):
                children += each.values()
            elif isinstance(each, list):
                children += each
        level = children


class _Bounds(Struct):
    """The bounds at one place: its checks, how many lead into each kind of child, and the weight of its patterns."""

    checks: int
    into: Counter[str]
    patterns: int


class _Survey:
    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self.what = what
        self.root = schema
        self.parts = list(mappings_in(schema))
        self.documents = [schema] + [part for part in self.parts if "$id" in part or "id" in part]
        self.anchored: dict[str, list[dict[str, Any]]] = {}
        for part in self.parts:
            for name in _anchors_of(part):
                self.anchored.setdefault(name, []).append(part)
        self.known: dict[int, _Bounds | None] = {}
        self.steps = 0

    def result(self) -> Unfolding:
        all_bounds = [self.bounds(part, 0) for part in self.parts]
        growth = max((_growth(each.into) for each in all_bounds), default=0)
        return Unfolding(max(each.checks for each in all_bounds), growth, max(each.patterns for each in all_bounds))

    def bounds(self, part: dict[str, Any], depth: int) -> _Bounds:
        """Return the bounds for the place in a value that a part of the schema applies to."""
        if id(part) in self.known:
            known = self.known[id(part)]
            if known is None:
                raise ConfigurationError(
                    f"{self.what} has a $ref that leads back to itself without a step into the value; take it out"
                )
            return known
        if depth > _MAX_CHAIN:
            raise ConfigurationError(f"{self.what} has a chain of more than {_MAX_CHAIN} references; shorten it")
        self.known[id(part)] = None
        result = _Bounds(1, _into(part), _patterns(part))
        for each in self._beside(part):
            inner = self.bounds(each, depth + 1)
            result.checks += inner.checks
            result.into.update(inner.into)
            result.patterns += inner.patterns
            self.steps += 1 + len(inner.into)
            if result.checks > _MAX_BREADTH or self.steps > _MAX_STEPS:
                raise ConfigurationError(
                    f"{self.what} unfolds to more than {_MAX_BREADTH:,} checks of one value; use fewer references in "
                    "allOf, anyOf and oneOf"
                )
        self.known[id(part)] = result
        return result

    def _beside(self, part: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for name in _LISTS:
            yield from _schemas(part.get(name))
        for name in _SINGLE:
            yield from _schemas([part.get(name)])
        for name in _MAPPINGS:
            if isinstance(inner := part.get(name), dict):
                yield from _schemas(list(inner.values()))
        for name in _REFERENCES:
            if isinstance(reference := part.get(name), str):
                yield from self._targets(reference)

    def _targets(self, reference: str) -> list[dict[str, Any]]:
        """Return every part that a reference may point to, always including the right one."""
        base, _, fragment = reference.partition("#")
        if fragment and not fragment.startswith("/"):
            return self.anchored.get(fragment, [])
        self.steps += len(self.documents)
        documents = self.documents
        if base:
            documents = [part for part in documents if _last(str(part.get("$id", part.get("id", "")))) == _last(base)]
        targets = {id(part): part for each in documents if (part := _pointed(each, fragment)) is not None}
        return list(targets.values())


def _anchors_of(part: dict[str, Any]) -> set[str]:
    names = {part.get(name) for name in _ANCHORS} | {
        str(part.get(name, "")).partition("#")[2] for name in ("$id", "id")
    }
    return {name for name in names if isinstance(name, str) and name}


def _schemas(values: object) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _into(part: dict[str, Any]) -> Counter[str]:
    """Count how often a part leads into each kind of child: by name, into every member, and into every item."""
    counts: Counter[str] = Counter()
    if isinstance(named := part.get("properties"), dict):
        counts.update("." + name for name, each in named.items() if isinstance(each, dict))
    if isinstance(matched := part.get("patternProperties"), dict):
        counts["members"] += len(matched)
    counts["members"] += sum(isinstance(part.get(name), dict) for name in _MEMBERS)
    counts["items"] += sum(isinstance(part.get(name), dict) for name in _ITEMS)
    counts["items"] += any(isinstance(part.get(name), list) for name in ("items", "prefixItems"))
    return counts


def _growth(into: Counter[str]) -> int:
    named = max((count for name, count in into.items() if name.startswith(".")), default=0)
    return max(named + into["members"], into["items"])


def _patterns(part: dict[str, Any]) -> int:
    texts = [text for text in (part.get("pattern"),) if isinstance(text, str)]
    if isinstance(matched := part.get("patternProperties"), dict):
        texts += matched
    return sum(map(_weight, texts))


def _weight(pattern: str) -> int:
    """Return the weight of a pattern: 1 for a usual one, more if it is long or its repetitions are."""
    states = len(pattern)
    for repeated in re.findall(r"\{(?:\d*,)?(\d+),?\}", pattern):
        times = min(int(repeated[:6]), 10_000)
        states = min(states * times if "){" in pattern else states + times, 10_000)
    return 1 + states // 100


def _last(address: str) -> str:
    return address.partition("#")[0].rstrip("/").rpartition("/")[2]


def _pointed(document: Any, pointer: str) -> dict[str, Any] | None:
    from urllib.parse import unquote

    for step in pointer.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdigit() and int(name) < len(document):
            document = document[int(name)]
        else:
            return None
    return document if isinstance(document, dict) else None


_FORMATS: dict[str, tuple[Any, str]] = {
    "date": (date, "a date such as 2026-01-31"),
    "time": (time, "a time such as 18:30:00"),
    "date-time": (datetime, "a date and time such as 2026-01-31T18:30:00+01:00"),
    "duration": (timedelta, "a duration such as P1DT12H"),
    "uuid": (UUID, "a UUID"),
    "decimal": (Decimal, "a decimal number, as text"),
}
_TYPES: dict[str, Any] = {"boolean": bool, "integer": int, "number": float, "string": str, "null": None}


def misfit_of_schema(schema: dict[str, Any], value: object) -> str | None:
    """Return why a value does not fit a schema; those of simple types need no extra."""
    if not schema:
        return None
    if schema.keys() == {"enum"}:
        choices = schema["enum"]
        fits = any(canonical(value) == canonical(each) for each in choices)
        return None if fits else f"it is one of {', '.join(map(repr, choices))}, got {value!r:.200}"
    if schema.keys() == {"type"} and schema["type"] in _TYPES:
        kind, words = _TYPES[schema["type"]], f"of the type {schema['type']}"
    elif schema.keys() == {"type", "format"} and schema["format"] in _FORMATS:
        kind, words = _FORMATS[schema["format"]]
    else:
        return "; ".join(SchemaValidator(schema, "the value").problems(value)) or None
    try:
        codec.convert(value, kind)
    except msgspec.ValidationError:
        return f"it is {words}, got {value!r:.200}"
    return None

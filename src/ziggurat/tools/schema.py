"""Translate Python types into JSON Schema for models.

The dialect is JSON Schema 2020-12. Definitions are written in place where they are used, because several
providers cannot follow references; only a type that contains itself keeps its name under ``$defs``.
"""

import datetime
import math
import re
import typing
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, cast

import msgspec

from ziggurat.core.codec import container_of, is_text
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.arguments import MAX_ARGUMENTS
from ziggurat.tools.type_parts import Part, alternatives, divide, rebuilt
from ziggurat.tools.unions import shown_union
from ziggurat.tools.values import mappings_in

JSONSchema = dict[str, object]

_ANYTHING = "x-anything"
_KNOWN = (
    "built-in types, Literal, Enum, datetime types, a dataclass, an attrs class, a TypedDict, a NamedTuple, "
    "a msgspec Struct or a pydantic model"
)
_TEXTS = {
    "IPv4Address": "ipv4",
    "IPv6Address": "ipv6",
    "PurePath": "path",
    "PurePosixPath": "path",
    "PosixPath": "path",
}
_FORMATS: dict[object, object] = {
    datetime.datetime: Annotated[datetime.datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})],
    datetime.time: Annotated[datetime.time, msgspec.Meta(extra_json_schema={"format": "time"})],
}


def schema_of(annotation: object) -> JSONSchema:
    """Translate a type into JSON Schema; ``object`` and ``Any`` have no constraint."""
    return shown_form(form_of(annotation))


def shown_form(form: JSONSchema, *, asked: bool = False) -> JSONSchema:
    """Return a schema as a model sees it, or a person who is asked: the classes of unions are told apart."""
    definitions = cast("dict[str, JSONSchema]", form.get("$defs", {}))
    return cast(JSONSchema, _shown(form, definitions, asked))


def _shown(node: object, definitions: dict[str, JSONSchema], asked: bool) -> object:
    if isinstance(node, list):
        return [_shown(each, definitions, asked) for each in node]
    if not isinstance(node, dict):
        return node
    union = shown_union(node, definitions, asked) if "anyOf" in node else node
    return {
        key: each if key in ("default", "const", "enum", "examples", "required") else _shown(each, definitions, asked)
        for key, each in union.items()
    }


def unfolded(schema: JSONSchema) -> JSONSchema:
    """Return a schema whose root is written in place, also that of a type that contains itself."""
    definitions = cast("dict[str, JSONSchema]", schema.get("$defs", {}))
    root = definitions.get(_target(schema))
    return dict(schema) if root is None else {**root, **{key: each for key, each in schema.items() if key != "$ref"}}


def form_of(annotation: object) -> JSONSchema:
    if annotation is object:
        return {}
    definitions: JSONSchema = {}
    try:
        skeleton, parts = divide(annotation)
        if skeleton in parts:
            schema = _part_schema(parts[skeleton], definitions)
        else:
            schema = msgspec.json.schema(_enrich(skeleton), schema_hook=lambda kind: _hook(kind, parts, definitions))
            _check_patterns(
                msgspec.json.schema(skeleton, schema_hook=lambda kind: {"type": "null"}) if parts else schema
            )
            schema = _tidy(schema)
    except ConfigurationError:
        raise
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise ConfigurationError(_unsupported(annotation, error)) from error
    known = cast(JSONSchema, schema.get("$defs", {}))
    return {**schema, "$defs": {**known, **definitions}} if definitions else schema


def _check_patterns(schema: JSONSchema) -> None:
    for each in mappings_in(schema):
        if isinstance(pattern := each.get("pattern"), str):
            must_be_fast(pattern, each.get("maxLength", MAX_ARGUMENTS))


def _part_schema(part: Part, definitions: JSONSchema) -> JSONSchema:
    """Return the schema of a part that msgspec cannot read; its definitions are added to `definitions`."""
    if part.reader == "pydantic":
        from ziggurat.tools.pydantic_types import pydantic_schema

        return _without_definitions(_tidy(pydantic_schema(part.annotation)), definitions)
    arms = [_named(_without_definitions(form_of(arm), definitions), arm) for arm in alternatives(part.annotation)]
    note = note_of(part.annotation)
    return {"anyOf": arms} if note is None else {"anyOf": arms, "description": note}


def _named(form: JSONSchema, annotation: Any) -> JSONSchema:
    """Return the schema of a class with its name, by which it is told from others."""
    if form.get("type") != "object" or "properties" not in form:
        return form
    annotation = typing.get_args(annotation)[0] if typing.get_origin(annotation) is Annotated else annotation
    return {"title": str(getattr(annotation, "__name__", annotation)), **form}


def _without_definitions(schema: JSONSchema, definitions: JSONSchema) -> JSONSchema:
    definitions.update(cast(JSONSchema, schema.get("$defs", {})))
    return {key: value for key, value in schema.items() if key != "$defs"}


def note_of(annotation: object) -> str | None:
    """Return the description in ``Annotated`` (a string, a `msgspec.Meta` or a PEP 727 ``Doc``), or None."""
    descriptions = map(_description, getattr(annotation, "__metadata__", ()))
    return next((text for text in descriptions if text is not None), None)


def _description(note: object) -> str | None:
    text = note if isinstance(note, str) else getattr(note, "description", getattr(note, "documentation", None))
    return text if isinstance(text, str) else None


def _hook(kind: type, parts: dict[type, Part], definitions: JSONSchema) -> JSONSchema:
    if kind in parts:
        return _part_schema(parts[kind], definitions)
    if kind is object:
        return {_ANYTHING: True}
    name = getattr(kind, "__name__", "")
    if is_text(kind):
        return {"type": "string", "format": _TEXTS.get(name, name.lower())}
    if (read := container_of(kind)) is not None:
        return _without_definitions(form_of(read), definitions)
    raise NotImplementedError


def _unsupported(annotation: object, error: Exception) -> str:
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    reason = str(error).splitlines()[0]
    if isinstance(annotation, (str, typing.ForwardRef)):
        reason = "it is a text; give the type itself"
    elif reason.startswith("Generating JSON schema for custom types"):
        culprit = str(error).rpartition("type <class '")[2].partition("'")[0]
        reason = f"{culprit or name} has no known JSON form"
    elif reason.startswith("Encoding objects"):
        reason = f"a default: {reason}; give it as default_factory"
    return f"cannot make a JSON schema for {name} ({reason}); use {_KNOWN}"


def _enrich(annotation: Any) -> Any:
    """Add to the type what the schema generator omits: formats of times, and strings as descriptions."""
    if isinstance(annotation, type) and annotation in _FORMATS:
        return _FORMATS[annotation]
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        return Annotated[(_enrich(arguments[0]), *map(_described, arguments[1:]))]
    return rebuilt(annotation, _enrich)


def _described(note: object) -> object:
    """Return a note in ``Annotated``; one that is only a description as that of msgspec."""
    text = None if isinstance(note, msgspec.Meta) else _description(note)
    return note if text is None else msgspec.Meta(description=text)


def _tidy(schema: JSONSchema) -> JSONSchema:
    """Inline definitions, except recursive ones; drop titles generated from names."""
    definitions = cast("dict[str, JSONSchema]", schema.pop("$defs", {}))
    recursive = {name for name in definitions if name in _reachable(definitions[name], definitions)}
    united = set(_united(schema, definitions))
    for name, definition in definitions.items():
        if name in united and "properties" in definition:
            definition.setdefault("title", name.rpartition(".")[2])
        elif definition.get("title") == name.rpartition(".")[2]:
            del definition["title"]
    tidy = _inline(schema, definitions, recursive)
    inlined = {name: _inline(definitions[name], definitions, recursive) for name in sorted(recursive)}
    return {**tidy, "$defs": inlined} if inlined else tidy


def _inline(schema: JSONSchema, definitions: dict[str, JSONSchema], recursive: set[str]) -> JSONSchema:
    reference = _target(schema)
    if reference in definitions and reference not in recursive:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inline({**definitions[reference], **beside}, definitions, recursive)
    tidy: JSONSchema = {}
    for key, value in schema.items():
        if key in (_ANYTHING, "discriminator"):
            continue
        if key in ("properties", "patternProperties"):
            children = cast("dict[str, JSONSchema]", value)
            inlined = {name: _inline(child, definitions, recursive) for name, child in children.items()}
            tidy[key] = {name: _untitled(name, child) for name, child in inlined.items()}
        elif key in ("anyOf", "allOf", "oneOf", "prefixItems"):
            tidy[key] = [_inline(child, definitions, recursive) for child in cast("list[JSONSchema]", value)]
        elif key in ("items", "additionalProperties", "propertyNames", "not") and isinstance(value, dict):
            inner = tidy[key] = _inline(value, definitions, recursive)
            if key == "propertyNames" and isinstance(choices := inner.get("enum"), list):  # keys are texts
                tidy[key] = {"enum": list(map(str, choices))}
        else:
            tidy[key] = value
    return tidy


def _united(schema: JSONSchema, definitions: dict[str, JSONSchema]) -> Iterator[str]:
    """Yield the names of the definitions that are members of a union with others."""
    for node in mappings_in([schema, *definitions.values()]):
        if isinstance(arms := node.get("anyOf"), list):
            names = [name for arm in arms if (name := _target(arm))]
            yield from names if len(names) > 1 else ()


def _untitled(name: str, schema: JSONSchema) -> JSONSchema:
    if schema.get("title") == name.replace("_", " ").title():
        del schema["title"]
    return schema


def _target(schema: JSONSchema) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _reachable(schema: JSONSchema, definitions: dict[str, JSONSchema]) -> set[str]:
    reached: set[str] = set()
    waiting = [schema]
    while waiting:
        for name in map(_target, mappings_in(waiting.pop())):
            if name in definitions and name not in reached:
                reached.add(name)
                waiting.append(definitions[name])
    return reached


# -- patterns: `re` tries all ways in which their repeats can share a text ---------------------------------------------

_ONE = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^()|]"
_OPEN = r"\((?:\?(?:P<\w+>|[a-zA-Z-]*:|[=!>]|<[=!]|[a-zA-Z]+(?=\))))?"
_TOKEN = re.compile(rf"(?:(?P<open>{_OPEN})|(?P<atom>{_ONE})|[)|])(?P<times>[*+?]|\{{\d*,?\d*\}})?[?+]?", re.DOTALL)
_SAMPLES = [*map(chr, range(128)), "\xa0", "\xe9", "\u0663", "\u4e2d"]
_OFTEN = 32
_MOST_STEPS = 100_000_000  # they take about a second

Token = re.Match[str]


def must_be_fast(pattern: str, longest: int) -> None:
    if steps(pattern, longest) > _MOST_STEPS:
        fitting = next((each for each in (10_000, 1_000, 300, 30) if steps(pattern, each) <= _MOST_STEPS), None)
        marked = "begin or end the group with a character that is nowhere else in it, as in (-[a-z]+)*"
        raise ConfigurationError(
            f"the pattern {pattern!r} can take minutes, as parts that repeat match the same text: "
            f"{marked if fitting is None else f'add max_length={fitting:_}'}, or use a pydantic type"
        )


def steps(pattern: str, longest: int) -> float:
    """Return about how many steps `re` takes at most to match a text of so many characters."""
    # A repeat multiplies those of the ones after it by its length if it may end at several places: what follows it also
    # matches its letters. So does the place where a match begins. A repeated group takes for ever if it matches a text
    # in several ways: it may repeat if it always matches the same, if its choices begin differently, or if it begins or
    # ends with a character that is nowhere else in it.
    flags = re.DOTALL | re.IGNORECASE if "(?i" in pattern else re.DOTALL
    tokens = list(_TOKEN.finditer(pattern))
    anchored = bool(re.match(r"(\(\?\w+\))?(\^|\\A)", pattern))
    start = _letters(tokens[:1] if tokens and not _is_optional(tokens[0]) else [], flags)
    opened: list[int] = []
    count, most, pending = 1, 1, 1
    for index, token in enumerate(tokens):
        if token["open"]:
            opened.append(index)
        begin = opened.pop() if token[0][0] == ")" and opened else index
        times = _most(token)
        if begin < index and times > 1 and not _is_certain(tokens[begin + 1 : index]):
            return math.inf
        if times < _OFTEN:
            continue
        often, inner, following = int(min(times, longest)), tokens[begin : index + 1], list(_after(tokens, index))
        letters, rest = _letters(inner, flags), _letters(tokens[index + 1 :], flags)
        if following and not anchored and (not start or start & letters):
            pending, anchored = pending * longest, True
        count, pending, most = count * pending, 1, max(most, often)
        marked = any(each["atom"] and not _is_optional(each) and not rest & _letters([each], flags) for each in inner)
        pending = often if letters & _letters(following, flags) and not marked else 1
    return count * most


def _most(token: Token) -> float:
    times = token["times"] or ""
    if times in ("*", "+"):
        return math.inf
    numbers = times.strip("{}?").split(",")
    return float(numbers[-1] or ("inf" if len(numbers) > 1 else 1))


def _is_optional(token: Token) -> bool:
    return (token["times"] or "").startswith(("*", "?", "{0", "{,"))


def _letters(tokens: Iterable[Token], flags: int) -> frozenset[str]:
    return frozenset().union(*(_samples(each["atom"], flags) for each in tokens if each["atom"]))


@cache
def _samples(atom: str, flags: int) -> frozenset[str]:
    return frozenset(filter(re.compile(atom, flags).fullmatch, _SAMPLES))


def _after(tokens: list[Token], index: int) -> Iterator[Token]:
    """Yield the atoms that may follow a token, up to the first that must."""
    depth, skipped, must = 0, -1, False
    for token in tokens[index + 1 :]:
        optional = _is_optional(token)
        if token["open"]:
            depth += 1
        elif token[0][0] == ")":
            if skipped == depth and must and not optional:
                return
            skipped = -1 if skipped == depth else skipped
            depth = max(depth - 1, 0)
        elif token[0] == "|":
            skipped = depth if depth == 0 else -1 if skipped == depth else skipped
            must = must and depth > 0
        elif skipped < 0 and token["atom"]:
            yield token
            if not optional and depth == 0:
                return
            skipped, must = (depth, True) if not optional else (skipped, must)


def _is_certain(body: list[Token]) -> bool:
    written = "".join(each[0] for each in body)
    if re.fullmatch(r"[\w-]+(\|[\w-]+)*", written):
        starts = [choice[0] for choice in written.split("|")]
        return len(starts) == len(set(starts))
    if not all(each["atom"] for each in body):
        return False
    if all((each["times"] or "{1}").strip("{}").isdigit() for each in body):
        return True
    return any(_marks(edge, rest) for edge, *rest in (body, body[::-1]))


def _marks(edge: Token, rest: list[Token]) -> bool:
    """Return whether an atom is one character that no other can match."""
    letter = edge["atom"][-1]
    plain = edge["atom"] == letter != "." or (edge["atom"][0] == "\\" and not letter.isalnum())
    others = [each for each in rest if each["atom"] not in ("^", "$")]
    return plain and not edge["times"] and not any(re.fullmatch(each["atom"], letter, re.DOTALL) for each in others)

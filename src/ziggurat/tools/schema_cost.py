"""Compute how expensive a JSON Schema can be to validate, before any value is checked against it.

A few lines of schema can cause millions of checks: references that fan out at every level, or a recursion that visits
each child twice. Two figures give an upper bound of the work: how many checks one place in a value can need
(`breadth`), and the factor by which that grows with each level of the value (`growth`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError

MAX_BREADTH = 100_000
"""Checks that one place in a value may need."""

MAX_WORK = 20_000_000
"""Checks that one whole value may need, which take a fraction of a second."""

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
        """Compute the bounds of a valid schema."""
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
    """Return the weight of all patterns of a schema, each counted once; about 100 states of an automaton weigh 1."""
    return sum(map(_patterns, _parts(schema)))


def _levels(value: object) -> Iterator[list[object]]:
    """Yield the values at each depth, starting with the value itself."""
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
    """A traversal of a schema that visits every part once."""

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self.what = what
        self.root = schema
        self.parts = list(_parts(schema))
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
            if result.checks > MAX_BREADTH or self.steps > _MAX_STEPS:
                raise ConfigurationError(
                    f"{self.what} unfolds to more than {MAX_BREADTH:,} checks of one value; use fewer references in "
                    "allOf, anyOf and oneOf"
                )
        self.known[id(part)] = result
        return result

    def _beside(self, part: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the schemas that apply to the same place as a part."""
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


def _parts(schema: object) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a schema, because a reference may point to any of them."""
    waiting: list[Any] = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _anchors_of(part: dict[str, Any]) -> set[str]:
    """Return the anchor names of a part, in any dialect."""
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

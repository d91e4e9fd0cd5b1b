"""Rules: the values that an annotation allows, as a predicate and in words."""

import operator
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from decimal import Decimal
from inspect import signature
from math import isfinite
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import (
    IO,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta, ValidationError, convert

from ziggurat.core.protocols import implements, is_awaited, is_protocol, takes

_LONGEST = 200
_NOUNS: dict[Any, str] = {int: "whole number", float: "number", Decimal: "number", str: "text", bytes: "value of bytes"}
_COLLECTIONS: dict[Any, str] = {
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    Mapping: "mapping",
    dict: "dictionary",
}
_META = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "title", "description", "extra")
_BOUNDS: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
    ("ge", operator.ge, " of at least"),
    ("gt", operator.gt, " above"),
    ("le", operator.le, " up to"),
    ("lt", operator.lt, " below"),
)


class ValueRule(NamedTuple):
    """The values that an annotation allows, as a predicate and in words."""

    allows: Callable[[Any], bool]
    words: str
    item: "ValueRule | None" = None
    secret: bool = False


ANYTHING = ValueRule(lambda value: True, "anything")


def rule_of(annotation: object, names: dict[str, Any]) -> ValueRule:
    """Return the rule of an annotation; types that only a type checker knows allow anything."""
    holder = SimpleNamespace(__annotations__={"value": annotation})
    try:
        return _rule(get_type_hints(holder, names, include_extras=True)["value"])
    except NameError:
        return ANYTHING


def _rule(annotation: Any) -> ValueRule:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(args[0], [each for each in args[1:] if isinstance(each, Meta)])
    if origin is Union or origin is UnionType:
        return _either([_rule(each) for each in args])
    if origin is Literal:
        *first, last = map(repr, args)
        words = f"{', '.join(first)} or {last}" if first else last
        return ValueRule(lambda value: type(value) in map(type, args) and value in args, words)
    if annotation is None or annotation is NoneType:
        return ValueRule(lambda value: value is None, "None")
    if annotation is bool:
        return ValueRule(lambda value: isinstance(value, bool), "True or False")
    if annotation in _NOUNS:
        return _annotated(annotation, [])
    return _of_class(annotation if origin is None else origin, args)


def _of_class(kind: Any, args: tuple[Any, ...]) -> ValueRule:
    if kind is get_origin(Callable[[], None]):
        return ValueRule(callable, "a function")
    if (
        not isinstance(kind, type)
        or kind in (Any, object)
        or (kind is type and any(isinstance(each, TypeVar) for each in args))
    ):
        return ANYTHING  # any type, also one that is no class, such as list[int]
    if kind is type:
        return ValueRule(lambda value: isinstance(value, type), "a class")
    if issubclass(kind, IO):  # files are no instances of the classes of `typing`
        return ValueRule(lambda value: hasattr(value, "write") and not isinstance(value, type), "an open file")
    if is_protocol(kind):
        return _of_protocol(kind)
    items = [_rule(each) for each in args if each is not ...]
    if items and issubclass(kind, Iterable):
        return _of_tuple(items) if kind is tuple and ... not in args else _of_items(kind, items)
    return ValueRule(lambda value: isinstance(value, kind), _a(_COLLECTIONS.get(kind) or kind.__name__))


def _of_protocol(kind: type) -> ValueRule:
    if "__call__" not in vars(kind):
        has_methods = any(callable(each) for name, each in vars(kind).items() if not name.startswith("_"))
        return ValueRule(lambda value: implements(value, kind), _a(kind.__name__)) if has_methods else ANYTHING
    called = signature(vars(kind)["__call__"])
    names = list(called.parameters)[1:]
    keywords = any(each.kind is each.KEYWORD_ONLY for each in called.parameters.values())
    how = "an async callable" if is_awaited(vars(kind)["__call__"]) else "a callable"

    def allows(value: object) -> bool:
        return callable(value) and not isinstance(value, type) and (keywords or takes(value, len(names)))

    return ValueRule(allows, f"{_a(kind.__name__)}, {how} ({', '.join(each.removesuffix('_') for each in names)})")


def _of_tuple(items: list[ValueRule]) -> ValueRule:
    def allows(value: Any) -> bool:
        fits = isinstance(value, tuple) and len(value) == len(items)
        return fits and all(item.allows(each) for item, each in zip(items, value, strict=True))

    return ValueRule(allows, f"a tuple of {' and '.join(item.words for item in items)}")


def _of_items(kind: type, items: list[ValueRule]) -> ValueRule:
    """Return the rule of several values; those of an iterator are not looked at, since that would consume them."""

    def allows(value: Any) -> bool:
        if not isinstance(value, kind) or isinstance(value, (str, bytes)):
            return False
        if isinstance(value, Mapping) and len(items) == 2:
            return all(map(items[0].allows, value)) and all(map(items[1].allows, value.values()))
        return not isinstance(value, Collection) or all(map(items[0].allows, value))

    names = ("item",) if len(items) == 1 else ("key", "value")
    each = [f"each {name} {rule.words}" for name, rule in zip(names, items, strict=False) if rule is not ANYTHING]
    noun = _COLLECTIONS.get(kind, "list" if len(items) == 1 else "mapping")
    return ValueRule(
        allows, f"a {noun}, {' and '.join(each)}" if each else f"a {noun}", items[0] if len(items) == 1 else None
    )


def _either(rules: list[ValueRule]) -> ValueRule:
    if ANYTHING in rules:
        return ANYTHING
    rules = sorted(rules, key=lambda rule: rule.words == "None")
    words = list(dict.fromkeys(rule.words for rule in rules))
    separator = ", or " if any("," in each for each in words) else " or "
    item = next((rule.item for rule in rules if rule.item is not None), None)
    checks = [rule.allows for rule in rules]

    def allows(value: object) -> bool:
        for check in checks:  # noqa: SIM110 - a generator takes twice as long
            if check(value):
                return True
        return False

    return ValueRule(allows, separator.join(words), item, any(rule.secret for rule in rules))


def _annotated(kind: Any, metas: list[Meta]) -> ValueRule:
    found: dict[str, Any] = {
        name: value for meta in metas for name in _META if (value := getattr(meta, name)) is not None
    }
    title, extra = found.get("title"), found.get("extra", ())
    if kind in (int, float, Decimal):
        bounds = [(holds, found[name], words) for name, holds, words in _BOUNDS if name in found]
        rule = _of_number(kind, title, bounds, infinite="infinite" in extra)
    elif kind in (str, bytes):
        rule = ValueRule(lambda value: isinstance(value, kind), _a(title or _NOUNS[kind]))
    else:
        rule = _rule(kind)
        rule = rule._replace(words=_a(title)) if title and rule is not ANYTHING else rule
    if found.keys() & {"min_length", "max_length", "pattern"}:
        rule = _of_length(rule, kind, metas)
    if "description" in found:
        rule = rule._replace(words=f"{rule.words}, {found['description']}")
    return rule._replace(secret="secret" in extra)


def _of_number(kind: type, title: str | None, bounds: list[Any], *, infinite: bool) -> ValueRule:
    classes: Any = (int, float) if kind is float else kind

    def allows(value: Any) -> bool:
        if not isinstance(value, classes) or isinstance(value, bool):
            return False
        try:
            finite = kind is int or isfinite(value)
        except (OverflowError, ValueError):  # a whole number that is too large, a signalling NaN
            return False
        return (finite or infinite) and all(holds(value, bound) for holds, bound, _ in bounds)

    if [words for _, _, words in bounds] == [" of at least", " up to"]:
        return ValueRule(allows, f"a {title or _NOUNS[kind]} from {bounds[0][1]:g} to {bounds[1][1]:g}")
    words = " and".join(f"{words} {bound:g}" for _, bound, words in bounds)
    return ValueRule(allows, f"a {title or _NOUNS[kind]}{words.replace(' of', ',', 1) if title else words}")


def _of_length(rule: ValueRule, kind: Any, metas: list[Meta]) -> ValueRule:
    """Add the limits on the length and the pattern of a text, or the least length of a list."""
    if kind is not str:
        return rule._replace(
            allows=lambda value: rule.allows(value) and (not isinstance(value, Collection) or len(value) > 0),
            words=f"{rule.words}, at least one",
        )
    annotation = Annotated[(str, *metas)]
    blank = all(meta.min_length is None for meta in metas)

    def allows(value: object) -> bool:
        if not isinstance(value, str) or not (blank or value.strip()):
            return False
        try:
            convert(value, annotation)
        except ValidationError:
            return False
        return True

    longest = [f" of at most {meta.max_length} characters" for meta in metas if meta.max_length is not None]
    return rule._replace(allows=allows, words=f"{rule.words}{''.join(longest)}{'' if blank else ' that is not empty'}")


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOU' and name[:2] != 'Us' else 'a'} {name}"


def misfit(value: object, rule: ValueRule) -> str:
    """Describe what does not fit: one of several values, or the value itself."""
    if rule.secret:
        return f"a value of the type {type(value).__name__}"
    item = rule.item
    if item is None or (isinstance(value, (str, bytes)) and not item.allows(value)):
        return _describe(value)
    if isinstance(value, (str, bytes)) or (not isinstance(value, Collection) and item.allows(value)):
        return f"{_describe(value)}, write [{value!r:.{_LONGEST}}]"
    wrong = [each for each in value if not item.allows(each)] if isinstance(value, Collection) else []
    if not wrong:
        return _describe(value)
    inner = wrong[0].values() if isinstance(wrong[0], Mapping) else wrong[0]
    within = isinstance(inner, Collection) and not isinstance(inner, (str, bytes)) and all(map(item.allows, inner))
    star = f"; write * before {'it' if inner is wrong[0] else 'the values() of it'}: [*...]"
    return _describe(wrong[0], " among them") + (star if within else "")


def advice(value: object) -> str:
    """Return how an object, or one of a class, is passed to an agent, if it says so."""
    text = getattr(value, "passed_as", "")
    return f"; write {text}" if text and isinstance(text, str) else ""


def _describe(value: object, where: str = "") -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}{where}; make an object of it"
    if isinstance(value, Coroutine):
        name = getattr(value, "__name__", "function")
        return f"the result of {name}(){where}; pass {name} itself, do not call it"
    text = f"{value.__name__}{signature(value)}" if isinstance(value, FunctionType) else repr(value)
    return f"{text if len(text) <= _LONGEST else f'{text[:_LONGEST]}...'}{where}{advice(value)}"

"""Rules: what an annotation allows as a value, as a predicate and in words."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from inspect import signature
from math import isfinite, isnan
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    IO,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta

from ziggurat.core.protocols import implements, is_async, is_protocol, make_async, takes, wrongly_async

_CALLABLE = get_origin(Callable[[], None])
_PLAIN: dict[object, tuple[type | tuple[type, ...], str]] = {
    int: (int, "whole number"),
    float: ((int, float), "number"),
    Decimal: (Decimal, "number"),
    str: (str, "text"),
    bytes: (bytes, "value of bytes"),
}
_COLLECTIONS: dict[object, str] = {
    tuple: "tuple",
    frozenset: "frozenset",
    set: "set",
    Mapping: "mapping",
    dict: "dictionary",
}
_META = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "title", "description", "extra")


class SettingRule(NamedTuple):
    """What a setting may be."""

    allows: Callable[[object], bool]
    words: str
    item: "SettingRule | None" = None
    advice: Callable[[object], str] = lambda value: ""
    secret: bool = False


ANYTHING = SettingRule(lambda value: True, "anything")
"""The rule of annotations that say nothing that could be checked."""


def rule_of(annotation: object, names: dict[str, Any]) -> SettingRule:
    """Return the rule of an annotation."""
    holder = SimpleNamespace(__annotations__={"value": annotation})
    try:
        return _rule(get_type_hints(holder, names, include_extras=True)["value"])
    except NameError:
        return ANYTHING


def _rule(annotation: Any) -> SettingRule:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(args[0], _merged([each for each in args[1:] if isinstance(each, Meta)]))
    if origin is Union or origin is UnionType:
        return _either([_rule(each) for each in args])
    if origin is Literal:
        return SettingRule(lambda value: value.__class__ in map(type, args) and value in args, _or(map(repr, args)))
    if annotation is None or annotation is NoneType:
        return SettingRule(lambda value: value is None, "None")
    if annotation is bool:
        return SettingRule(lambda value: isinstance(value, bool), "True or False")
    if annotation is str or annotation is bytes:
        return SettingRule(lambda value: isinstance(value, annotation), _text_words(_PLAIN[annotation][1], Meta()))
    if annotation in _PLAIN:
        return _bounded(annotation, Meta())
    return _of_class(annotation if origin is None else origin, args)


def _of_class(kind: Any, args: tuple[Any, ...]) -> SettingRule:
    if kind is _CALLABLE:
        return _of_function(args)
    if not isinstance(kind, type) or kind in (Any, object):
        return ANYTHING
    if kind is type and any(isinstance(each, TypeVar) for each in args):
        return ANYTHING  # any type, also one that is no class, such as list[int]
    if kind is type:
        return SettingRule(lambda value: isinstance(value, type), "a class")
    if issubclass(kind, IO):
        return SettingRule(_is_file, "an open file")  # files are no instances of the classes of `typing`
    if is_protocol(kind):
        return _of_protocol(kind)
    items = [_rule(each) for each in args if each is not ...]
    if kind is tuple and items and ... not in args:
        return _of_tuple(items)
    if len(items) == 1 and issubclass(kind, Iterable):
        return _of_items(kind, items[0])
    if len(items) == 2 and issubclass(kind, Mapping) and items != [ANYTHING, ANYTHING]:
        return _of_mapping(kind, *items)
    return SettingRule(lambda value: isinstance(value, kind), _a(_COLLECTIONS.get(kind) or kind.__name__))


def _of_function(args: tuple[Any, ...]) -> SettingRule:
    """Return the rule of functions, of which it is known perhaps what they are called with, and what they return."""
    returns = args[-1] if args else Any
    plain = not _may_be_async(returns)
    suitable = callable if _is_called(returns) else _is_callable  # a layer may be a class: its objects are called
    count = len(args[0]) if args and isinstance(args[0], list) else None

    def allows(value: object) -> bool:
        return suitable(value) and not (plain and is_async(value)) and (count is None or takes(value, count))

    def advice(value: object) -> str:
        return "" if count is None or not suitable(value) else _uncallable(value, count)

    return SettingRule(allows, "a function (not async)" if plain else "a function", None, advice)


def _uncallable(value: object, count: int) -> str:
    return "" if takes(value, count) else f", which cannot be called with {count} argument{'' if count == 1 else 's'}"


def _of_protocol(kind: type) -> SettingRule:
    if _is_called(kind):
        return _of_called(kind)
    if not any(callable(each) for name, each in vars(kind).items() if not name.startswith("_")):
        return ANYTHING
    return SettingRule(
        lambda value: implements(value, kind) and not wrongly_async(value, kind),
        _a(kind.__name__),
        advice=lambda value: wrongly_async(value, kind) if implements(value, kind) else "",
    )


def _is_called(kind: Any) -> bool:
    """Return whether a type is a protocol of what can be called, such as a service."""
    kind = get_origin(kind) or kind
    return is_protocol(kind) and "__call__" in vars(kind)


def _of_called(kind: type) -> SettingRule:
    """Return the rule for a protocol of what can be called; the words say with which arguments."""
    called = signature(vars(kind)["__call__"])
    names = list(called.parameters)[1:]
    keywords = any(each.kind is each.KEYWORD_ONLY for each in called.parameters.values())
    arguments = ", ".join(each.removesuffix("_") for each in names)
    is_async = _may_be_async(called.return_annotation)
    how = "an async callable" if is_async else "a callable"

    def allows(value: object) -> bool:
        return callable(value) and not isinstance(value, type) and not advice(value)

    def advice(value: object) -> str:
        if not callable(value) or isinstance(value, type):
            return ""
        return (make_async(value) if is_async else "") or ("" if keywords else _uncallable(value, len(names)))

    words = f"{_a(kind.__name__)}, {how} ({arguments})"
    return SettingRule(allows, words, None, advice)


def _of_items(kind: type, item: SettingRule) -> SettingRule:
    """Return the rule for several values; those of an iterator are not looked at, since that would consume them."""

    def allows(values: object) -> bool:
        if not isinstance(values, kind) or isinstance(values, (str, bytes)):
            return False
        return not isinstance(values, Collection) or all(map(item.allows, values))

    def advice(values: object) -> str:
        items = values if isinstance(values, Collection) and not isinstance(values, (str, bytes)) else ()
        return next((item.advice(each) for each in items if not item.allows(each)), "")

    words = f"a {_COLLECTIONS.get(kind, 'list')}"
    return SettingRule(allows, words if item is ANYTHING else f"{words}, each item {item.words}", item, advice)


def _of_tuple(items: list[SettingRule]) -> SettingRule:
    def allows(values: object) -> bool:
        if not isinstance(values, tuple) or len(values) != len(items):
            return False
        return all(item.allows(value) for item, value in zip(items, values, strict=True))

    return SettingRule(allows, f"a tuple of {' and '.join(item.words for item in items)}")


def _of_mapping(kind: type, key: SettingRule, value: SettingRule) -> SettingRule:
    def allows(values: object) -> bool:
        if not isinstance(values, kind) or not isinstance(values, Mapping):
            return False
        return all(map(key.allows, values)) and all(map(value.allows, values.values()))

    each = [f"each {what} {rule.words}" for what, rule in (("key", key), ("value", value)) if rule is not ANYTHING]
    return SettingRule(allows, f"a {_COLLECTIONS.get(kind, 'mapping')}, {' and '.join(each)}")


def _is_callable(value: object) -> bool:
    """Return whether a value can be called; a class whose objects are meant to be called cannot stand for one."""
    forgotten = isinstance(value, type) and any("__call__" in vars(base) for base in value.__mro__)
    return callable(value) and not forgotten


def _is_file(value: object) -> bool:
    return callable(getattr(value, "write", None)) and not isinstance(value, type)


def _may_be_async(returns: Any) -> bool:
    if get_origin(returns) in (Union, UnionType):
        return any(map(_may_be_async, get_args(returns)))
    name = getattr(get_origin(returns) or returns, "__name__", "")
    return returns is Any or returns is object or name in ("Awaitable", "Coroutine", "TypeVar")


def _either(rules: list[SettingRule]) -> SettingRule:
    if ANYTHING in rules:
        return ANYTHING
    checks = [rule.allows for rule in sorted(rules, key=lambda rule: rule.words != "None")]
    words = sorted(dict.fromkeys(rule.words for rule in rules), key=lambda each: each == "None")
    item = next((rule.item for rule in rules if rule.item is not None), None)
    separator = ", or " if any("," in each for each in words) else " or "

    def allows(value: object) -> bool:
        for check in checks:  # noqa: SIM110 - a generator takes twice as long
            if check(value):
                return True
        return False

    return SettingRule(
        allows,
        separator.join(words),
        item,
        lambda value: "".join(rule.advice(value) for rule in rules),
        secret=any(rule.secret for rule in rules),
    )


def _merged(metas: Iterable[Meta]) -> Meta:
    """Return several annotations in one; the last one wins."""
    bounds = {name: value for meta in metas for name in _META if (value := getattr(meta, name)) is not None}
    return Meta(**bounds)


def _annotated(kind: Any, meta: Meta) -> SettingRule:
    if kind in _PLAIN:
        rule = _bounded(kind, meta)
    else:
        rule = _rule(kind)
        if rule is not ANYTHING and meta.title:
            rule = rule._replace(words=_a(meta.title))
        if meta.min_length:
            rule = _not_empty(rule)
    if (meta.extra or {}).get("secret"):
        rule = rule._replace(secret=True)
    return rule._replace(words=f"{rule.words}, {meta.description}") if meta.description else rule


def _not_empty(rule: SettingRule) -> SettingRule:
    def allows(value: object) -> bool:
        return rule.allows(value) and (not isinstance(value, Collection) or len(value) > 0)

    return rule._replace(allows=allows, words=f"{rule.words}, at least one")


def _bounded(kind: Any, meta: Meta) -> SettingRule:
    classes, noun = _PLAIN[kind]
    noun = meta.title or noun
    infinite = bool((meta.extra or {}).get("infinite"))

    def allows(value: object) -> bool:
        return isinstance(value, classes) and not isinstance(value, bool) and holds(value)

    def holds(value: Any) -> bool:
        if kind in (str, bytes):
            return _has_length(value, meta)
        return (infinite or kind is int or is_finite(value)) and _is_within(value, meta)

    return SettingRule(allows, _text_words(noun, meta) if kind in (str, bytes) else _number_words(noun, meta))


def _has_length(value: Any, meta: Meta) -> bool:
    text = value.strip() if isinstance(value, str) and meta.min_length else value
    return (
        (meta.min_length or 0) <= len(text)
        and (meta.max_length is None or len(value) <= meta.max_length)
        and (meta.pattern is None or re.search(meta.pattern, value) is not None)
    )


def _is_within(value: float, meta: Meta) -> bool:
    return (
        not (isinstance(value, float) and isnan(value))
        and (meta.ge is None or value >= meta.ge)
        and (meta.gt is None or value > meta.gt)
        and (meta.le is None or value <= meta.le)
        and (meta.lt is None or value < meta.lt)
    )


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number; booleans and infinity are not."""
    if isinstance(value, Decimal):
        return value.is_finite()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return False


def _number_words(noun: str, meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f"a {noun} from {meta.ge:g} to {meta.le:g}"
    of = "," if " of " in noun else " of"  # "a number of seconds, at least 1"
    bounds = (f"{of} at least", meta.ge), (" above", meta.gt), (" up to", meta.le), (" below", meta.lt)
    return f"a {noun}" + " and".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)


def _text_words(noun: str, meta: Meta) -> str:
    if meta.pattern is not None:
        return f"a {noun}"
    longest = "" if meta.max_length is None else f" of at most {meta.max_length} characters"
    return f"a {noun}{longest}{' that is not empty' if meta.min_length else ''}"


def _or(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOU' and name[:2] != 'Us' else 'a'} {name}"

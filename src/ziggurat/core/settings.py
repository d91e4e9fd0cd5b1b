"""Settings: their types and bounds are declared in annotations, and checked when an object is made.

::

    class Bulkhead:
        @checked
        def __init__(self, limit: PositiveInt, *, queue: NonNegativeInt = 1_000) -> None: ...

A value that does not fit raises `ConfigurationError`: "Bulkhead(limit=...) is a whole number of at least 1; got 0". The
bounds are those of `msgspec.Meta`. A boolean is no number here, and a number is finite. Of functions it is not checked
what they take and return.
"""

import inspect
import operator
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Set
from decimal import Decimal
from functools import lru_cache, wraps
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, Protocol, TypeVar, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.similar import similar
from ziggurat.core.tasks import is_awaited

R = TypeVar("R")
P = ParamSpec("P")


def is_protocol(kind: object) -> bool:
    return isinstance(kind, type) and Protocol in kind.__bases__


def implements(value: object, protocol: type) -> bool:
    # Unlike ``isinstance``, which from Python 3.12 on does not see what ``__getattr__`` returns, it asks the object
    # itself, so that a store may delegate to another. A class is no implementation; its instances are.
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _methods(protocol))


@lru_cache(maxsize=512)
def _methods(protocol: type) -> tuple[str, ...]:
    return tuple(
        name
        for kind in protocol.__mro__
        for name, each in vars(kind).items()
        if callable(each) and not name.startswith("_")
    )


def takes(value: Any, count: int) -> bool:
    """Return whether something can be called with so many arguments, as far as its inspect.signature is known."""
    try:
        inspect.signature(value).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a class or function that is not written in Python
        pass
    return True


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


class ValueRule(Struct, frozen=True):
    """The values that an annotation allows, and the words for them."""

    words: str
    kind: Any = object  # a class, or several
    holds: Callable[[Any], bool] | None = None
    items: tuple["ValueRule", ...] = ()  # one for all items, those for keys and values, or one for each item
    each: bool = False
    either: tuple["ValueRule", ...] = ()  # of which one allows the value
    secret: bool = False

    def allows(self, value: Any) -> bool:
        fits = isinstance(value, self.kind)
        for rule in self.either:
            if fits := rule.allows(value):
                break
        if not fits or (self.holds is not None and not self.holds(value)):
            return False
        if not self.items:
            return True
        if isinstance(value, (str, bytes)):
            return False
        if self.each:
            return len(value) == len(self.items) and all(map(ValueRule.allows, self.items, value))
        if isinstance(value, Mapping) and len(self.items) == 2:
            return all(map(self.items[0].allows, value)) and all(map(self.items[1].allows, value.values()))
        # The items of an iterator are not looked at, since that would consume them.
        return not isinstance(value, Collection) or all(map(self.items[0].allows, value))

    @property
    def item(self) -> "ValueRule | None":
        """The rule for all items; None if there is none."""
        if len(self.items) == 1 and not self.each:
            return self.items[0]
        return next((rule.item for rule in self.either if rule.item is not None), None)


ANYTHING = ValueRule("anything")

_FIXED: dict[Any, ValueRule] = {
    **dict.fromkeys((Any, object), ANYTHING),
    **dict.fromkeys((None, types.NoneType), ValueRule("None", types.NoneType)),
    bool: ValueRule("True or False", bool),
    type: ValueRule("a class", type),
    Callable: ValueRule("a function", Callable),
    # Files are no instances of the classes of `typing`.
    **dict.fromkeys(
        (typing.IO, typing.TextIO, typing.BinaryIO),
        ValueRule("an open file", holds=lambda value: hasattr(value, "write") and not isinstance(value, type)),
    ),
}
"""The rules of types that have neither bounds nor items."""


def rule_of(annotation: object, names: dict[str, Any]) -> ValueRule:
    """Return the rule of an annotation; types that only a type checker knows allow anything."""
    holder = types.SimpleNamespace(__annotations__={"value": annotation})
    try:
        kind = typing.get_type_hints(holder, names, include_extras=True)["value"]
    except (NameError, TypeError) as error:  # TypeError: the unknown type has items
        unknown = getattr(error, "name", None)
        return rule_of(annotation, {**names, unknown: Any}) if unknown else ANYTHING
    try:
        return _known_rule(kind)  # most arguments of a verb are those of others
    except TypeError:  # it holds something without a hash
        return _rule(kind)


def is_typed_dict(kind: object) -> bool:
    """Return whether a type is a TypedDict, of typing_extensions too, which `typing.is_typeddict` may not know."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__")


def _without_items(kind: Any) -> Any:
    """Return a type without what its collections contain: a dependency may be large, and each run checks it."""
    origin: Any = typing.get_origin(kind)
    if origin is Annotated:
        return _without_items(kind.__origin__)
    if origin is typing.Union or origin is types.UnionType:
        return typing.Union[tuple(map(_without_items, typing.get_args(kind)))]  # noqa: UP007 - made at run time
    if isinstance(kind, typing.NewType):
        return _without_items(kind.__supertype__)
    if kind is float:
        return Annotated[float, Meta(extra={"infinite": True})]
    if is_typed_dict(kind):
        return dict
    return origin if isinstance(origin, type) and origin is not Callable else kind


def outer_rule(kind: Any) -> ValueRule:
    """Return the rule of a type, but not of what its collections contain."""
    return rule_of(_without_items(kind), {})


def _rule(annotation: Any) -> ValueRule:
    kind, args = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    match kind:
        case typing.Annotated:
            return _annotated(args[0], [each for each in args[1:] if isinstance(each, Meta)])
        case typing.Union | types.UnionType:
            return _either([_rule(each) for each in args])
        case typing.Literal:
            *first, last = map(repr, args)
            words = f"{', '.join(first)} or {last}" if first else last
            return ValueRule(words, holds=lambda value: type(value) in map(type, args) and value in args)
    if kind in _NOUNS:
        return _annotated(kind, [])
    if kind is Callable and args and isinstance(args[0], list):
        return _of_function(args[0])
    if kind in _FIXED:
        return ANYTHING if kind is type and any(isinstance(each, TypeVar) for each in args) else _FIXED[kind]
    if not isinstance(kind, type):
        return ANYTHING
    if is_protocol(kind):
        return _of_protocol(kind)
    if args and issubclass(kind, Iterable):
        return _of_items(
            kind, [_rule(each) for each in args if each is not ...], each=kind is tuple and ... not in args
        )
    return ValueRule(_a(_COLLECTIONS.get(kind) or kind.__name__), kind)


_known_rule: Callable[[Any], ValueRule] = lru_cache(maxsize=512)(_rule)


def _of_function(parameters: list[Any]) -> ValueRule:
    if any(typing.get_origin(each) is typing.Unpack for each in parameters):
        return _FIXED[Callable]
    count = len(parameters)
    words = f"a function of {count} argument{'' if count == 1 else 's'}"
    return ValueRule(words, Callable, lambda value: takes(value, count))


def _of_protocol(kind: type) -> ValueRule:
    if "__call__" not in vars(kind):
        return ValueRule(_a(kind.__name__), holds=lambda value: implements(value, kind)) if _methods(kind) else ANYTHING
    called = inspect.signature(vars(kind)["__call__"])
    names = list(called.parameters)[1:]
    keywords = any(each.kind is each.KEYWORD_ONLY for each in called.parameters.values())
    how = "an async callable" if is_awaited(vars(kind)["__call__"]) else "a callable"

    def holds(value: object) -> bool:
        return not isinstance(value, type) and (keywords or takes(value, len(names)))

    words = f"{_a(kind.__name__)}, {how} ({', '.join(each.removesuffix('_') for each in names)})"
    return ValueRule(words, Callable, holds)


def _of_items(kind: type, items: list[ValueRule], *, each: bool) -> ValueRule:
    if each:
        return ValueRule(f"a tuple of {' and '.join(item.words for item in items)}", kind, items=(*items,), each=True)
    names = ("item",) if len(items) == 1 else ("key", "value")
    parts = [f"each {name} {rule.words}" for name, rule in zip(names, items, strict=False) if rule is not ANYTHING]
    words = f"a {_COLLECTIONS.get(kind, 'list' if len(items) == 1 else 'mapping')}"
    return ValueRule(f"{words}, {' and '.join(parts)}" if parts else words, kind, items=(*items,))


def _either(rules: list[ValueRule]) -> ValueRule:
    if ANYTHING in rules:
        return ANYTHING
    words = [*dict.fromkeys(rule.words for rule in rules)]
    if "None" in words:
        words.remove("None")
        words.append("None")
    separator = ", or " if "," in "".join(words) else " or "
    return ValueRule(separator.join(words), either=(*rules,), secret=any(rule.secret for rule in rules))


def _annotated(kind: Any, metas: list[Meta]) -> ValueRule:
    found: dict[str, Any] = {
        name: value for meta in metas for name in _META if (value := getattr(meta, name)) is not None
    }
    title, extra = found.get("title"), found.get("extra", ())
    if kind in (int, float, Decimal):
        bounds = [(holds, found[name], words) for name, holds, words in _BOUNDS if name in found]
        rule = _of_number(kind, title, bounds, infinite="infinite" in extra)
    elif kind in (str, bytes):
        rule = ValueRule(_a(title or _NOUNS[kind]), kind)
    else:
        rule = _rule(kind)
        rule = replace(rule, words=_a(title)) if title and rule is not ANYTHING else rule
    if found.keys() & {"min_length", "max_length", "pattern"}:
        rule = _of_length(rule, kind, metas)
    if "description" in found:
        rule = replace(rule, words=f"{rule.words}, {found['description']}")
    return replace(rule, secret=True) if "secret" in extra else rule


def _of_number(kind: type, title: str | None, bounds: list[Any], *, infinite: bool) -> ValueRule:
    def holds(value: Any) -> bool:
        if isinstance(value, bool):
            return False
        try:
            finite = kind is int or isfinite(value)
        except (OverflowError, ValueError):  # a whole number that is too large, a signalling NaN
            return False
        return (finite or infinite) and all(holds(value, bound) for holds, bound, _ in bounds)

    if [words for _, _, words in bounds] == [" of at least", " up to"]:
        words = f" from {bounds[0][1]:g} to {bounds[1][1]:g}"
    else:
        words = " and".join(f"{words} {bound:g}" for _, bound, words in bounds)
        words = words.replace(" of", ",", 1) if title else words
    return ValueRule(f"a {title or _NOUNS[kind]}{words}", (int, float) if kind is float else kind, holds)


def _of_length(rule: ValueRule, kind: Any, metas: list[Meta]) -> ValueRule:
    if kind is not str:
        words = f"{rule.words}, at least one"
        return replace(rule, words=words, holds=lambda value: not isinstance(value, Collection) or len(value) > 0)
    annotation = Annotated[(str, *metas)]
    blank = all(meta.min_length is None for meta in metas)

    def holds(value: str) -> bool:
        try:
            msgspec.convert(value, annotation)
        except msgspec.ValidationError:
            return False
        return blank or bool(value.strip())

    longest = [f" of at most {meta.max_length} characters" for meta in metas if meta.max_length is not None]
    words = f"{rule.words}{''.join(longest)}{'' if blank else ' that is not empty'}"
    return replace(rule, words=words, holds=holds)


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOU' and name[:2] != 'Us' else 'a'} {name}"


def misfit(value: object, rule: ValueRule, *, listed: bool = False) -> str:
    """Describe what does not fit: one of several values, or the value itself; `listed` if the parameter takes many."""
    if rule.secret:
        return f"a value of the type {type(value).__name__}"
    item = rule.item
    items = list(value) if isinstance(value, (list, tuple)) and item is None else []
    if items and (listed or len(items) == 1) and all(map(rule.allows, items)):
        return f"{_describe(value)}; pass its items without the list"
    if item is None or (isinstance(value, (str, bytes)) and not (value.strip() and item.allows(value))):
        return _describe(value)
    if isinstance(value, (str, bytes)) or (not isinstance(value, Collection) and item.allows(value)):
        return f"{_describe(value)}, write [{value!r:.{_LONGEST}}]"
    wrong = [each for each in value if not item.allows(each)] if isinstance(value, Collection) else []
    if not wrong:
        return _describe(value)
    inner = wrong[0].values() if isinstance(wrong[0], Mapping) else wrong[0]
    within = isinstance(inner, Collection) and not isinstance(inner, (str, bytes)) and all(map(item.allows, inner))
    if inner is not wrong[0]:  # the fields of a dictionary are text, whatever it stands for
        within = within and not any(isinstance(each, str) for each in inner)
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
    text = f"{value.__name__}{inspect.signature(value)}" if isinstance(value, types.FunctionType) else repr(value)
    return f"{text if len(text) <= _LONGEST else f'{text[:_LONGEST]}...'}{where}{advice(value)}"


ARGUMENTS = (
    dict.fromkeys(("system", "system_prompt", "system_message", "prompt"), "Agent(instructions=...)")
    | dict.fromkeys(("model_settings",), "Agent(settings=ModelSettings(...))")
    | {
        each: f"Agent(settings=ModelSettings({each}=...))"
        for each in ("temperature", "max_tokens", "top_p", "tool_choice")
    }
    | dict.fromkeys(("max_turns", "max_iterations", "recursion_limit"), "Agent(max_steps=...)")
    | dict.fromkeys(("output_type", "result_type", "response_format", "response_model"), "Agent(output=...)")
    | dict.fromkeys(("handoffs", "sub_agents"), "handoffs(agent, other) of ziggurat.teams")
    | dict.fromkeys(("usage_limits",), "budget=Budget(...)")
    | dict.fromkeys(("thread_id", "session_id", "conversation_id"), "run(..., session=...)")
    | dict.fromkeys(("message_history", "chat_history", "messages"), "run(..., history=...)")
    | {"functions": "Agent(tools=[...])", "llm": "Agent(model)", "callbacks": "run(..., listeners=[...])"}
    | dict.fromkeys(("guardrails", "hooks", "plugins"), "Agent(middleware=[...])")
    | dict.fromkeys(("context", "deps_type"), "run(..., deps={KEY: value})")
    | dict.fromkeys(("stream",), "async with agent.stream(...) as events")
)
"""The form to write, by the keyword argument of an agent or a run."""

OF_AGENTS = frozenset(
    ("tools", "instructions", "name", "description", "output", "output_validator", "settings", "max_steps")
).union(("stop", "timeout", "budget", "middleware", "store", "debug"))
"""The arguments of an agent that a run does not have."""

OF_RUNS = frozenset(
    ["history", "deps", "listeners", "run_id", "session", "labels", "environment", "detached", "decisions", "strict"]
)
"""The arguments of a run that an agent does not have."""

_CREDENTIALS = frozenset(("headers", "auth", "api_key", "credentials", "bearer"))

_SHARED = frozenset(("instructions", "history"))
"""Agents and runs are known by these arguments; nothing else has the names of other libraries."""


def meant_by(name: str, known: Set[str]) -> str:
    """Return the argument that was probably meant, as the end of an error's text; empty if that is unclear."""
    if name in ARGUMENTS and not _SHARED.isdisjoint(known):
        return f"; write {ARGUMENTS[name]}"
    if name in OF_AGENTS and "history" in known:
        return f"; write Agent({name}=...)"
    if name in OF_RUNS and "instructions" in known:
        return f"; write run(..., {name}=...)"
    if name in _CREDENTIALS and "token" in known:
        return "; pass the credentials as token=..."
    return "".join(f"; did you mean {each!r}?" for each in similar(name, known))


PositiveInt = Annotated[int, Meta(ge=1)]
"""A whole number of at least 1."""

NonNegativeInt = Annotated[int, Meta(ge=0)]
"""A whole number of at least 0."""

PositiveFloat = Annotated[float, Meta(gt=0)]
"""A number above 0."""

NonNegativeFloat = Annotated[float, Meta(ge=0)]
"""A number of at least 0."""

Fraction = Annotated[float, Meta(ge=0, le=1)]
"""A number from 0 to 1."""

Share = Annotated[float, Meta(gt=0, le=1)]
"""A number above 0 and up to 1."""

Seconds = Annotated[float, Meta(gt=0, title="number of seconds")]
"""A time in seconds, above 0."""

NonNegativeSeconds = Annotated[float, Meta(ge=0, title="number of seconds")]
"""A time in seconds, which may be 0."""

SecondsOrForever = Annotated[float, Meta(ge=0, title="number of seconds", extra={"infinite": True})]
"""A time in seconds, which may be 0 or infinite."""

NonEmptyText = Annotated[str, Meta(min_length=1)]
"""A text that is not blank."""

SecretText = Annotated[str, Meta(extra={"secret": True})]
"""A text such as a key; of what is passed in its place, only the type is shown."""

Decorated = Annotated[Callable[..., Any] | None, Meta(title="function; a name is passed as name=...")]
"""The function below a decorator; None where the decorator is called with settings first."""

SHARED = Meta(description="made once and passed to all that share it")
"""For objects that several layers or agents share."""


class Settings:
    """The rules of settings, read when they are first checked: of parameters of functions, or fields of classes."""

    def __init__(self, names: Iterable[str], *owners: Any) -> None:
        self._names = tuple(names)
        self._owners = owners
        self._rules: dict[str, ValueRule] | None = None

    def check(self, where: str, values: Iterable[tuple[str, object]]) -> None:
        rules = self._rules
        if rules is None:
            rules = self._rules = self._read()
        for name, value in values:
            rule = rules.get(name)
            if rule is not None and not rule.allows(value):
                parameter = name if name.startswith("*") else f"{name}=..."
                got = misfit(value, rule, listed=parameter is name)
                raise ConfigurationError(f"{where}({parameter}) is {rule.words}; got {got}")

    def _read(self) -> dict[str, ValueRule]:
        rules: dict[str, ValueRule] = {}
        for owner in self._owners:
            for each in reversed(owner.__mro__[:-1]) if isinstance(owner, type) else (owner,):
                space = vars(sys.modules[each.__module__]) if isinstance(each, type) else each.__globals__
                annotations: dict[str, object] = getattr(each, "__annotations__", {})
                for name in self._names:
                    if (declared := name.lstrip("*")) in annotations:
                        rules[name] = rule_of(annotations[declared], space)
        return rules


def checker(function: Callable[..., Any]) -> Callable[[tuple[object, ...], Mapping[str, object]], None]:
    """Return what checks the arguments of a function by their annotations; see `checked`."""
    code: types.CodeType = function.__code__
    names = code.co_varnames
    count, listed = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    positional = names[:count]
    rest = f"*{names[listed]}" if code.co_flags & inspect.CO_VARARGS else ""
    others = f"**{names[listed + bool(rest)]}" if code.co_flags & inspect.CO_VARKEYWORDS else ""
    unpacked = function.__annotations__.get(others[2:])
    declared = typing.get_args(unpacked) if typing.get_origin(unpacked) is typing.Unpack else ()
    known = frozenset(names[:listed]).union(*(each.__annotations__ for each in declared))
    settings = Settings([*known, rest, others], *declared, function)
    constructs = function.__name__ == "__init__"

    def check(args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        where = type(args[0]).__name__ if constructs else function.__name__
        if len(args) > count and not rest and listed > count:
            leading = " and ".join(name for name in positional if name not in ("self", "cls")) or "nothing"
            by_name = ", ".join(names[count:listed])
            raise TypeError(f"{where}() takes {leading} by position; pass the others by name: {by_name}")
        settings.check(where, zip(positional, args, strict=False))
        if kwargs:
            if declared or not others:
                _refuse_unknown(where, kwargs, known, function.__annotations__)
            settings.check(where, kwargs.items())
            settings.check(where, ((others, kwargs[name]) for name in kwargs.keys() - known))
        if rest:
            settings.check(where, ((rest, value) for value in args[count:]))

    return check


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a constructor, or of a function such as `tool`, by their annotations; defaults are not.

    Those of ``**arguments: typing.Unpack[...]`` are checked by the TypedDict that declares them.
    """
    check = checker(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        check(args, kwargs)
        return function(*args, **kwargs)

    @wraps(function)
    async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
        check(args, kwargs)
        return await cast("Callable[P, Awaitable[Any]]", function)(*args, **kwargs)

    return cast("Callable[P, R]", call_async) if inspect.iscoroutinefunction(function) else call


def _refuse_unknown(
    where: str, keywords: Iterable[str], known: Collection[str], annotations: Mapping[str, object]
) -> None:
    """Raise TypeError for the first keyword that is not known; the message names the one that was probably meant."""
    for name in keywords:
        if name not in known:
            takes = {*known} - {"self", "cls"}
            meant = meant_by(name, takes) or _place_of(name, annotations) or f"; it takes {', '.join(sorted(takes))}"
            raise TypeError(f"{where}() got an unexpected keyword argument {name!r}{meant}") from None


def _place_of(name: str, annotations: Mapping[str, object]) -> str:
    """Return the argument whose settings have such a field, as the end of an error's text; empty if there is none."""
    for argument, annotation in annotations.items():
        for each in (annotation, *typing.get_args(annotation)):
            if isinstance(each, _CheckedMeta) and name in each.__struct_fields__:
                return f"; write {argument}={each.__name__}({name}=...)"
    return ""


_FIELDS: dict[type, tuple[Settings, tuple[tuple[str, object], ...]]] = {}


class _CheckedMeta(msgspec.StructMeta):
    """Names the field that was probably meant by a misspelt one; msgspec names the misspelt one only."""

    if not TYPE_CHECKING:  # type checkers know the fields

        def __call__(self, *values, **fields):
            try:
                return super().__call__(*values, **fields)
            except TypeError:
                _refuse_unknown(self.__name__, fields, self.__struct_fields__, {})
                raise


class CheckedStruct(Struct, frozen=True, metaclass=_CheckedMeta):
    """A struct whose fields, but not defaults, are checked by their annotations when it is made."""

    def __post_init__(self) -> None:
        kind = type(self)
        checks = _FIELDS.get(kind)
        if checks is None:
            names, defaults = kind.__struct_fields__, kind.__struct_defaults__
            padded = [msgspec.NODEFAULT] * (len(names) - len(defaults)) + list(defaults)
            checks = _FIELDS[kind] = Settings(names, kind), tuple(zip(names, padded, strict=True))
        settings, fields = checks
        values = [(name, value) for name, default in fields if (value := getattr(self, name)) is not default]
        settings.check(kind.__name__, values)

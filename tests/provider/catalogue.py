"""The catalogue of quirks: the functions that make them, with what a good client does."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec, get_args

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.errors import ConfigurationError
from ziggurat.fake_provider import Quirk

P = ParamSpec("P")

Kind = Literal[
    "cut", "stream", "slow", "rate limit", "outage", "refusal", "call", "several calls", "body", "connection"
]
"""The kinds of fault, in the order in which quirks are listed."""


class QuirkInfo(Struct, frozen=True):
    """The list entry of a quirk.

    Attributes:
        name: The name of the function that makes it.
        kind: The kind of fault.
        says: What it does, in one line.
        good: How a good client reacts.
        settings: Its parameters with their defaults, as text.
        make: The function that makes it.
    """

    name: str
    kind: Kind
    says: str
    good: str
    settings: str
    make: Callable[..., Quirk]


_ENTRIES: dict[str, QuirkInfo] = {}


def quirk_maker(kind: Kind, good: str = "") -> Callable[[Callable[P, Quirk]], Callable[P, Quirk]]:
    """Register a function that makes quirks; the quirks are named after the function and its arguments.

    The first line of its docstring says what the quirk does; `good`, or the text after ``Good client:``, how a client
    should react.
    """

    def enter(make: Callable[P, Quirk]) -> Callable[P, Quirk]:
        name = make.__name__
        says, _, rest = inspect.cleandoc(make.__doc__ or "").partition("\n")
        reaction = good or " ".join(rest.partition("Good client:")[2].partition("\n\n")[0].split())

        @wraps(make)
        def make_named(*args: P.args, **kwargs: P.kwargs) -> Quirk:
            settings_text = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
            return replace(make(*args, **kwargs), name=f"{name}({', '.join(settings_text)})")

        settings = ", ".join(
            parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
            for parameter in inspect.signature(make).parameters.values()
        )
        _ENTRIES[name] = QuirkInfo(name, kind, says, reaction, settings, make_named)
        return make_named

    return enter


def entries() -> tuple[QuirkInfo, ...]:
    """Return the entries of all quirks, by kind and name."""
    return tuple(sorted(_ENTRIES.values(), key=lambda entry: (get_args(Kind).index(entry.kind), entry.name)))


_LIMITS = ("first", "after", "on", "when")


def parsed(text: str) -> Quirk:
    """Return a quirk from its command-line form: ``cut=120``, ``status=429,retry_after=2,first=3``.

    The name of the first setting may be omitted. ``first``, ``after``, ``on`` and ``when`` limit it to some requests.
    Several numbers are joined by ``+``, as in ``split=10+20``.

    Raises:
        ConfigurationError: there is no such quirk, or a value is not valid.
    """
    name, _, rest = text.partition("=")
    name, _, more = name.partition(",")
    entry = _ENTRIES.get(name)
    if entry is None:
        raise ConfigurationError(f"there is no quirk {name!r}; there are {', '.join(sorted(_ENTRIES))}")
    parameters = inspect.signature(entry.make).parameters
    settings: dict[str, object] = {}
    limits: dict[str, str] = {}
    assignments = f"{more}={rest}" if more else rest
    for at, word in enumerate(assignments.split(",") if assignments else ()):
        key, equals, value = word.partition("=")
        if not equals and at == 0:
            key, value = next(iter(parameters), ""), word
        if key in _LIMITS:
            limits[key] = value
        elif key in parameters:
            settings[key] = _value(value, parameters[key].default)
        else:
            raise ConfigurationError(f"the quirk {name} has no setting {key!r}; it has ({entry.settings})")
    try:
        quirk = entry.make(**settings)
        for key, value in limits.items():
            values: list[str | int] = [value] if key == "when" else [int(number) for number in value.split("+")]
            quirk = getattr(quirk, key)(*values)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the quirk {text!r} is not valid: {error}") from error
    return quirk


def _value(text: str, default: object) -> object:
    """Parse a value, as the type of the setting's default requires."""
    if isinstance(default, str):
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if isinstance(default, tuple):
        return tuple(_value(each, None) for each in text.split("+"))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

"""Quirks: single deviations of a provider from its documentation; and the list of all quirks."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec, get_args

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked
from ziggurat.testing.server.types import HttpResponse, Piece, ReceivedRequest, ReplyContent, Wait
from ziggurat.wires.types import ResponseChunk

P = ParamSpec("P")

Stage = Literal["instead", "reply", "frames", "lines", "answer"]


Kind = Literal[
    "cut", "stream", "slow", "rate limit", "outage", "refusal", "call", "several calls", "body", "connection"
]
"""The kinds of fault, in the order in which quirks are listed."""


class Quirk(Struct, frozen=True):
    """Changes a reply before it is sent; several are applied stage by stage, in the order given within a stage.

    Attributes:
        name: Its call as text: ``cut(120)``.
        instead: Answers in place of the script, which is not called.
        reply: Changes the reply.
        frames: Changes the events of a stream, or the one body of a plain reply, before they are encoded.
        lines: Changes the bytes of the events of a stream.
        answer: Changes status, headers, the bytes of the body and how they are sent.
        plain: Whether a plain reply is sent where a stream was requested.
        breaks: Whether it may lose a reply: a repeated request then gets the same reply again.
        conditions: When it applies, given the request and its number; empty for always.
    """

    name: str = ""
    instead: Callable[[ReceivedRequest], HttpResponse] | None = None
    reply: Callable[[ReplyContent, ReceivedRequest], ReplyContent] | None = None
    frames: Callable[[list[ResponseChunk | Wait], ReceivedRequest], list[ResponseChunk | Wait]] | None = None
    lines: Callable[[list[Piece], ReceivedRequest], list[Piece]] | None = None
    answer: Callable[[HttpResponse, ReceivedRequest], HttpResponse] | None = None
    plain: bool = False
    breaks: bool = False
    conditions: tuple[Callable[[ReceivedRequest, int], bool], ...] = ()

    def first(self, count: int) -> "Quirk":
        """Return the same quirk for the first `count` requests only."""
        return self._if(f"first({count})", lambda _, number: number <= count)

    def after(self, count: int) -> "Quirk":
        """Return the same quirk for all but the first `count` requests."""
        return self._if(f"after({count})", lambda _, number: number > count)

    def on(self, *numbers: int) -> "Quirk":
        """Return the same quirk for the requests with these numbers only, counted from 1."""
        return self._if(f"on({', '.join(map(str, numbers))})", lambda _, number: number in numbers)

    def when(self, test: str | Callable[[ReceivedRequest], bool]) -> "Quirk":
        """Return the same quirk for requests whose body contains a text, or that pass a test."""
        if isinstance(test, str):
            text = test.encode()
            return self._if(f"when({test!r})", lambda seen, _: text in seen.body)
        return self._if("when(...)", lambda seen, _: test(seen))

    def _if(self, name: str, condition: Callable[[ReceivedRequest, int], bool]) -> "Quirk":
        return replace(self, name=f"{self.name}.{name}", conditions=(*self.conditions, condition))

    def applies(self, seen: ReceivedRequest, number: int) -> bool:
        """Return whether it applies to a request; `number` counts from when the quirk was put in use."""
        return all(condition(seen, number) for condition in self.conditions)

    def __repr__(self) -> str:
        return self.name


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


def quirk_maker(kind: Kind) -> Callable[[Callable[P, Quirk]], Callable[P, Quirk]]:
    """Register a function that makes quirks; the quirks are named after the function and its arguments.

    The first line of its docstring says what the quirk does; the text after ``Good client:``, how a client should
    react.
    """

    def enter(make: Callable[P, Quirk]) -> Callable[P, Quirk]:
        name = make.__name__
        says, _, rest = inspect.cleandoc(make.__doc__ or "").partition("\n")
        good = " ".join(rest.partition("Good client:")[2].partition("\n\n")[0].split())

        make = checked(make)

        @wraps(make)
        def make_named(*args: P.args, **kwargs: P.kwargs) -> Quirk:
            settings_text = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
            return replace(make(*args, **kwargs), name=f"{name}({', '.join(settings_text)})")

        settings = ", ".join(
            parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
            for parameter in inspect.signature(make).parameters.values()
        )
        _ENTRIES[name] = QuirkInfo(name, kind, says, good, settings, make_named)
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

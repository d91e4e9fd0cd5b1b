"""A quirk: one way in which a provider departs from its documentation; and the list of all quirks."""

__all__ = ["Entry", "Kind", "Quirk", "Stage", "entries", "parsed", "quirk_maker"]

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec, get_args

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.testing.server.types import Answer, Frame, Piece, Said, Seen, Wait

P = ParamSpec("P")

Stage = Literal["instead", "said", "frames", "lines", "answer"]


Kind = Literal[
    "cut", "stream", "slow", "rate limit", "outage", "refusal", "call", "several calls", "body", "connection"
]
"""What goes wrong, in the order in which quirks are listed."""


class Quirk(Struct, frozen=True):
    """Changes a reply on its way out; several are applied stage by stage, in the order given within a stage.

    Attributes:
        name: How it is written, with its settings: ``cut(120)``.
        instead: Answers in place of the script, which is not asked.
        said: Changes what is said.
        frames: Changes the events of a stream, or the one body of a plain reply, before they are encoded.
        lines: Changes the bytes of the events of a stream, one event after the other.
        answer: Changes status, headers, the bytes of the body and how they are sent.
        plain: Whether a plain reply is written where a stream was asked for.
        breaks: Whether a reply may be lost by it: the same request gets the same reply when it is sent again.
        conditions: When it applies, given the request and its number; empty for always.
    """

    name: str = ""
    instead: Callable[[Seen], Answer] | None = None
    said: Callable[[Said, Seen], Said] | None = None
    frames: Callable[[list[Frame | Wait], Seen], list[Frame | Wait]] | None = None
    lines: Callable[[list[Piece], Seen], list[Piece]] | None = None
    answer: Callable[[Answer, Seen], Answer] | None = None
    plain: bool = False
    breaks: bool = False
    conditions: tuple[Callable[[Seen, int], bool], ...] = ()

    def first(self, count: int) -> "Quirk":
        """Return the same quirk for the first `count` requests only."""
        return self._if(f"first({count})", lambda _, number: number <= count)

    def after(self, count: int) -> "Quirk":
        """Return the same quirk for all but the first `count` requests."""
        return self._if(f"after({count})", lambda _, number: number > count)

    def on(self, *numbers: int) -> "Quirk":
        """Return the same quirk for the requests with these numbers only, counted from 1."""
        return self._if(f"on({', '.join(map(str, numbers))})", lambda _, number: number in numbers)

    def when(self, test: str | Callable[[Seen], bool]) -> "Quirk":
        """Return the same quirk for requests whose body holds a text, or that pass a test."""
        if isinstance(test, str):
            text = test.encode()
            return self._if(f"when({test!r})", lambda seen, _: text in seen.body)
        return self._if("when(...)", lambda seen, _: test(seen))

    def _if(self, name: str, condition: Callable[[Seen, int], bool]) -> "Quirk":
        return replace(self, name=f"{self.name}.{name}", conditions=(*self.conditions, condition))

    def applies(self, seen: Seen, number: int) -> bool:
        """Return whether it applies to a request; `number` counts from when the quirk was put in use."""
        return all(condition(seen, number) for condition in self.conditions)

    def __repr__(self) -> str:
        return self.name


class Entry(Struct, frozen=True):
    """A quirk that there is.

    Attributes:
        name: The name of the function that makes it.
        kind: What goes wrong.
        says: What it does, in a line.
        good: What a good client does about it.
        settings: Its parameters with their defaults, as they are written.
        make: Makes it.
    """

    name: str
    kind: Kind
    says: str
    good: str
    settings: str
    make: Callable[..., Quirk]


_ENTRIES: dict[str, Entry] = {}


def quirk_maker(kind: Kind) -> Callable[[Callable[P, Quirk]], Callable[P, Quirk]]:
    """Enter a function that makes quirks into the list; names the quirks after the function and its arguments.

    Its docstring says in the first line what the quirk does, and after ``Good client:`` what is done about it.
    """

    def enter(make: Callable[P, Quirk]) -> Callable[P, Quirk]:
        name = make.__name__
        says, _, rest = inspect.cleandoc(make.__doc__ or "").partition("\n")
        good = " ".join(rest.partition("Good client:")[2].partition("\n\n")[0].split())

        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Quirk:
            shown = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
            return replace(make(*args, **kwargs), name=f"{name}({', '.join(shown)})")

        settings = ", ".join(
            parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
            for parameter in inspect.signature(make).parameters.values()
        )
        _ENTRIES[name] = Entry(name, kind, says, good, settings, made)
        return made

    return enter


def entries() -> tuple[Entry, ...]:
    """Return all that are listed, by kind and name."""
    return tuple(sorted(_ENTRIES.values(), key=lambda entry: (get_args(Kind).index(entry.kind), entry.name)))


_LIMITS = ("first", "after", "on", "when")


def parsed(text: str) -> Quirk:
    """Make a quirk of its form on a command line: ``cut=120``, ``status=429,retry_after=2,first=3``.

    The first value may stand without its name. ``first``, ``after``, ``on`` and ``when`` limit it to some requests.
    Several numbers are joined by ``+``, as in ``split=10+20``.

    Raises:
        ConfigurationError: there is no such quirk, or a value does not fit.
    """
    name, _, rest = text.partition("=")
    name, _, more = name.partition(",")
    entry = _ENTRIES.get(name)
    if entry is None:
        raise ConfigurationError(f"there is no quirk {name!r}; there are {', '.join(sorted(_ENTRIES))}")
    parameters = inspect.signature(entry.make).parameters
    settings: dict[str, object] = {}
    limits: dict[str, str] = {}
    given = f"{more}={rest}" if more else rest
    for at, word in enumerate(given.split(",") if given else ()):
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
        raise ConfigurationError(f"the quirk {text!r} cannot be made: {error}") from error
    return quirk


def _value(text: str, default: object) -> object:
    """Read a value; what the default of the setting is says what it may be."""
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

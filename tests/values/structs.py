"""Structs of msgspec and classes of attrs as production has them, written before their first run."""

import datetime
import enum
import uuid
from collections import OrderedDict
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import attrs
import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

T = TypeVar("T")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Message(Struct, tag_field="type", tag=lambda name: name.removeprefix("M").lower(), forbid_unknown_fields=True):
    """The base of the messages of a protocol."""

    id: uuid.UUID


class MPut(Message, kw_only=True):
    key: str
    value: bytes = b""


class MGet(Message):
    key: str
    at: datetime.datetime | None = None


class Patch(Struct, omit_defaults=True, rename=lambda name: "" + name.upper(), gc=False):
    name: str | UnsetType | None = UNSET
    size: int | UnsetType = UNSET


class Quote(Struct, array_like=True, tag="q", frozen=True):
    symbol: str
    price: Decimal
    at: Annotated[datetime.datetime, Meta(tz=True)] | None = None


class Trade(Struct, array_like=True, tag="t", frozen=True):
    symbol: str
    levels: tuple[Level, ...] = ()


class Money(Struct, frozen=True, order=True, eq=True, cache_hash=True):
    amount: Annotated[Decimal, Meta(description="two decimals")]
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "EUR"

    def __post_init__(self) -> None:
        if self.amount.as_tuple().exponent < -2:  # type: ignore[operator]
            raise ValueError("must have two decimals")


class Derived(Struct, rename="pascal", repr_omit_defaults=True, weakref=True):
    VERSION: ClassVar[int] = 2
    first_name: str
    full: str = msgspec.field(default="", name="FULL")

    def __post_init__(self) -> None:
        self.full = self.full or f"{self.first_name} x"


class Growing(Struct):
    names: list[str]

    def __post_init__(self) -> None:
        self.names.append("more")


class Paged(Struct, Generic[T], kw_only=True):
    items: list[T]
    next: str | None = None
    total: Annotated[int, Meta(ge=0, examples=[3], extra_json_schema={"x-unit": "items"})] = 0


class Plain(Struct, eq=False):
    a: int
    made: float = msgspec.field(default_factory=lambda: 1.5)


class Deep(Struct):
    by_level: dict[Level, list[set[int]]]
    by_day: dict[datetime.date, Money] = {}
    when: datetime.time | datetime.timedelta | None = None
    raw: msgspec.Raw = msgspec.Raw(b"null")
    anything: Any = None


class Linked(Struct):
    value: int
    next: "Linked | None" = None


class Lookup(Struct, forbid_unknown_fields=True):
    path: Path
    order: OrderedDict[str, int] = msgspec.field(default_factory=OrderedDict)


Point = msgspec.defstruct("Point", [("x", int), ("y", int, 3)], namespace={"area": lambda self: self.x * self.y})


@attrs.define(kw_only=True)
class Server:
    host: str = attrs.field(converter=str.strip, validator=attrs.validators.min_len(1))  # type: ignore[misc]
    port: int = attrs.field(default=80, converter=int, validator=[attrs.validators.ge(1), attrs.validators.lt(65536)])
    tags: list[str] = attrs.field(
        factory=list, validator=attrs.validators.deep_iterable(attrs.validators.instance_of(str))
    )
    debug: bool = attrs.field(default=False, converter=attrs.converters.to_bool)


_LISTED: Any = attrs.converters.default_if_none(factory=list)
_PATH: Any = attrs.converters.pipe(str.strip, Path)
_SCALED: Any = attrs.Converter(lambda value, self: value * (10 if self.unit == "cm" else 1), takes_self=True)  # type: ignore[call-overload]


@attrs.define
class Optionals:
    size: int | None = attrs.field(default=None, converter=attrs.converters.optional(int))
    names: list[str] = attrs.field(default=None, converter=_LISTED)  # type: ignore[misc]
    path: Path = attrs.field(default="a", converter=_PATH)  # type: ignore[misc, assignment]


@attrs.frozen(slots=False)
class Frozen:
    first: str
    last: str = attrs.field(default="x")
    whole: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "whole", f"{self.first} {self.last}")

    def renamed(self, first: str) -> "Frozen":
        return attrs.evolve(self, first=first)


@attrs.define(on_setattr=[attrs.setters.convert, attrs.setters.validate])
class Guarded:
    percent: int = attrs.field(converter=lambda value: max(0, min(100, int(value))))  # type: ignore[var-annotated]

    def __attrs_post_init__(self) -> None:
        self.percent = self.percent // 2  # each time it is made


@attrs.define(eq=False, order=False)
class Identity:
    name: str
    _secret: str = attrs.field(default="s", repr=False, metadata={"unit": "none"})


@attrs.define
class ByLower:
    name: str = attrs.field(eq=str.lower, order=False, on_setattr=attrs.setters.frozen)
    size: float = attrs.field(eq=attrs.cmp_using(eq=lambda a, b: abs(a - b) < 0.1))


@attrs.define(unsafe_hash=True, cache_hash=True)
class Cached:
    key: str = attrs.field(alias="k")
    value: frozenset[int] = frozenset()
    id: uuid.UUID = attrs.field(factory=uuid.uuid4, hash=False)


@attrs.define
class Parent:
    name: str
    kind: Literal["parent"] = "parent"


@attrs.define
class Child(Parent):
    kind: Literal["child"] = "child"  # type: ignore[assignment]
    parents: list[Parent] = attrs.field(factory=list)
    born: datetime.date | None = None


@attrs.define
class Of(Generic[T]):
    it: T
    below: "Of[T] | None" = None


@attrs.define
class Prepared:
    """A class that counts how it is made."""

    made: ClassVar[int] = 0
    x: int
    y: int = attrs.Factory(lambda self: self.x + 1, takes_self=True)

    def __attrs_pre_init__(self) -> None:
        pass


@attrs.define
class TakesSelf:
    unit: str
    size: float = attrs.field(converter=_SCALED)  # type: ignore[misc]


@attrs.define(init=False)
class OwnInit:
    x: int
    y: int

    def __init__(self, text: str) -> None:
        left, right = text.split(",")
        self.__attrs_init__(int(left), int(right))


Made = attrs.make_class("Made", {"x": attrs.field(type=int), "y": attrs.field(type=list[int], factory=list)})
ID = "12345678-1234-5678-1234-567812345678"

STRUCTS: list[tuple[Any, Any]] = [
    (MPut | MGet, {"type": "put", "id": ID, "key": "a", "value": "aGk="}),
    (MGet, {"type": "get", "id": ID, "key": "a"}),
    (Patch, {}),
    (Patch, {"NAME": None, "SIZE": 3}),
    (Quote | Trade, ["t", "x", [1, 2]]),
    (Quote, ["q", "x", "1.50", "2026-01-31T00:00:00+01:00"]),
    (Money, {"amount": "1.50"}),
    (Derived, {"FirstName": "Ann"}),
    (Growing, {"names": ["a"]}),
    (Paged[Money], {"items": [{"amount": "1"}], "total": 1}),
    (Paged[MPut | MGet], {"items": [{"type": "get", "id": ID, "key": "a"}]}),
    (Plain, {"a": 1}),
    (Deep, {"by_level": {"1": [[2, 1]]}, "by_day": {"2026-01-31": {"amount": "1"}}, "when": "12:30:00", "raw": [1]}),
    (Deep, {"by_level": {}, "when": "PT5S", "anything": {"a": [1]}}),
    (Linked, {"value": 1, "next": {"value": 2}}),
    (Lookup, {"path": "a/b", "order": {"b": 1, "a": 2}}),
    (Point, {"x": 1}),
    (Server, {"host": " a ", "port": 81, "debug": True}),
    (Optionals, {"size": 3, "names": ["a"]}),
    (Optionals, {}),
    (Frozen, {"first": "Ann"}),
    (Guarded, {"percent": 120}),
    (Identity, {"name": "x"}),
    (ByLower, {"name": "X", "size": 1.5}),
    (Cached, {"k": "x", "value": [2, 1]}),
    (Child, {"name": "x", "parents": [{"name": "y"}], "born": "2026-01-31"}),
    (Parent | Child, {"kind": "child", "name": "x"}),
    (Of[Level], {"it": 1, "below": {"it": 2}}),
    (Of[dict[str, Money]], {"it": {"a": {"amount": "1"}}}),
    (Prepared, {"x": 3}),
    (TakesSelf, {"unit": "cm", "size": 2}),
    (OwnInit, {"x": 1, "y": 2}),
    (Made, {"x": 1, "y": [2]}),
]
"""Each with the JSON that a model, a person or a program may send for it."""

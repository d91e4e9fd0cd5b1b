"""Types of the standard library and classes of plain Python as production has them, written before their first run."""

import abc
import collections
import datetime
import decimal
import enum
import http
import os
import pathlib
import re
import sys
import typing
import urllib.parse
import uuid
import zoneinfo
from collections.abc import Callable, Hashable, MutableMapping, Sized
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from functools import cached_property, total_ordering
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    LiteralString,
    NamedTuple,
    Optional,
    Protocol,
    Required,
    Self,
)

from typing_extensions import ReadOnly, TypeAliasType, TypedDict, TypeVar

T = TypeVar("T")
N = TypeVar("N", bound=float, default=int)


class Celsius(float):
    """A number of a kind of its own."""


class Name(str):
    __slots__ = ()

    @property
    def initial(self) -> str:
        return self[:1]


class Number(int):
    pass


class Headers(dict[str, str]):
    pass


class Names(list[str]):
    pass


class Suit(enum.Enum):
    HEARTS = enum.auto()
    SPADES = enum.auto()


class Currency(str, enum.Enum):  # noqa: UP042 - as it was before Python 3.11
    EUR = "EUR"
    USD = "USD"

    def __str__(self) -> str:
        return self.value


class Lenient(enum.Enum):
    """An enum that reads other spellings, and has two names for one value."""

    YES = "yes"
    OK = "yes"  # noqa: PIE796 - an alias
    NO = "no"

    @classmethod
    def _missing_(cls, value: object) -> "Lenient | None":
        return next((each for each in cls if each.value == str(value).lower()), None)


class Mixed(enum.Enum):
    ONE = 1
    TEXT = "1"
    HALF = 0.5


class Nothing(enum.Enum):
    NONE = None
    SOME = "some"


class Rate(decimal.Decimal, enum.Enum):
    FULL = "0.19"
    REDUCED = "0.07"


class Holiday(enum.Enum):
    NEW_YEAR = datetime.date(2026, 1, 1)


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Mode(enum.IntFlag):
    R = 4
    W = 2


@dataclass(frozen=True)
class Mass:
    kilograms: float


class Planet(Mass, enum.Enum):
    EARTH = (5.97e24,)
    MARS = (6.42e23,)


@dataclass
class Order:
    """An order whose total is not given, but found."""

    quantity: int
    unit: decimal.Decimal
    total: decimal.Decimal = field(init=False)
    discount: InitVar[decimal.Decimal | None] = None

    def __post_init__(self, discount: decimal.Decimal | None) -> None:
        self.total = self.quantity * self.unit - (discount or 0)


@dataclass(kw_only=True, slots=True, order=True)
class Version:
    major: int
    minor: int = 0
    label: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Hashed:
    text: str
    digest: str = field(init=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", self.text[::-1])


@dataclass
class Event:
    name: str
    at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    id: uuid.UUID = field(default_factory=uuid.uuid4)


class Base(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...


@dataclass
class Disc(Base):
    radius: float
    kind: Literal["disc"] = "disc"

    def area(self) -> float:
        return self.radius**2


@dataclass
class Bar(Base):
    width: float
    kind: Literal["bar"] = "bar"

    def area(self) -> float:
        return self.width


@dataclass
class Scene:
    shapes: list[Disc | Bar]
    background: Optional["Scene"] = None
    palette: dict[str, tuple[int, int, int]] = field(default_factory=dict)


@dataclass
class Mutable:
    """A class with a property, a private part and a cache."""

    made: ClassVar[int] = 0
    first: str
    _hidden: int = 0
    tags: set[str] = field(default_factory=set)

    @property
    def upper(self) -> str:
        return self.first.upper()

    @cached_property
    def length(self) -> int:
        return len(self.first)


@dataclass
class Clamped:
    percent: int

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, max(0, min(100, value)))


@total_ordering
@dataclass(eq=False)
class ByKey:
    key: int
    note: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByKey) and self.key == other.key

    def __lt__(self, other: Self) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return self.key


@dataclass
class Ring:
    """A class that refers to itself when it is made."""

    name: str
    next: "Ring | None" = None

    def __post_init__(self) -> None:
        if self.next is None and self.name == "loop":
            self.next = self


@dataclass
class Series(Generic[N]):
    points: list[N]
    unit: str = "m"


@dataclass
class NamedSeries(Series[float]):
    name: str = "x"


@dataclass
class Job:
    command: list[str]
    folder: pathlib.Path = pathlib.Path(".")
    environment: dict[str, str] = field(default_factory=lambda: {"LANG": "C"})
    timeout: datetime.timedelta | None = datetime.timedelta(seconds=5)
    status: http.HTTPStatus = http.HTTPStatus.OK
    pattern: re.Pattern[str] = re.compile("a+")


@dataclass
class Holder:
    """Fields that are wider than JSON."""

    it: object = None
    more: Any = None
    items: list = field(default_factory=list)  # type: ignore[type-arg]
    table: dict = field(default_factory=dict)  # type: ignore[type-arg]


@dataclass
class Unmeasured:
    value: decimal.Decimal = decimal.Decimal("NaN")


@dataclass
class Written:
    folder: pathlib.Path = pathlib.Path(".")
    to: pathlib.Path | None = None


@dataclass
class Cyclic:
    parent: "Member | None" = None


@dataclass
class Member:
    names: tuple[str, ...] = ()
    group: Cyclic = field(default_factory=Cyclic)


class Address(NamedTuple):
    street: str
    zone: zoneinfo.ZoneInfo = zoneinfo.ZoneInfo("UTC")


class Coordinates(NamedTuple, Generic[T]):
    first: T
    rest: tuple[T, ...] = ()


class Movie(TypedDict):
    title: ReadOnly[str]
    year: Required[int]


class Response(TypedDict, Generic[T]):
    data: T
    next: "Response[T] | None"


class Drawable(Protocol):
    def draw(self) -> None: ...


Callback = Callable[[int], str]
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | float | bool | None")
Table = TypeAliasType("Table", dict[str, list[T]], type_params=(T,))
UserName = typing.NewType("UserName", Name)
Ordered = typing.NewType("Ordered", Order)

LIBRARY: list[tuple[Any, Any]] = [
    (Celsius, 21.5),
    (Name, "Ann"),
    (Number, 3),
    (Headers, {"a": "b"}),
    (Names, ["a"]),
    (Suit, 2),
    (Currency, "EUR"),
    (Lenient, "yes"),
    (Lenient, "no"),
    (Mixed, "1"),
    (Mixed, 0.5),
    (Nothing, "some"),
    (Nothing, None),
    (Rate, "0.07"),
    (Holiday, "2026-01-01"),
    (Rights, 2),
    (Mode, 4),
    (Planet, [6.42e23]),
    (Order, {"quantity": 2, "unit": "1.50"}),
    (Order, {"quantity": 2, "unit": "1.50", "discount": "1"}),
    (Version, {"major": 3, "label": "rc"}),
    (Hashed, {"text": "ab"}),
    (Event, {"name": "x"}),
    (Event, {"name": "x", "at": "2026-01-31T00:00:00+01:00", "id": "12345678-1234-5678-1234-567812345678"}),
    (Scene, {"shapes": [{"kind": "bar", "width": 2}], "background": {"shapes": []}, "palette": {"a": [1, 2, 3]}}),
    (Disc | Bar, {"kind": "disc", "radius": 2}),
    (Mutable, {"first": "a", "tags": ["b", "a"]}),
    (Clamped, {"percent": 120}),
    (ByKey, {"key": 1, "note": "x"}),
    (Ring, {"name": "a", "next": {"name": "b"}}),
    (Ring, {"name": "loop"}),
    (Series[float], {"points": [1, 2.5]}),
    (Series, {"points": [1]}),
    (NamedSeries, {"points": [1.5], "name": "y"}),
    (Job, {"command": ["ls"], "status": 404, "pattern": "^b$"}),
    (Written, {"to": "b"}),
    (Holder, {"it": {"a": [1]}, "more": None, "items": [1, "a"], "table": {"a": {"b": 1}}}),
    (Member, {"names": ["a"], "group": {"parent": {"names": ["b"]}}}),
    (Address, ["x", "Europe/Berlin"]),
    (Coordinates[int], [1, [2, 3]]),
    (Movie, {"title": "x", "year": 2026}),
    (Response[Movie], {"data": {"title": "x", "year": 1}, "next": None}),
    (Drawable, {}),
    (Callback, "x"),
    (Json, {"a": [1, None, {"b": True}]}),
    (Table[datetime.date], {"a": ["2026-01-31"]}),
    (UserName, "Ann"),
    (Ordered, {"quantity": 2, "unit": "1"}),
    (collections.Counter[str], {"a": 2}),
    (collections.OrderedDict[str, datetime.date], {"b": "2026-01-31", "a": "2026-01-30"}),
    (collections.defaultdict[str, set[int]], {"a": [2, 1]}),
    (collections.ChainMap[str, int], {"a": 1}),
    (MutableMapping[uuid.UUID, int], {"12345678-1234-5678-1234-567812345678": 1}),
    (collections.abc.Set[str], ["b", "a"]),
    (frozenset[tuple[int, str]], [[2, "b"], [1, "a"]]),
    (dict[datetime.date, frozenset[Suit]], {"2026-01-31": [1, 2]}),
    (dict[tuple[int, int], str], {"1,2": "x"}),
    (dict[Suit, int], {"1": 2}),
    (dict[float, str], {"1.5": "x"}),
    (Fraction, "2/4"),
    (complex, "1+2j"),
    (re.Pattern[str], "^a+$"),
    (pathlib.PureWindowsPath, "C:\\a"),
    (os.PathLike[str], "a/b"),
    (bytearray, "aGk="),
    (memoryview, "aGk="),
    (http.HTTPStatus, 404),
    (zoneinfo.ZoneInfo, "Europe/Berlin"),
    (datetime.tzinfo, "UTC"),
    (datetime.time, "12:30:00+01:00"),
    (datetime.timedelta, "P1DT0.000001S"),
    (decimal.Decimal, "1E+3"),
    (Unmeasured, {}),
    (urllib.parse.SplitResult, ["https", "example.org", "/", "", ""]),
    (Hashable, 3),
    (Sized, [1]),
    (LiteralString, "x"),
    (Literal[Suit.HEARTS, "x", 3, None], 1),
    (typing.Any, {"a": [1, 2.5, None]}),
    (object, [1, {"a": "b"}]),
    (list, [1, "a", {"b": None}]),
    (dict, {"a": [1]}),
    (tuple, [1, "a"]),
    (set, [1, 2]),
    (type(None), None),
    (int | None | list["int | None"], [1, None]),
    (datetime.date | str | None, "2026-01-31"),
    (uuid.UUID | str, "12345678-1234-5678-1234-567812345678"),
    (decimal.Decimal | int, "1.50"),
    (float | str, "1.5"),
    (bool | int | float, 1),
    (Annotated[dict[str, Annotated[int, "small"]], "a table"], {"a": 1}),
    (type[Order], "Order"),
]
"""Each with the JSON that a model, a person or a program may send for it."""

_NEW = """
from dataclasses import dataclass
from pydantic import BaseModel
from msgspec import Struct

type Strings = list[str]
type Tree[K] = dict[K, Tree[K] | K]
type Pair[A, B = int] = tuple[A, B]

@dataclass
class Cell[K]:
    it: K
    below: "Cell[K] | None" = None

class Sheet[K](BaseModel):
    cells: list[Cell[K]]

class SLine[K: (int, str)](Struct):
    it: K
    names: Strings = []
"""

if sys.version_info >= (3, 13):  # no other Python reads it
    import types

    _new = types.ModuleType("tests.values.new")
    sys.modules[_new.__name__] = _new
    exec(_NEW, vars(_new))
    LIBRARY += [
        (_new.Strings, ["a"]),
        (_new.Tree[str], {"a": {"b": "c"}}),
        (_new.Pair[str], ["a", 1]),
        (_new.Cell[int], {"it": 1, "below": {"it": 2}}),
        (_new.Sheet[datetime.date], {"cells": [{"it": "2026-01-31"}]}),
        (_new.SLine[int], {"it": 1, "names": ["a"]}),
    ]

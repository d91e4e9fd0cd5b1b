"""More dataclasses, Structs and types of typing in the manner of public code, written like the models."""

import collections
import datetime
import enum
import uuid
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tests.values.attributes import ASearch

T = TypeVar("T")
UserId = NewType("UserId", int)


@dataclass
class DPoint:
    x: float
    y: float = 0.0


@dataclass
class DBase:
    id: int
    created: datetime.date = field(default_factory=lambda: datetime.date(2026, 1, 31), kw_only=True)


@dataclass(order=True)
class DChild(DBase):
    name: str = field(default="x", compare=False)
    notes: dict[str, Any] = field(default_factory=dict, repr=False, metadata={"doc": "any"})


@dataclass
class DArea:
    width: int
    height: int
    area: int = field(init=False)

    def __post_init__(self) -> None:
        self.area = self.width * self.height


@dataclass(frozen=True)
class DFrozen:
    name: str
    slug: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "slug", self.slug or self.name.lower())


@dataclass
class DPath:
    path: Path
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        self.parts = list(self.path.parts)


@dataclass
class DCounted:
    n: int

    def __post_init__(self) -> None:
        self.n += 1


@dataclass
class DRefusing:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("must be in order")


@dataclass
class DNode(Generic[T]):
    value: T
    next: Optional["DNode[T]"] = None


@dataclass
class DInit:
    x: int
    maker: InitVar[str | None] = None
    made_by: str = field(init=False, default="nobody")

    def __post_init__(self, maker: str | None) -> None:
        if maker:
            self.made_by = maker


@dataclass(init=False)
class DOwnInit:
    x: int
    y: int

    def __init__(self, x: int) -> None:
        self.x, self.y = x, x + 1


@dataclass
class DCounter:
    made: ClassVar[int] = 0
    name: str
    matrix: tuple[tuple[int, int], ...] = ((1, 2),)

    @cached_property
    def size(self) -> int:
        return len(self.name)


@dataclass
class DText(collections.UserString):
    data: str


@dataclass
class DUnion:
    it: DPoint | DArea | str | None
    when: datetime.date | datetime.datetime | None = None


@dataclass
class DFraction:
    share: Fraction


class Method(enum.StrEnum):
    GET = enum.auto()
    POST = enum.auto()


class Size(enum.Enum):
    S = (1, 2)
    L = (3, 4)


class Entry(TypedDict, total=False):
    key: Required[str]
    value: int
    when: datetime.datetime


class Wide(Entry):
    more: list[Entry]


Wire = TypedDict("Wire", {"content-type": str, "from": NotRequired[int]})


class Of(TypedDict, Generic[T]):
    it: T


class Thread(TypedDict):
    text: str
    replies: list["Thread"]


class Span(NamedTuple):
    start: datetime.datetime
    length: datetime.timedelta = datetime.timedelta(0)


class Labelled(NamedTuple, Generic[T]):
    label: str
    it: T


Untyped = collections.namedtuple("Untyped", "a b")


class SLeaf(Struct):
    value: int


class SCreate(Struct, tag_field="op", tag="create"):
    path: str
    mode: int = 0o644


class SDelete(Struct, tag_field="op", tag="delete"):
    path: str


class SOne(Struct, tag=1):
    a: int


class STwo(Struct, tag=2):
    a: int


class SForbid(Struct, forbid_unknown_fields=True, rename={"from_": "from"}, kw_only=True):
    from_: str
    hops: tuple[str, int] = ("a", 1)


class SKebab(Struct, rename="kebab", omit_defaults=True):
    content_type: str
    max_size: int | None = None
    names: list[str] = msgspec.field(default_factory=list)


class SNamed(Struct):
    url: str = msgspec.field(name="URL")
    size: int = msgspec.field(name="$size", default=3)


class STagged(Struct, tag=True, array_like=True):
    a: int
    b: Decimal = Decimal("1.50")


class SOther(Struct, tag=True, array_like=True):
    b: str


class STidied(Struct):
    name: str

    def __post_init__(self) -> None:
        self.name = self.name.strip().title()


class SCounted(Struct):
    n: int

    def __post_init__(self) -> None:
        self.n += 1


class SMaybe(Struct):
    name: str
    size: int | UnsetType = UNSET
    note: str | UnsetType | None = UNSET


class SRaw(Struct):
    name: str
    body: msgspec.Raw = msgspec.Raw(b"{}")


class SGenerated(Struct, frozen=True):
    title: str
    id: uuid.UUID = msgspec.field(default_factory=uuid.uuid4)


class SBase(Struct):
    id: int = 0


class SDerived(SBase, dict=True, weakref=True):
    data: bytes = b""
    at: datetime.time = datetime.time(12)
    method: Method = Method.GET


class SPage(Struct, Generic[T]):
    items: list[T]
    next: Optional["SPage[T]"] = None


class SHolds(Struct):
    point: DPoint
    search: ASearch
    entry: Entry
    span: Span | None = None


class SLimits(Struct):
    name: Annotated[str, Meta(min_length=1, max_length=10, pattern="^[a-z]+$")]
    scores: Annotated[list[Annotated[float, Meta(ge=0, le=1)]], Meta(max_length=3)] = []
    at: Annotated[datetime.datetime, Meta(tz=True)] | None = None


class SInfinite(Struct):
    name: str
    bound: float = float("inf")


class SSized(Struct):
    size: Size


RECORDS: list[tuple[Any, Any]] = [
    (DChild, {"id": 3, "notes": {"a": [1]}}),
    (DArea, {"width": 2, "height": 3}),
    (DFrozen, {"name": "Ur"}),
    (DPath, {"path": "a/b"}),
    (DCounted, {"n": 3}),
    (DRefusing, {"low": 1, "high": 3}),
    (DNode[int], {"value": 1, "next": {"value": 2}}),
    (DInit, {"x": 1}),
    (DInit, {"x": 1, "maker": "eve"}),
    (DOwnInit, {"x": 1, "y": 2}),
    (DCounter, {"name": "x", "matrix": [[3, 4]]}),
    (DText, {"data": "x"}),
    (DUnion, {"it": {"type": "DArea", "width": 2, "height": 3}, "when": "2026-01-31"}),
    (DFraction, {"share": "1/3"}),
    (Method, "get"),
    (Size, [3, 4]),
    (Entry, {"key": "a", "when": "2026-01-31T00:00:00Z"}),
    (Wide, {"key": "a", "more": [{"key": "b"}]}),
    (Wire, {"content-type": "x"}),
    (Of[Entry], {"it": {"key": "a"}}),
    (Thread, {"text": "a", "replies": [{"text": "b", "replies": []}]}),
    (Span, ["2026-01-31T00:00:00Z", "PT5S"]),
    (Labelled[int], ["x", 3]),
    (Untyped, [1, "x"]),
    (UserId, 3),
    (SCreate | SDelete, {"op": "delete", "path": "a"}),
    (SOne | STwo, {"type": 2, "a": 3}),
    (SForbid, {"from": "x", "hops": ["b", 2]}),
    (SKebab, {"content-type": "x", "names": ["a"]}),
    (SNamed, {"URL": "x"}),
    (STagged | SOther, ["STagged", 1]),
    (STidied, {"name": " ur "}),
    (SCounted, {"n": 3}),
    (SMaybe, {"name": "x", "note": None}),
    (SRaw, {"name": "x", "body": [1]}),
    (SGenerated, {"title": "x"}),
    (SDerived, {"data": "aGk=", "method": "post"}),
    (SPage[DPoint], {"items": [{"x": 1}], "next": {"items": []}}),
    (SHolds, {"point": {"x": 1}, "search": {"query": "a"}, "entry": {"key": "b"}}),
    (SLimits, {"name": "ab", "scores": [0.5], "at": "2026-01-31T00:00:00Z"}),
    (SInfinite, {"name": "x"}),
    (SSized, {"size": [1, 2]}),
    (SLeaf | DPoint | ASearch, {"type": "ASearch", "query": "x"}),
    (dict[Method, Annotated[list[int], Meta(max_length=3)]], {"get": [1]}),
    (collections.OrderedDict[str, int], {"b": 1, "a": 2}),
    (collections.defaultdict[str, list[int]], {"b": [1]}),
    (collections.deque[int], [1, 2]),
    (Mapping[str, frozenset[int]], {"a": [1, 2]}),
    (Literal[1, "a", True, None], "a"),
    (int | str | list[int], [1]),
    (float | int, 3),
    (complex, "1+2j"),
    (bytes, "aGk="),
    (datetime.date | datetime.datetime, "2026-01-31"),
    (tuple[int, *tuple[str, ...]], [1, "a"]),
]
"""Each with the JSON that a model, a person or a program may send for it."""

"""Classes of attrs in the manner of public code, written before it was known what becomes of them."""

import datetime
import uuid
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NotRequired, Optional, TypedDict, TypeVar

import attr
import attrs
from msgspec import Meta, Struct

T = TypeVar("T")


@dataclass
class DPoint:
    x: float
    y: float = 0.0


class Entry(TypedDict):
    key: str
    value: NotRequired[int]


class SLeaf(Struct):
    value: int


@attrs.define
class ASearch:
    query: str
    limit: int = 10


@attrs.frozen
class APoint:
    x: float
    y: float = 0.0


@attr.s(auto_attribs=True)
class AOld:
    name: str
    tags: list[str] = attr.ib(factory=list)


@attr.s
class AUntyped:
    name = attr.ib()  # type: ignore[var-annotated]
    size = attr.ib(default=3)  # type: ignore[var-annotated]


@attr.s
class ATypedOld:
    name = attr.ib(type=str)
    size = attr.ib(type=int, default=3)


@attrs.define
class AConverted:
    size: int = attrs.field(converter=int)
    path: Path = attrs.field(converter=Path, default="a")  # type: ignore[assignment]


@attrs.define
class AUpper:
    code: str = attrs.field(converter=str.upper)  # type: ignore[misc]


@attrs.define
class ACounted:
    n: int = attrs.field(converter=lambda n: n + 1)  # type: ignore[var-annotated]


@attrs.define
class AChecked:
    port: int = attrs.field(validator=[attrs.validators.instance_of(int), attrs.validators.ge(1)])
    level: str = attrs.field(default="low", validator=attrs.validators.in_(["low", "high"]))
    name: str = attrs.field(default="x", validator=attrs.validators.matches_re(r"[a-z]+"))


@attrs.define
class AOdd:
    n: int = attrs.field()

    @n.validator
    def odd(self, attribute: Any, n: int) -> None:
        if n % 2 == 0:
            raise ValueError("must be odd")


@attrs.define
class AGenerated:
    title: str
    id: str = attrs.field(factory=lambda: uuid.uuid4().hex)
    made: datetime.datetime = attrs.Factory(lambda: datetime.datetime.now(datetime.UTC))


@attrs.define
class ADependent:
    first: str
    both: str = attrs.Factory(lambda self: self.first * 2, takes_self=True)

    third: str = attrs.field()

    @third.default
    def _thrice(self) -> str:
        return self.first * 3


@attrs.define
class APrivate:
    _name: str
    _size: int = 3


@attrs.define
class AAliased:
    from_: str = attrs.field(alias="source")
    to: str = "x"


@attrs.define
class AUnset:
    size: int
    area: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.area = self.size**2


@attrs.define
class AApproved:
    to: str
    approved: bool = attrs.field(init=False, default=False)


@attrs.define
class ATidied:
    name: str

    def __attrs_post_init__(self) -> None:
        self.name = self.name.strip().title()


@attrs.define
class AScaled:
    size: int

    def __attrs_post_init__(self) -> None:
        self.size *= 3


@attrs.define(kw_only=True, slots=False)
class AKeyed:
    a: int = 1
    b: str

    @cached_property
    def both(self) -> str:
        return f"{self.a}{self.b}"


@attrs.define
class ABase:
    id: int = 0


@attrs.define(kw_only=True)
class AChild(ABase):
    name: str
    parent: Optional["AChild"] = None


@attrs.define
class ATree:
    name: str
    branches: list["ATree"] = attrs.field(factory=list)


@attrs.define
class ABox(Generic[T]):
    it: T
    more: list[T] = attrs.Factory(list)


@attrs.define(eq=False)
class AIdentity:
    x: int


@attrs.define
class APartly:
    name: str
    seen: float = attrs.field(default=0.0, eq=False)


@attrs.define
class ALoose:
    text: str
    note: str = None  # type: ignore[assignment]
    since: datetime.date = "2026-01-31"  # type: ignore[assignment]


@attrs.define
class ARefund:
    order: int
    cents: int


@attrs.define
class ANothing:
    reason: str = ""


@attrs.define
class ACat:
    kind: Literal["cat"] = "cat"
    lives: int = 9


@attrs.define
class ADog:
    kind: Literal["dog"] = "dog"
    name: str = "Rex"


@attrs.define
class AMeta:
    age: Annotated[int, Meta(ge=0, description="in years")]
    tags: frozenset[str] = frozenset()
    price: Decimal = Decimal("1.50")
    by: dict[datetime.date, int] = attrs.field(factory=dict)


@attrs.define
class AMixed:
    point: DPoint
    row: Entry
    node: SLeaf | None = None


@attrs.frozen
class AFault(Exception):
    code: int
    reason: str = ""


@attrs.define
class AInitialised:
    """Its init is written by hand."""

    x: int

    def __init__(self, x: int, twice: bool = False) -> None:
        self.__attrs_init__(x * 2 if twice else x)  # type: ignore[attr-defined]


ATTRS: list[tuple[Any, Any]] = [
    (ASearch, {"query": "ur"}),
    (APoint, {"x": 1.5}),
    (AOld, {"name": "x", "tags": ["a"]}),
    (AUntyped, {"name": "x"}),
    (ATypedOld, {"name": "x", "size": 4}),
    (AConverted, {"size": 3}),
    (AConverted, {"size": 3, "path": "b/c"}),
    (AUpper, {"code": "ab"}),
    (ACounted, {"n": 3}),
    (AChecked, {"port": 80, "level": "high"}),
    (AOdd, {"n": 3}),
    (AGenerated, {"title": "x"}),
    (ADependent, {"first": "a"}),
    (ADependent, {"first": "a", "third": "z"}),
    (APrivate, {"name": "x"}),
    (AAliased, {"source": "a"}),
    (AUnset, {"size": 3}),
    (AApproved, {"to": "eve"}),
    (ATidied, {"name": " ur "}),
    (AScaled, {"size": 2}),
    (AKeyed, {"b": "x"}),
    (AChild, {"name": "x", "parent": {"name": "y", "id": 3}}),
    (ATree, {"name": "a", "branches": [{"name": "b"}]}),
    (ABox[int], {"it": 3, "more": [1]}),
    (ABox[ATree], {"it": {"name": "a"}}),
    (AIdentity, {"x": 3}),
    (APartly, {"name": "x", "seen": 1.5}),
    (ALoose, {"text": "a"}),
    (ARefund | ANothing, {"order": 17, "cents": 500}),
    (ACat | ADog, {"kind": "dog"}),
    (AMeta, {"age": 3, "tags": ["b", "a"], "by": {"2026-01-31": 3}}),
    (AMixed, {"point": {"x": 1}, "row": {"key": "a"}, "node": {"value": 3}}),
    (AFault, {"code": 3}),
    (AInitialised, {"x": 3}),
    (tuple[ALoose, ...], [{"text": "a"}]),
]
"""Each with the JSON that a model, a person or a program may send for it."""

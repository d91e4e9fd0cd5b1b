"""Types in the manner of public code, each with a JSON value that a model, a person or a program may send for it.

Half of them (`HELD_OUT`) were written before the code that they test, and never looked at while it was written.
"""

import datetime
import enum
import ipaddress
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

from msgspec import Meta, Struct
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    RootModel,
    SecretStr,
    Tag,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass as checked_dataclass

T = TypeVar("T")


class Search(BaseModel):
    query: str
    limit: int = Field(None, description="at most so many")  # type: ignore[assignment]
    language: str = None  # type: ignore[assignment]


class Upper(BaseModel):
    name: str = "unknown"

    @field_validator("name")
    @classmethod
    def upper(cls, name: str) -> str:
        if name != name.upper():
            raise ValueError("must be upper case")
        return name


class Dated(BaseModel):
    title: str
    since: datetime.date = "2026-01-31"  # type: ignore[assignment]


class Visit(BaseModel):
    day: datetime.date

    @field_serializer("day")
    def written(self, day: datetime.date) -> str:
        return day.strftime("%d/%m/%Y")


class Card(BaseModel):
    number: str

    @field_serializer("number")
    def masked(self, number: str) -> str:
        return "****" + number[-4:]


class Login(BaseModel):
    user: str
    password: SecretStr


class Ticket(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid.uuid4)
    title: str


class Slug(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def normal(cls, text: str) -> str:
        return text.strip().lower().replace(" ", "-")


class Counted(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def next(cls, n: int) -> int:
        return n + 1


class Clip(BaseModel):
    title: str
    source: str = Field("none", exclude=True)


class Hidden(BaseModel):
    title: str
    source: str = Field(exclude=True)


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    unit_price: Decimal = Field(alias="unitPrice")


class OneWay(BaseModel):
    size: int = Field(validation_alias="inSize", serialization_alias="outSize")


class Choices(BaseModel):
    size: int = Field(validation_alias=AliasChoices("size", "length"))


class Computed(BaseModel):
    width: int
    height: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.width * self.height


class Compact(BaseModel):
    x: int
    y: int

    @model_validator(mode="before")
    @classmethod
    def split(cls, value: Any) -> Any:
        return dict(zip("xy", map(int, value.split(",")), strict=True)) if isinstance(value, str) else value

    @model_serializer
    def joined(self) -> str:
        return f"{self.x},{self.y}"


class Tree(BaseModel):
    name: str
    branches: list["Tree"] = []


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Measured(BaseModel):
    value: float = float("nan")
    unit: str


class Tags(RootModel[list[str]]):
    pass


class Page(BaseModel, Generic[T]):
    items: list[T]
    total: int = 0


class Refund(BaseModel):
    """A refund to make."""

    order: int
    cents: int = Field(ge=1)


class Nothing(BaseModel):
    """There is nothing to refund."""


class Approve(BaseModel):
    reason: str


class Reject(BaseModel):
    reason: str


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str = "Rex"


class Verdict(BaseModel):
    decision: Approve | Reject
    refunds: list[Refund | Nothing] = []


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)
    name: str


@dataclass
class Payment:
    to: str
    approved: bool = field(init=False, default=False)


@dataclass
class Loose:
    text: str
    note: str = None  # type: ignore[assignment]


@dataclass(eq=False)
class NoEquality:
    x: int
    tags: list[str] = field(default_factory=list)


@dataclass
class Generated:
    title: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass
class Scaled:
    size: int
    factor: InitVar[int] = 3

    def __post_init__(self, factor: int) -> None:
        self.size *= factor


@dataclass
class Required:
    size: int
    factor: InitVar[int]

    def __post_init__(self, factor: int) -> None:
        self.size *= factor


@dataclass
class Tidied:
    name: str

    def __post_init__(self) -> None:
        self.name = self.name.strip().title()


@dataclass
class Box(Generic[T]):
    it: T


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0


@dataclass
class Keyed:
    a: int
    _: KW_ONLY
    b: int = 2


@checked_dataclass
class Checked:
    n: Annotated[int, Field(gt=0)]


class SRefund(Struct):
    order: int
    cents: int


class SNothing(Struct):
    reason: str = ""


class SLoose(Struct):
    text: str
    note: str = None  # type: ignore[assignment]


class SQuiet(Struct, omit_defaults=True, rename="camel"):
    unit_price: float = 1.5
    names: set[str] = set()


class SCat(Struct, tag="cat"):
    lives: int = 9


class SDog(Struct, tag="dog"):
    name: str = "Rex"


class SRow(Struct, array_like=True):
    a: int
    b: str = "x"


class SNode(Struct):
    value: Annotated[int, Meta(ge=0)]
    children: list["SNode"] = []


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Flag(enum.IntFlag):
    A = 1
    B = 2


class Row(TypedDict):
    key: str
    note: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str = None  # type: ignore[assignment]


def _reversed(text: str) -> str:
    return text[::-1]


def _kind_of(value: Any) -> str:
    return "text" if "text" in (value if isinstance(value, dict) else vars(value)) else "number"


class InText(BaseModel):
    text: str


class InNumber(BaseModel):
    number: int


OWN: list[tuple[Any, Any]] = [
    (Search, {"query": "ur"}),
    (Search, {"query": "ur", "limit": 3}),
    (Visit, {"day": "2026-01-31"}),
    (Card, {"number": "4111111111111111"}),
    (Ticket, {"title": "x"}),
    (Clip, {"title": "x"}),
    (Clip, {"title": "x", "source": "me"}),
    (Aliased, {"unitPrice": "1.50"}),
    (OneWay, {"inSize": 3}),
    (Tree, {"name": "root", "branches": [{"name": "leaf"}]}),
    (Page[Tree], {"items": [{"name": "a"}], "total": 1}),
    (Refund | Nothing, {"order": 17, "cents": 500}),
    (Verdict, {"decision": {"type": "Reject", "reason": "no"}, "refunds": [{"order": 1, "cents": 1}]}),
    (Payment, {"to": "eve"}),
    (Loose, {"text": "a"}),
    (NoEquality, {"x": 1, "tags": ["a"]}),
    (Scaled, {"size": 2}),
    (Box[int], {"it": 3}),
    (Point, {"x": 1.5}),
    (SRefund | SNothing, {"order": 17, "cents": 500}),
    (SLoose, {"text": "a"}),
    (SCat | SDog, {"type": "dog", "name": "Bo"}),
    (SRow, [1, "y"]),
    (Row, {"key": "a"}),
    (Pair, [1]),
    (Path, "a/b.txt"),
    (ipaddress.IPv4Address, "10.0.0.1"),
    (Iterable[int], [1, 2]),
    (Level, "low"),
    (dict[int, set[str]], {"1": ["b", "a"]}),
    (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "dog"}),
]
HELD_OUT: list[tuple[Any, Any]] = [
    (Upper, {}),
    (Dated, {"title": "x"}),
    (Login, {"user": "eve", "password": "hunter2"}),
    (Slug, {"text": " A b "}),
    (Counted, {"n": 3}),
    (Hidden, {"title": "x", "source": "me"}),
    (Choices, {"size": 3}),
    (Computed, {"width": 2, "height": 3}),
    (Compact, {"x": 1, "y": 2}),
    (Extra, {"name": "x", "more": [1]}),
    (Measured, {"unit": "m"}),
    (Tags, ["a", "b"]),
    (Approve | Reject, {"type": "Reject", "reason": "no"}),
    (Cat | Dog, {"kind": "dog"}),
    (Frozen, {"name": " x "}),
    (Generated, {"title": "x"}),
    (Required, {"size": 2, "factor": 4}),
    (Tidied, {"name": " ur "}),
    (Box[Refund | Nothing], {"it": {"order": 17, "cents": 500}}),
    (Keyed, {"a": 1, "b": 3}),
    (Checked, {"n": 3}),
    (SQuiet, {"names": ["b", "a"]}),
    (SNode, {"value": 1, "children": [{"value": 2}]}),
    (SRefund | Refund, {"type": "Refund", "order": 17, "cents": 500}),
    (Flag, 1),
    (PurePosixPath, "/etc"),
    (ipaddress.IPv6Network, "2001:db8::/32"),
    (Sequence[Decimal], ["1.50", "2"]),
    (datetime.timedelta, "PT5S"),
    (Annotated[str, AfterValidator(str.upper)], "abc"),
    (Annotated[str, AfterValidator(_reversed)], "abc"),
    (Annotated[int, BeforeValidator(lambda value: int(str(value).strip("$")))], 3),
    (Annotated[datetime.date, PlainSerializer(lambda day: day.strftime("%d.%m.%Y"))], "2026-01-31"),
    (
        Annotated[Annotated[InText, Tag("text")] | Annotated[InNumber, Tag("number")], Discriminator(_kind_of)],
        {"number": 3},
    ),
    (tuple[Loose, ...], [{"text": "a"}]),
]

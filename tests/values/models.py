"""More models of pydantic in the manner of public code, written before it was known what becomes of them."""

import datetime
import enum
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Generic, Literal, Optional, Self, TypeVar, Union
from zoneinfo import ZoneInfo

from pydantic import (
    AliasGenerator,
    AliasPath,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    HttpUrl,
    InstanceOf,
    Json,
    NaiveDatetime,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    RootModel,
    SecretBytes,
    SecretStr,
    SerializeAsAny,
    StringConstraints,
    ValidationInfo,
    WrapSerializer,
    WrapValidator,
    computed_field,
    conlist,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as checked_dataclass
from typing_extensions import TypeAliasType

T = TypeVar("T")
K = TypeVar("K")


class State(enum.StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


class User(BaseModel):
    login: str
    html_url: HttpUrl
    site_admin: bool = False


class Label(BaseModel):
    name: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
    color: str = Field("ededed", pattern=r"^[0-9a-f]{6}$")


class Issue(BaseModel):
    """A ticket of a tracker, as its API answers."""

    number: int = Field(gt=0)
    title: str
    state: State = State.OPEN
    user: User
    labels: list[Label] = Field(default_factory=list)
    assignee: User | None = None
    created_at: AwareDatetime
    closed_at: datetime.datetime | None = None


class Envelope(BaseModel, Generic[T]):
    ok: bool = True
    result: T | None = None
    error: str | None = None


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")
    first_name: str
    date_of_birth: datetime.date | None = None


class BothAliases(BaseModel):
    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=lambda n: "in_" + n, serialization_alias=lambda n: "out_" + n)
    )
    size: int
    unit: str = "m"


class Invoice(BaseModel):
    lines: list[Decimal]
    total: Decimal = Decimal(0)

    @model_validator(mode="after")
    def add(self) -> Self:
        self.total = sum(self.lines, Decimal(0))
        return self


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def ordered(self) -> Self:
        if self.low > self.high:
            self.low, self.high = self.high, self.low
        return self


class Discounted(BaseModel):
    price: float

    @model_validator(mode="after")
    def halved(self) -> Self:
        self.price /= 2
        return self


class Truncated(BaseModel):
    text: str

    @field_validator("text", mode="wrap")
    @classmethod
    def short(cls, text: Any, check: Any) -> str:
        return str(check(text))[:5]


class EmptyIsNone(BaseModel):
    name: str | None = None
    age: int | None = None

    @field_validator("*", mode="before")
    @classmethod
    def none(cls, value: Any) -> Any:
        return None if value == "" else value


class Csv(BaseModel):
    tags: Annotated[list[str], BeforeValidator(lambda v: v.split(",") if isinstance(v, str) else v)]

    @field_serializer("tags")
    def joined(self, tags: list[str]) -> str:
        return ",".join(tags)


class OneWayCsv(BaseModel):
    tags: list[str]

    @field_serializer("tags")
    def joined(self, tags: list[str]) -> str:
        return "; ".join(tags)


class JsonOnly(BaseModel):
    at: datetime.datetime

    @field_serializer("at", when_used="json")
    def epoch(self, at: datetime.datetime) -> float:
        return at.timestamp()


class Revealed(BaseModel):
    token: SecretStr

    @field_serializer("token", when_used="json")
    def reveal(self, token: SecretStr) -> str:
        return token.get_secret_value()


class Vault(BaseModel):
    name: str
    keys: list[SecretBytes] = []


class Blob(BaseModel):
    data: bytes
    packed: Base64Bytes = b"aGk="


class RawBytes(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    data: bytes


class Payload(BaseModel):
    body: Json[list[int]]


class Sizes(BaseModel):
    limit: ByteSize


class Link(BaseModel):
    url: AnyUrl
    zone: ZoneInfo = ZoneInfo("UTC")


class Session(BaseModel):
    user: str
    _opened: float = PrivateAttr(default=0.0)

    def model_post_init(self, context: Any, /) -> None:
        self._opened = 12.5


class Plain(BaseModel):
    model_config = ConfigDict(use_enum_values=True)
    state: State = State.OPEN
    priority: Priority = Priority.LOW


class Lasting(BaseModel):
    model_config = ConfigDict(ser_json_timedelta="float")
    span: datetime.timedelta


class Infinite(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")
    bound: float = float("inf")


class Lost(BaseModel):
    bound: float = float("-inf")
    name: str


class Money(BaseModel):
    amount: Decimal = Field(max_digits=8, decimal_places=2)
    currency: Literal["EUR", "USD"] = "EUR"


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Group(BaseModel):
    kind: Literal["group"]
    shapes: list["Shape"]


Shape = Annotated[Circle | Square | Group, Field(discriminator="kind")]
Group.model_rebuild()


class Linked(BaseModel, Generic[T]):
    value: T
    next: Optional["Linked[T]"] = None


class Folder(BaseModel):
    name: str
    files: list["FileOf"] = []


class FileOf(BaseModel):
    name: str
    shortcuts: list[Folder] = []


class Scores(RootModel[dict[str, int]]):
    root: dict[str, int] = {}


class Either(RootModel[int | str]):
    pass


class Strictly(BaseModel):
    model_config = ConfigDict(extra="forbid")
    width: int
    height: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.width * self.height


class Audit(BaseModel):
    title: str
    seen: datetime.datetime = Field(default_factory=lambda: datetime.datetime.now(datetime.UTC), exclude=True)


class FromPath(BaseModel):
    city: str = Field(validation_alias=AliasPath("address", "city"))


class WrittenAs(BaseModel):
    content_type: str = Field(serialization_alias="content-type")


class Header(BaseModel):
    content_type: str = Field(alias="content-type")
    ref: str | None = Field(None, alias="$ref")
    from_: str = Field("me", alias="from")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date
    id: uuid.UUID
    pair: tuple[int, str]
    names: set[str] = set()


class Animal(BaseModel):
    name: str


class Bird(Animal):
    wings: int = 2


class Zoo(BaseModel):
    animals: list[SerializeAsAny[Animal]]
    favourite: Animal = Bird(name="Tweety")


class Defaulted(BaseModel):
    first: str
    both: str = Field(default_factory=lambda data: data["first"] * 2)


class Validated(BaseModel):
    model_config = ConfigDict(validate_default=True)
    price: Decimal = "1.50"  # type: ignore[assignment]


class Assigned(BaseModel):
    model_config = ConfigDict(validate_assignment=True, str_to_upper=True)
    code: str


class Dependent(BaseModel):
    password: str
    again: str

    @field_validator("again")
    @classmethod
    def same(cls, again: str, info: ValidationInfo) -> str:
        if again != info.data.get("password"):
            raise ValueError("must be the same")
        return again


class Typed(BaseModel):
    """A value that writes its own name beside its fields."""

    size: int

    @model_serializer(mode="wrap")
    def named(self, write: Any) -> dict[str, Any]:
        return {"type": "Typed", **write(self)}


class Nested(BaseModel):
    class Inner(BaseModel):
        at: datetime.time

    inner: Inner
    more: dict[Priority, Inner] = {}
    kinds: ClassVar[int] = 3


class Reserved(BaseModel):
    self_: int = Field(1, alias="self")
    value: str
    type: str = "x"
    ctx: dict[str, Any] = {}


class Amount(BaseModel):
    it: int | float | str
    flag: bool | int = False


class When(BaseModel):
    at: datetime.datetime | datetime.date
    local: NaiveDatetime | None = None


class Bounded(BaseModel):
    one: conlist(int, min_length=1, max_length=3)  # type: ignore[valid-type]
    step: int = Field(5, multiple_of=5)
    score: float = Field(0.5, ge=0, le=1)


class Collections(BaseModel):
    queue: deque[int] = deque(maxlen=3)
    frozen: frozenset[Priority] = frozenset()
    table: Mapping[datetime.date, list[Decimal]] = {}
    pairs: dict[str, tuple[int, ...]] = {}


class Rounded(BaseModel):
    it: Annotated[float, PlainSerializer(lambda it: round(it, 1))]


class Twice(BaseModel):
    it: Annotated[int, WrapValidator(lambda v, check: check(v) * 2), PlainSerializer(lambda it: it // 2)]


class Stamp(BaseModel):
    at: Annotated[datetime.datetime, WrapSerializer(lambda at, write: write(at).replace("Z", "+00:00"))]


class Anything(BaseModel):
    it: Annotated[Any, PlainValidator(lambda v: v)]
    more: Any = None


class Colour:
    """A class of a user's own, with the hook of pydantic."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Colour({self.name})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema as schema

        return schema.no_info_after_validator_function(
            cls, schema.str_schema(), serialization=schema.plain_serializer_function_ser_schema(lambda it: it.name)
        )


class Painted(BaseModel):
    colour: Colour


class Unreadable(BaseModel):
    hook: Callable[[int], int]


class Instance(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    it: InstanceOf[Colour]


class Aged(BaseModel):
    model_config = ConfigDict(from_attributes=True, str_max_length=20, frozen=True)
    name: str
    spouse: Optional["Aged"] = None


class Config(BaseModel):
    mode: Literal["fast", "slow", 3, True, None] = "fast"
    retries: Annotated[int, Field(ge=0)] | Literal["forever"] = 3


class Cased(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, serialize_by_alias=True)
    unit_price: Decimal
    sub_items: list["Cased"] = []


@checked_dataclass(config=ConfigDict(extra="forbid"), kw_only=True)
class Booking:
    guest: str = Field(min_length=1)
    nights: int = Field(1, alias="numberOfNights")
    at: datetime.date

    @field_validator("guest")
    @classmethod
    def titled(cls, guest: str) -> str:
        return guest.title()


@checked_dataclass
class Split:
    text: str
    words: list[str] = Field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.words = self.text.split()


JsonValue = TypeAliasType("JsonValue", Union[dict[str, "JsonValue"], list["JsonValue"], str, int, bool, None])  # type: ignore[misc]  # noqa: UP007
Alias = TypeAliasType("Alias", dict[K, list[T]], type_params=(K, T))


class Document(BaseModel):
    body: JsonValue
    index: Alias[str, int] = {}


USER = {"login": "eve", "html_url": "https://example.org/eve"}
MODELS: list[tuple[Any, Any]] = [
    (
        Issue,
        {"number": 3, "title": "x", "user": USER, "labels": [{"name": " Bug "}], "created_at": "2026-01-31T00:00Z"},
    ),
    (Envelope[Issue | User], {"result": USER}),
    (Envelope[list[int]], {"result": [1], "error": None}),
    (Camel, {"firstName": "Ann", "dateOfBirth": "2001-02-03"}),
    (BothAliases, {"in_size": 3}),
    (Invoice, {"lines": ["1.50", "2"]}),
    (Range, {"low": 3, "high": 1}),
    (Discounted, {"price": 8.0}),
    (Truncated, {"text": "a long text"}),
    (EmptyIsNone, {"name": ""}),
    (Csv, {"tags": ["a", "b"]}),
    (OneWayCsv, {"tags": ["a", "b"]}),
    (JsonOnly, {"at": "2026-01-31T00:00:00Z"}),
    (JsonOnly, {"at": "2026-01-31T00:00:00+05:30"}),
    (Revealed, {"token": "hunter2"}),
    (Vault, {"name": "x"}),
    (Vault, {"name": "x", "keys": ["a"]}),
    (Blob, {"data": "hé"}),
    (RawBytes, {"data": "_w=="}),
    (Payload, {"body": "[1, 2]"}),
    (Sizes, {"limit": "3 MiB"}),
    (Link, {"url": "HTTPS://Example.org", "zone": "Europe/Berlin"}),
    (Session, {"user": "eve"}),
    (Plain, {"state": "closed"}),
    (Lasting, {"span": "PT1.5S"}),
    (Infinite, {}),
    (Lost, {"name": "x"}),
    (Money, {"amount": "12.50"}),
    (Shape, {"kind": "group", "shapes": [{"kind": "circle", "radius": 1}, {"kind": "group", "shapes": []}]}),
    (Circle | Square, {"kind": "square", "side": 2}),
    (Linked[int], {"value": 1, "next": {"value": 2}}),
    (Folder, {"name": "a", "files": [{"name": "b", "shortcuts": [{"name": "a"}]}]}),
    (Scores, {"a": 1}),
    (Either, "3"),
    (Strictly, {"width": 2, "height": 3}),
    (Audit, {"title": "x"}),
    (FromPath, {"address": {"city": "Ur"}}),
    (WrittenAs, {"content_type": "text/plain"}),
    (Header, {"content-type": "x", "$ref": "#", "from": "you"}),
    (Strict, {"day": "2026-01-31", "id": "12345678-1234-5678-1234-567812345678", "pair": [1, "a"], "names": ["b"]}),
    (Zoo, {"animals": [{"name": "x"}]}),
    (Defaulted, {"first": "ab"}),
    (Validated, {}),
    (Assigned, {"code": "ab"}),
    (Dependent, {"password": "x", "again": "x"}),
    (Typed, {"size": 3}),
    (Nested, {"inner": {"at": "12:30"}, "more": {"2": {"at": "01:00:00"}}}),
    (Reserved, {"self": 2, "value": "x"}),
    (Amount, {"it": "3", "flag": 1}),
    (Amount, {"it": 3.0}),
    (When, {"at": "2026-01-31"}),
    (When, {"at": "2026-01-31T00:00:00", "local": "2026-01-31T00:00:00"}),
    (Bounded, {"one": [1], "step": 10}),
    (Collections, {"queue": [1, 2, 3, 4], "frozen": [2, 1], "table": {"2026-01-31": ["1.50"]}, "pairs": {"a": [1]}}),
    (Rounded, {"it": 1.25}),
    (Rounded, {"it": 1.5}),
    (Twice, {"it": 3}),
    (Stamp, {"at": "2026-01-31T00:00:00Z"}),
    (Anything, {"it": [1, {"a": None}]}),
    (Painted, {"colour": "red"}),
    (Unreadable, {"hook": "x"}),
    (Instance, {"it": "red"}),
    (Aged, {"name": "a", "spouse": {"name": "b"}}),
    (Config, {"mode": None, "retries": "forever"}),
    (Cased, {"unitPrice": "1.50", "subItems": [{"unitPrice": "2"}]}),
    (Booking, {"guest": "eve adams", "numberOfNights": 2, "at": "2026-01-31"}),
    (Split, {"text": "a b"}),
    (Document, {"body": {"a": [1, None, {"b": "c"}]}, "index": {"x": [1]}}),
    (Alias[str, Label], {"a": [{"name": "X"}]}),
]
"""Each with the JSON that a model, a person or a program may send for it."""

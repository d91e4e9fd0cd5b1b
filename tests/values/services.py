"""Models of pydantic as services, tools and configurations in production have them, written before their first run."""

import datetime
import enum
import re
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, NamedTuple, Self, Union

import pydantic as p
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType, TypedDict, TypeVar

T = TypeVar("T")
M = TypeVar("M", default=dict[str, str])


class Phase(enum.StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"


class Metadata(BaseModel):
    """The head of an object of a cluster."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")
    name: str
    creation_timestamp: datetime.datetime | None = None
    owner_references: list[dict[str, Any]] = Field(default_factory=list)
    labels: dict[str, str] = {}


class Pod(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, use_enum_values=True)
    api_version: Literal["v1"] = "v1"
    kind: Literal["Pod"] = "Pod"
    metadata: Metadata
    phase: Phase = Phase.PENDING


def _seconds(at: datetime.datetime) -> int:
    return int(at.timestamp())


Epoch = Annotated[datetime.datetime, p.PlainSerializer(_seconds, return_type=int)]


class Charge(BaseModel):
    object: Literal["charge"]
    amount: int
    currency: Annotated[str, p.StringConstraints(to_lower=True, min_length=3, max_length=3)]


class Customer(BaseModel):
    object: Literal["customer"]
    email: str | None = None


class Hook(BaseModel):
    """A message of a payment service."""

    id: str = Field(pattern=r"^evt_\w+$")
    created: Epoch
    data: Charge | Customer = Field(discriminator="object")
    livemode: bool = False


class Open(BaseModel):
    __pydantic_extra__: dict[str, int]
    model_config = ConfigDict(extra="allow")
    name: str


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=20)
    name: str
    tags: tuple[str, ...] = ()


class ByAlias(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)
    class_: str = Field(alias="class")


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    class_: str = Field(alias="class")


class InfinityAsText(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")
    high: float = float("inf")


class InfinityAsConstant(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")
    high: float = float("inf")


class Hexed(BaseModel):
    model_config = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")
    digest: bytes


class OneSidedHex(BaseModel):
    model_config = ConfigDict(ser_json_bytes="hex")
    digest: bytes = b"\xff"
    name: str


class Seconds(BaseModel):
    model_config = ConfigDict(ser_json_timedelta="float")
    timeout: datetime.timedelta
    at: datetime.datetime | None = None


class Milliseconds(BaseModel):
    model_config = ConfigDict(ser_json_temporal="milliseconds")
    at: datetime.datetime
    span: datetime.timedelta


class Sparse(BaseModel):
    """A model that leaves out what is None, however it is written."""

    name: str
    note: str | None = "none given"

    @p.model_serializer(mode="wrap")
    def sparse(self, handler: p.SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}


class OwnDump(BaseModel):
    name: str
    note: str | None = "none given"

    def model_dump(self, **settings: Any) -> dict[str, Any]:
        return super().model_dump(exclude_none=True, **settings)


class TypedOnWire(BaseModel):
    size: int

    @p.model_serializer(mode="wrap")
    def named(self, handler: p.SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"__type__": type(self).__name__, **handler(self)}


class Legacy(BaseModel):
    """A model that still takes the keys of its first version."""

    color: str
    size: int = 1

    @p.model_validator(mode="before")
    @classmethod
    def upgrade(cls, data: Any) -> Any:
        if isinstance(data, dict) and "colour" in data:
            data = {**data, "color": data["colour"]}
            del data["colour"]
        return data


class Legacies(BaseModel):
    model_config = ConfigDict(extra="forbid")
    version: int = 2
    names: list[str]

    @p.model_validator(mode="wrap")
    @classmethod
    def upgrade(cls, data: Any, handler: p.ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, str):
            return handler({"names": data.split("/")})
        return handler(data)


class Cart(BaseModel):
    prices: list[Decimal]
    total: Decimal | None = None

    @p.model_validator(mode="after")
    def sum_up(self) -> Self:
        self.total = sum(self.prices, Decimal(0))
        return self


class WithTax(BaseModel):
    """A model that changes each time it is read."""

    price: Decimal

    @p.model_validator(mode="after")
    def taxed(self) -> Self:
        self.price *= 2
        return self


class Client(BaseModel):
    url: str
    _opened: datetime.datetime = p.PrivateAttr(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    _calls: int = 0

    def model_post_init(self, context: Any) -> None:
        self._calls += 1

    @cached_property
    def host(self) -> str:
        return self.url.split("/")[2]


class Bill(BaseModel):
    net: Decimal = Field(max_digits=8, decimal_places=2)

    @p.computed_field(alias="grossAmount")  # type: ignore[prop-decorator]
    @cached_property
    def gross(self) -> Decimal:
        return self.net * 2


class BillWithoutMore(BaseModel):
    """Computed fields are written, and refused when read."""

    model_config = ConfigDict(extra="forbid")
    net: int

    @p.computed_field  # type: ignore[prop-decorator]
    @property
    def gross(self) -> int:
        return self.net * 2


class Reply(BaseModel, Generic[T, M]):
    data: T
    meta: M | None = None


class Named(BaseModel, Generic[T]):
    value: T


class NamedList(Named[list[T]], Generic[T]):
    count: int = 0


class Branch(BaseModel, Generic[T]):
    it: T
    below: "list[Branch[T]] | None" = None


class Any_(RootModel := p.RootModel["dict[str, Any_] | list[Any_] | str | float | bool | None"]):  # type: ignore[misc]
    pass


class Steps(p.RootModel[list[Annotated[Charge | Customer, Field(discriminator="object")]]]):
    def __iter__(self) -> Any:
        return iter(self.root)

    def __len__(self) -> int:
        return len(self.root)


class Ids(BaseModel):
    v4: p.UUID4
    text_or_id: uuid.UUID | str
    host: p.IPvAnyAddress
    network: p.IPvAnyNetwork | None = None


class Texts(BaseModel):
    pattern: re.Pattern[str]
    encoded: p.Base64Str
    url: p.Base64UrlBytes = b"aGk="
    where: p.DirectoryPath = Path("/")


class Due(BaseModel):
    on: p.FutureDate
    since: p.PastDatetime = datetime.datetime(2020, 1, 1)


class Imported(BaseModel):
    function: p.ImportString[Any]


class Born(BaseModel):
    name: str
    on: p.Secret[datetime.date]


class Smart(BaseModel):
    a: int | str | float | bool
    b: datetime.date | datetime.datetime | str = Field(union_mode="left_to_right")
    c: Decimal | float | None = None
    d: set[int] | list[int] = []
    e: bytes | str = b""


class Wholesale(BaseModel):
    counts: Counter[str]
    order: OrderedDict[str, int]
    groups: defaultdict[Phase, list[int]]
    recent: Annotated[deque[int], Field(max_length=3)]
    by_id: dict[uuid.UUID, dict[datetime.date, bool]] = {}


class Exact(BaseModel):
    share: Fraction = Fraction(1, 3)
    at: complex
    empty: tuple[()] = ()
    none: None = None


class Keys(BaseModel):
    by_pair: dict[tuple[int, int], str]
    by_number: dict[int | float, str] = {}
    by_flag: dict[bool, int] = {}


class Documented(BaseModel):
    """A model whose schema says more than its types."""

    model_config = ConfigDict(
        title="A documented model", json_schema_extra={"examples": [{"level": 3}]}, use_attribute_docstrings=True
    )
    level: int = Field(examples=[3], json_schema_extra={"x-unit": "dB"}, multiple_of=3)
    """How loud it is."""
    old: str | None = Field(None, deprecated=True)
    hidden: SkipJsonSchema[int] = 7
    shown: Annotated[int, p.WithJsonSchema({"type": "integer", "description": "as text"})] = 1


class Constants(BaseModel):
    VERSION: ClassVar[str] = "2"
    code: Final[str]
    size: int = Field(3, frozen=True)


class Own(BaseModel):
    """A model with an ``__init__`` of its own."""

    x: int
    y: int = 0

    def __init__(self, x: int = 1, **more: Any) -> None:
        super().__init__(x=x, **{"y": x + 1, **more})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.x == other.x

    def __hash__(self) -> int:
        return hash(self.x)


class Shape(BaseModel):
    name: str


class Round(Shape):
    radius: float = 1.0


class Drawing(BaseModel):
    """The first shape is read as its base class again, the second as written."""

    shape: p.SerializeAsAny[Shape] = Round(name="o")
    shapes: list[Round | Shape] = []


class Sent(BaseModel):
    """Serialisers that only act for JSON, or only where there is something."""

    amount: Annotated[Decimal, p.PlainSerializer(float, return_type=float, when_used="json")]
    due: datetime.date | None = None
    note: Annotated[str | None, p.WrapSerializer(lambda v, h: h(v), when_used="unless-none")] = None

    @p.field_serializer("due", when_used="unless-none")
    def american(self, due: datetime.date) -> str:
        return due.strftime("%m/%d/%Y")


class Starred(BaseModel):
    a: float
    b: float

    @p.field_serializer("*")
    def short(self, value: float) -> float:
        return round(value, 1)


class Excluding(BaseModel):
    name: str
    size: int = Field(0, exclude_if=lambda size: size == 0)
    seen: bool = Field(True, exclude=True)


class ObjectId:
    """An identifier of a database, with a schema of its own."""

    def __init__(self, hexadecimal: str) -> None:
        self.hexadecimal = hexadecimal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectId) and self.hexadecimal == other.hexadecimal

    def __hash__(self) -> int:
        return hash(self.hexadecimal)

    def __repr__(self) -> str:
        return f"ObjectId({self.hexadecimal!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: p.GetCoreSchemaHandler) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            lambda value: value if isinstance(value, cls) else cls(value),
            core_schema.union_schema([core_schema.is_instance_schema(cls), core_schema.str_schema()]),
            serialization=core_schema.to_string_ser_schema(),
        )


class ObjectIds(BaseModel):
    id: Annotated[str, p.BeforeValidator(str)] = Field(alias="_id")
    parent: str | None = Field(None, validation_alias=p.AliasChoices("parent", p.AliasPath("links", "parent")))


class Stored(BaseModel):
    id: ObjectId


class Where(NamedTuple):
    latitude: float
    longitude: float = 0.0


class Movie(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid", str_to_lower=True)  # type: ignore[misc]
    title: str
    at: Where


class Trip(BaseModel):
    start: Where
    movie: Movie
    stops: list[tuple[str, Where]] = []


@p.dataclasses.dataclass(config=ConfigDict(str_strip_whitespace=True), kw_only=True, slots=True)
class Contact:
    name: str
    born: datetime.date | None = Field(None, alias="birthday")
    tags: list[str] = Field(default_factory=list, max_length=3)


@p.dataclasses.dataclass(frozen=True)
class Contacts:
    all: list[Contact]
    first: Contact = Field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.all[0])


class Callback(BaseModel):
    name: str
    call: Callable[[int], int] = Field(abs, exclude=True)


class Settings(BaseModel):
    """Settings with environments in them, of which each has its own fields."""

    model_config = ConfigDict(validate_default=True, validate_assignment=True, revalidate_instances="always")
    retries: int = "3"  # type: ignore[assignment]
    paths: list[Path] = ["a"]  # type: ignore[list-item]
    mode: Literal[Phase.RUNNING, "off"] = "off"


class Versioned(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid.uuid4)
    name: str
    slug: str = Field(default_factory=lambda data: data["name"].lower())
    updated: datetime.datetime = Field(default_factory=lambda: datetime.datetime.now(datetime.UTC))


Expression = TypeAliasType("Expression", Union[int, "Operation"])


class Operation(BaseModel):
    op: Literal["+", "*"]
    parts: "tuple[Expression, Expression]"


Operation.model_rebuild()
Positive = Annotated[int, p.AfterValidator(abs)]
HOOK = {"id": "evt_1", "created": "2026-01-31T00:00:00Z", "data": {"object": "charge", "amount": 5, "currency": "EUR"}}
UUID = "12345678-1234-4678-8234-567812345678"

SERVICES: list[tuple[Any, Any]] = [
    (Pod, {"metadata": {"name": "x", "creationTimestamp": "2026-01-31T00:00:00Z", "uid": "1"}, "phase": "Running"}),
    (Hook, HOOK),
    (Epoch, "2026-01-31T00:00:00Z"),
    (Open, {"name": "x", "a": 1}),
    (Closed, {"name": "x", "tags": ["a"]}),
    (ByAlias, {"class": "a"}),
    (ByName, {"class_": "a"}),
    (InfinityAsText, {}),
    (InfinityAsConstant, {}),
    (Hexed, {"digest": "ff00"}),
    (OneSidedHex, {"name": "x"}),
    (Seconds, {"timeout": "PT1.5S"}),
    (Milliseconds, {"at": "2026-01-31T00:00:00.123456Z", "span": "PT1.5S"}),
    (Sparse, {"name": "x", "note": None}),
    (OwnDump, {"name": "x", "note": None}),
    (TypedOnWire, {"size": 3}),
    (Legacy, {"color": "red"}),
    (Legacies, {"names": ["a"]}),
    (Cart, {"prices": ["1.50", 2]}),
    (WithTax, {"price": "1"}),
    (Client, {"url": "https://example.org/x"}),
    (Bill, {"net": "12.50"}),
    (BillWithoutMore, {"net": 3}),
    (Reply[int], {"data": 1, "meta": {"a": "b"}}),
    (Reply[list[Closed], Movie], {"data": [{"name": "x"}], "meta": {"title": "A"}}),
    (NamedList[datetime.date], {"value": ["2026-01-31"], "count": 1}),
    (Branch[Phase], {"it": "Running", "below": [{"it": "Pending"}]}),
    (Any_, {"a": [1, None, {"b": "c"}]}),
    (Steps, [{"object": "customer"}]),
    (Ids, {"v4": UUID, "text_or_id": UUID, "host": "::1", "network": "10.0.0.0/8"}),
    (Ids, {"v4": UUID, "text_or_id": "x", "host": "10.0.0.1"}),
    (Texts, {"pattern": "^a+$", "encoded": "aGk="}),
    (Due, {"on": "9999-01-01"}),
    (Imported, {"function": "math.cos"}),
    (Born, {"name": "x", "on": "2001-02-03"}),
    (Smart, {"a": "1", "b": "2026-01-31", "c": "1.50", "d": [2, 1, 2], "e": "hi"}),
    (Smart, {"a": True, "b": "soon", "c": 1.5}),
    (Wholesale, {"counts": {"a": 2}, "order": {"b": 1, "a": 2}, "groups": {"Running": [1]}, "recent": [1, 2, 3]}),
    (Wholesale, {"counts": {}, "order": {}, "groups": {}, "recent": [], "by_id": {UUID: {"2026-01-31": True}}}),
    (Exact, {"at": "1+2j", "share": "2/4"}),
    (Keys, {"by_pair": {"1,2": "x"}}),
    (Keys, {"by_pair": {}, "by_number": {"1": "x", "1.5": "y"}, "by_flag": {"true": 1}}),
    (Documented, {"level": 3}),
    (Constants, {"code": "x"}),
    (Constants, {"code": "x", "size": 4}),
    (Own, {"x": 3}),
    (Own, {"x": 3, "y": 9}),
    (Drawing, {}),
    (
        Drawing,
        {
            "shape": {"name": "x"},
            "shapes": [{"type": "Shape", "name": "a"}, {"type": "Round", "name": "b", "radius": 2}],
        },
    ),
    (Sent, {"amount": "1.50", "due": "2026-01-31"}),
    (Sent, {"amount": "0.1"}),
    (Starred, {"a": 1.25, "b": 1}),
    (Excluding, {"name": "x"}),
    (Excluding, {"name": "x", "size": 3, "seen": False}),
    (ObjectIds, {"_id": "3", "links": {"parent": "x"}}),
    (Stored, {"id": "ff"}),
    (ObjectId, "ff"),
    (Trip, {"start": [1, 2], "movie": {"title": "A", "at": [3]}, "stops": [["x", [1, 2]]]}),
    (Contact, {"name": " x ", "birthday": "2001-02-03"}),
    (Contacts, {"all": [{"name": "x"}, {"name": "y"}]}),
    (Callback, {"name": "x"}),
    (Settings, {"mode": "Running"}),
    (Versioned, {"name": "X"}),
    (Expression, {"op": "+", "parts": [1, {"op": "*", "parts": [2, 3]}]}),
    (Positive, -3),
    (p.Json[list[int]], "[1, 2]"),
    (p.AwareDatetime, "2026-01-31T00:00:00+01:00"),
    (p.HttpUrl, "https://example.org"),
    (p.SecretStr, "hunter2"),
    (p.ByteSize, "1KiB"),
]
"""Each with the JSON that a model, a person or a program may send for it."""

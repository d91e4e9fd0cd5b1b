"""The values of dependencies are checked by the type of their key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NewType, Protocol, TypedDict, TypeVar

import pytest
from msgspec import Struct

from ziggurat import ConfigurationError, Key

T = TypeVar("T")


class Database:
    """A class."""


class Replica(Database):
    """A subclass."""


class Settings(Struct):
    """A Struct."""

    url: str


@dataclass
class Limits:
    """A dataclass."""

    most: int


class Row(TypedDict):
    """A typed dictionary."""

    id: int


class Closable(Protocol):
    """A protocol."""

    def close(self) -> None: ...


class Pool:
    """Implements the protocol."""

    def close(self) -> None:
        """Close."""


class Box(Generic[T]):
    """A generic class."""


UserId = NewType("UserId", int)

TABLE: list[tuple[Key[Any], list[object], list[object]]] = [
    (Key[Database]("k"), [Database(), Replica()], [Pool(), None, "x", Database]),
    (Key[Database | None]("k"), [None, Replica()], [Pool(), 0]),
    (Key[Settings]("k"), [Settings("x")], [{"url": "x"}, Settings]),
    (Key[Limits]("k"), [Limits(1)], [1, Limits]),
    (Key[Row]("k"), [{"id": 1}], [[1], "id"]),
    (Key[Closable]("k"), [Pool()], [Database(), Pool, 1]),
    (Key[Box[int]]("k"), [Box()], [Pool()]),
    (Key[str]("k"), ["", "x"], [1, b"x", None]),
    (Key[int]("k"), [0, -1], ["1", 1.5, None]),
    (Key[float]("k"), [1, 1.5, float("inf")], ["1", None]),
    (Key[bool]("k"), [True], [1, "yes"]),
    (Key[list[int]]("k"), [[1], []], [(1,), {1}, "1"]),
    (Key[dict[str, int]]("k"), [{}, {"a": 1}], [[], "a"]),
    (Key[Mapping[str, int]]("k"), [{}], [[]]),
    (Key[Sequence[str]]("k"), [["a"], ("a",)], [3, {"a"}]),
    (Key[Callable[[str], int]]("k"), [len, lambda text: 1], [1, "len"]),
    (Key[Literal["eu", "us"]]("k"), ["eu"], ["asia", 1]),
    (Key[Annotated[int, "seconds"]]("k"), [1], ["1"]),
    (Key[type[Database]]("k"), [Database, Replica], [Database()]),
    (Key[int | str]("k"), [1, "x"], [1.5, None]),
    (Key[UserId]("k"), [UserId(1)], ["1"]),
    (Key[Any]("k"), [1, None, "x"], []),
    (Key("k"), [1, None, "x"], []),  # its type is not known at run time
]


def test_a_value_fits_the_type_of_its_key_or_is_refused() -> None:
    for key, fits, others in TABLE:
        for value in fits:
            key.check(value)
        for value in others:
            with pytest.raises(ConfigurationError, match="k"):
                key.check(value)


def test_the_error_names_the_key_and_both_types() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Key[Database]("orders").check(3)
    assert all(word in str(caught.value) for word in ("orders", "Database", "int"))


def test_items_of_a_collection_are_not_read() -> None:
    class Fails(list[int]):
        def __iter__(self) -> Any:
            raise AssertionError("read")

    Key[list[int]]("k").check(Fails())


DATABASE, LIMIT = Key[Database]("database"), Key[int]("limit")


def test_bound_keys_are_a_mapping() -> None:
    database = Database()
    assert DATABASE.bind(database) | LIMIT.bind(3) == {DATABASE: database, LIMIT: 3}

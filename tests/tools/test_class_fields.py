"""Classes of attrs are shown and read as their ``__init__`` takes them."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import attrs
import pytest
from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from ziggurat import ConfigurationError
from ziggurat.tools.parameter import Parameter, Problem
from ziggurat.tools.schema import schema_of

T = TypeVar("T")


def lengths(words: list[str]) -> list[int]:
    return list(map(len, words))


@attrs.define
class Order(Generic[T]):
    _number: int = attrs.field(validator=attrs.validators.ge(1))
    item: T
    sizes: list[int] = attrs.field(converter=lengths, factory=list)
    total: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.total = sum(self.sizes)


@attrs.define
class Basket:
    orders: list[Order[str]]
    note: str | None = attrs.field(default=None, converter=attrs.converters.optional(str.strip))  # type: ignore[misc]


@attrs.define
class Chain:
    _next: "Chain | None" = None


@dataclass
class Dated:
    day: int = 1


def test_its_schema_has_the_arguments_of_its_init() -> None:
    assert schema_of(Order[str]) == {
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "item": {"type": "string"},
            "sizes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["number", "item"],
    }


def test_its_init_is_called() -> None:
    reader = Parameter.of("basket", Basket, required=True)
    basket = reader.convert({"orders": [{"number": 3, "item": "tea", "sizes": ["ab", "c"]}], "note": " x "})
    assert basket == Basket([Order(3, "tea", ["ab", "c"])], "x")
    assert isinstance(basket, Basket)
    assert (basket.orders[0].total, basket.note) == (3, "x")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "basket.orders: missing (required)"),
        ({"orders": [{"item": 3}]}, "basket.orders[0].number: missing (required)"),
        ({"orders": [{"number": 0, "item": "x"}]}, "basket.orders[0]: "),
        ({"orders": [{"number": "x", "item": "y"}]}, "basket.orders[0].number: expected an integer"),
        (3, "basket: expected an object, got 3"),
    ],
    ids=str,
)
def test_a_problem_says_where_it_is(given: Any, told: str) -> None:
    with pytest.raises(Problem) as caught:
        Parameter.of("basket", Basket, required=True).convert(given)
    assert str(caught.value).startswith(told)


def test_where_its_init_cannot_be_called_it_is_refused() -> None:
    class InStruct(Struct):
        order: Order[str]

    class InModel(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        order: Basket

    for kind in (InStruct, InModel, Chain, list[Chain]):
        with pytest.raises(ConfigurationError, match=r"attrs|schema"):
            schema_of(kind)


def test_an_instance_in_place_of_its_class_is_refused() -> None:
    for kind in (Order(1, "x"), Basket([]), Dated()):
        with pytest.raises(ConfigurationError, match="JSON schema"):
            schema_of(kind)

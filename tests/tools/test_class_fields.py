"""Classes of attrs are read where their fields are set as JSON has them, and refused otherwise."""

from dataclasses import dataclass
from typing import Generic, TypeVar

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
    words: list[str]
    limit: float = float("inf")
    note: str | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.max_len(3)))


@attrs.define
class Chain:
    _next: "Chain | None" = None


@dataclass
class Dated:
    day: int = 1


def test_its_fields_are_set_and_validated() -> None:
    reader = Parameter.of("basket", Basket, required=True)
    basket = reader.convert({"words": ["a"], "note": "tea"})
    assert basket == Basket(["a"], note="tea")
    assert reader.revive(reader.recorded(basket)) == basket
    with pytest.raises(Problem, match="basket"):
        reader.convert({"words": ["a"], "note": "coffee"})


def test_where_its_init_must_be_called_it_is_refused() -> None:
    class InStruct(Struct):
        order: Order[str]

    class InModel(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        order: Order[str]

    for kind in (Order[str], InStruct, InModel, Chain, list[Chain]):
        with pytest.raises(ConfigurationError, match=r"attrs|schema"):
            schema_of(kind)


def test_an_instance_in_place_of_its_class_is_refused() -> None:
    for kind in (Order(1, "x"), Basket([]), Dated()):
        with pytest.raises(ConfigurationError, match="JSON schema"):
            schema_of(kind)

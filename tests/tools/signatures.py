"""Helpers for the tests of signatures and parameters: types, and the errors for bad arguments."""

import enum
from dataclasses import dataclass, field
from typing import Any

import pytest

from ziggurat.errors import InvalidArguments
from ziggurat.tools.signature import Signature


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    name: str
    size: int = 1


@dataclass
class Tree:
    value: int
    children: list["Tree"] = field(default_factory=list)


def taking(annotation: object, default: object = ...) -> Signature:
    """Make the signature of a function with one parameter, `value`, of this type."""

    def tool(value: Any = default) -> None: ...

    if default is ...:
        tool.__defaults__ = None
    tool.__annotations__["value"] = annotation
    return Signature.of(tool)


def problem(signature: Signature, arguments: str | bytes) -> str:
    with pytest.raises(InvalidArguments) as caught:
        signature.decode(arguments)
    return str(caught.value)

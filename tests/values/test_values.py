"""A value on record reads back: at each place it is the same before and after a resume, or refused by name."""

import types
from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Any

import pytest
from msgspec import Struct
from pydantic import create_model

from tests.samples import sample
from tests.stores.places import new_store
from tests.values.kinds import HELD_OUT, OWN, Row
from tests.values.places import CODE, PLACES
from ziggurat import ConfigurationError
from ziggurat.tools.type_parts import classes_in


def facts(value: Any) -> Any:
    """Return what a value is, in types and texts that can be compared; private parts are left out."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, {str(key): facts(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return kind, sorted(map(repr, map(facts, value)))
    if hasattr(value, "get_secret_value"):
        return kind, value.get_secret_value()
    if isinstance(value, (list, tuple)):
        return kind, [facts(each) for each in value]
    names = getattr(type(value), "__struct_fields__", None) or getattr(type(value), "__dataclass_fields__", ())
    if names or hasattr(value, "model_dump"):
        names = names or [*vars(value), *(getattr(value, "model_extra", None) or ())]
        return kind, {name: facts(getattr(value, name)) for name in names if hasattr(value, name)}
    return kind, repr(value)


def _within(kind: Any, data: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield a type as it is, and in other types."""
    yield "", kind, data
    yield "list", types.GenericAlias(list, (kind,)), [data, data]
    yield "dict", types.GenericAlias(dict, (str, kind)), {"k": data}
    yield "optional", kind | None, data
    if not any(issubclass(each, Struct) or each is Row for each in classes_in(kind)):  # which pydantic does not read
        yield "model", create_model("Model", it=(kind, ...)), {"it": data}
    yield "dataclass", make_dataclass("Made", [("it", kind)]), {"it": data}


def _table() -> Iterator[Any]:
    for number, (kind, data) in enumerate([*OWN, *HELD_OUT]):
        for around, whole, given in _within(kind, data):
            yield pytest.param(whole, given, id=f"{number}-{getattr(kind, '__name__', kind)!s:.30}-{around}")


OF_THE_TYPE = ("cannot make a JSON schema", "neither library checks", "of the type Iterable")
"""Why a type is refused at every place, when the agent, the tool or the step is made."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("kind", "data"), sample(_table(), 40))
async def test_a_value_on_record_reads_back_or_is_refused_by_name(kind: Any, data: Any, place: str) -> None:
    try:
        values = await PLACES[place](kind, data, new_store())
    except ConfigurationError as error:
        if not (any(reason in str(error) for reason in OF_THE_TYPE) or (place in CODE and "recorded" in str(error))):
            raise
        return
    assert values
    first = facts(values[0])
    assert [facts(each) for each in values] == [first] * len(values)

"""A value on record reads back: at each place it is the same before and after a resume, or refused by name."""

import asyncio
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, Optional

import pytest
from msgspec import json
from pydantic import PydanticUserError, TypeAdapter, ValidationError, create_model

from tests.samples import sample
from tests.stores.places import new_store, stores
from tests.values import elsewhere
from tests.values.elsewhere import KINDS, facts
from tests.values.places import CODE, PLACES
from ziggurat import ConfigurationError


def _within(kind: Any, data: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield a type as it is, and in other types."""
    yield "", kind, data
    yield "list", types.GenericAlias(list, (kind,)), [data, data]
    yield "dict", types.GenericAlias(dict, (str, kind)), {"k": data}
    yield "optional", Optional[kind], data  # noqa: UP045 - made at run time
    with suppress(PydanticUserError, UserWarning, ValueError):  # of classes that pydantic reads in part, or not
        yield "model", create_model("Model", it=(kind, ...)), {"it": data}
    yield "dataclass", make_dataclass("Made", [("it", kind)]), {"it": data}


def _table() -> Iterator[Any]:
    for number, (kind, data) in enumerate(KINDS):
        for around, whole, given in _within(kind, data):
            name = f"{getattr(kind, '__name__', kind)!s:.30}"
            yield pytest.param(whole, given, REFUSED.get(name, ()), id=f"{number}-{name}-{around}")


OF_THE_TYPE = (
    "cannot make a JSON schema",
    "neither checks",
    "of the type Iterable",
    "by a path",
    "which JSON does not have",
    "whose values JSON does not have",
)
"""Why a type is refused at every place, when the agent, the tool or the step is made."""

REFUSED = {"Audit": ("its JSON gives another value each time",), "Ring": ("holds itself", "Circular reference")}
"""Why these types alone are refused, with their first value, before anything acts on it."""


def _is_read(kind: Any, data: Any) -> bool:
    """Return whether pydantic reads the data of a class that is made around another type, as alone we may read more."""
    try:
        TypeAdapter(kind).validate_json(json.encode(data))
    except ValidationError:
        return False
    except Exception:  # a type that it refuses; ours is asked
        return True
    return True


@pytest.mark.filterwarnings("ignore:.*ReadOnly")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("kind", "data", "refused"), sample(_table(), 40))
async def test_a_value_on_record_reads_back_or_is_refused_by_name(
    kind: Any, data: Any, refused: tuple[str, ...], place: str
) -> None:
    if getattr(kind, "__name__", "") in ("Model", "Made") and not _is_read(kind, data):
        pytest.skip("pydantic does not read the field")
    try:
        values = await PLACES[place](kind, data, new_store())
    except ConfigurationError as error:
        if not (
            any(reason in str(error) for reason in (*OF_THE_TYPE, *refused))
            or (place in CODE and ("recorded" in str(error) or "whose JSON does not fit" in str(error)))
        ):
            raise
        return
    assert values
    first = facts(values[0])
    assert [facts(each) for each in values] == [first] * len(values)


@pytest.mark.filterwarnings("ignore:.*ReadOnly")
@pytest.mark.parametrize("place", PLACES)
async def test_values_read_back_from_sqlite(tmp_path: Path, place: str) -> None:
    """By a store that has only the file."""
    for number, (kind, data) in enumerate(sample(KINDS, 6)):
        (tmp_path / str(number)).mkdir()
        with suppress(ConfigurationError):
            async with stores("sqlite", tmp_path / str(number), 1) as (store,):
                values = [facts(each) for each in await PLACES[place](kind, data, store)]
            assert values == [values[0]] * len(values)


async def test_another_process_reads_the_same_values(tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path, 1) as (store,):
        known = {number: await elsewhere.first(number, store) for number in sample(range(len(KINDS)), 12)}
    waiting = [number for number, seen in known.items() if seen]
    command = [sys.executable, "-m", "tests.values.elsewhere", str(tmp_path), *map(str, waiting)]
    printed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    assert json.decode(printed.stdout) == json.decode(json.encode([known[number] for number in waiting]))

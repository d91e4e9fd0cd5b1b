"""Values that one process records and another reads: ``python -m tests.values.elsewhere PATH NUMBER...`` is one."""

import asyncio
import datetime
import enum
import sys
from pathlib import Path
from typing import Any

from msgspec import json

from tests.stores.places import stores
from tests.values.attributes import ATTRS
from tests.values.kinds import HELD_OUT, OWN
from tests.values.library import LIBRARY
from tests.values.models import MODELS
from tests.values.places import made
from tests.values.records import RECORDS
from tests.values.services import SERVICES
from tests.values.structs import STRUCTS
from ziggurat import ConfigurationError
from ziggurat.agents import Answer
from ziggurat.flows import ask, flow, step

KINDS = [*OWN, *HELD_OUT, *MODELS, *ATTRS, *RECORDS, *SERVICES, *LIBRARY, *STRUCTS]


def facts(value: Any) -> Any:
    """Return what a value is, in types and texts that can be compared; private parts are left out."""
    kind = type(value).__name__
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:  # the moment is what it is
        return kind, repr(value.astimezone(datetime.UTC))
    if isinstance(value, (str, int)) and isinstance(value, enum.Enum):  # equal to its text or number
        return facts(value.value)
    if isinstance(value, memoryview):
        return kind, bytes(value)
    if isinstance(value, dict):
        return kind, {str(key): facts(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return kind, sorted(map(repr, map(facts, value)))
    if hasattr(value, "get_secret_value"):
        return kind, value.get_secret_value()
    if isinstance(value, (list, tuple)):
        return kind, [facts(each) for each in value]
    names = getattr(type(value), "__struct_fields__", None) or getattr(type(value), "__dataclass_fields__", ())
    names = names or [each.name for each in getattr(type(value), "__attrs_attrs__", ())]
    if hasattr(value, "model_dump"):
        return kind, {name: facts(each) for name, each in {**vars(value), **(value.model_extra or {})}.items()}
    if names:
        return kind, {name: facts(getattr(value, name)) for name in names if hasattr(value, name)}
    return kind, repr(value)


def order(number: int, store: Any, seen: list[Any]) -> Any:
    """Return a flow that waits with a value of a type on record: the result of a step, and the answer to a question."""
    kind, data = KINDS[number]

    @step
    async def work() -> Any:
        return made(kind, data)

    work.function.__annotations__["return"] = kind

    @flow(name=f"order-{number}", store=store)
    async def order() -> str:
        seen.append(await work())
        seen.append(await ask("which?", kind))
        await ask("go on?", bool)
        return "done"

    return order


async def first(number: int, store: Any) -> Any:
    """Run a flow until it waits; return the facts of what it has seen, None if the type is refused."""
    seen: list[Any] = []
    made_flow = order(number, store, seen)
    try:
        run = await made_flow.run(run_id=f"r{number}")
        await made_flow.resume(run.id, {run.pending[0].id: Answer(KINDS[number][1])})
    except (ConfigurationError, IndexError):  # of another test
        return None
    return [facts(each) for each in seen[-2:]]


async def second(number: int, store: Any) -> Any:
    """Go on with the flow, and return the facts of what it has seen."""
    seen: list[Any] = []
    made_flow = order(number, store, seen)
    item = (await made_flow.run(run_id=f"r{number}")).pending[0]
    run = await made_flow.resume(f"r{number}", {item.id: Answer(True)})
    assert run.output == "done", run.error
    return [facts(each) for each in seen[-2:]]


async def _print(numbers: list[int], path: str) -> None:
    async with stores("sqlite", Path(path), 1) as (store,):
        print(json.encode([await second(each, store) for each in numbers]).decode())


if __name__ == "__main__":
    asyncio.run(_print([int(each) for each in sys.argv[2:]], sys.argv[1]))

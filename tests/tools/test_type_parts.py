"""The normal form holds every field and entry of a value, in the same order in every process."""

import datetime
import enum
import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from tests.tools.signatures import taking


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Quiet(msgspec.Struct, omit_defaults=True, rename="camel"):
    size: int
    dry_run: bool = False
    tags: list[str] = msgspec.field(default_factory=list)


class Tagged(msgspec.Struct, omit_defaults=True, tag="box"):
    size: int = 1


class Row(msgspec.Struct, omit_defaults=True, array_like=True):
    size: int
    sure: bool = False


class Optional(msgspec.Struct, omit_defaults=True):
    size: int | msgspec.UnsetType = msgspec.UNSET


@dataclass
class Chart:
    points: dict[int, Quiet]
    inner: "list[Chart]" = field(default_factory=list)


class Pair(NamedTuple):
    keys: dict[datetime.date, int]
    sure: bool = False


class Partial(TypedDict, total=False):
    by_level: dict[Level, int]


class Model(pydantic.BaseModel):
    names: set[str] = set()
    pairs: frozenset[tuple[int, str]] = frozenset()
    by_number: dict[int, set[str]] = {}
    inner: "list[Model]" = []


ID = "00000000-0000-4000-8000-000000000000"
CASES: list[tuple[Any, Any, Any]] = [
    (dict[int, str], {"2": "b", "10": "a"}, {"2": "b", "10": "a"}),
    (dict[float, int], {"1": 2}, {"1.0": 2}),
    (dict[bool, int], {"true": 2}, {"true": 2}),
    (dict[Level, int], {"low": "2"}, {"low": 2}),
    (dict[Literal["a", "b"], int], {"b": 1}, {"b": 1}),
    (dict[uuid.UUID, int], {ID.replace("-", ""): 1}, {ID: 1}),
    (dict[datetime.date, list[int]], {"2026-01-31": [1]}, {"2026-01-31": [1]}),
    (dict[str, dict[int, int]] | None, {"a": {"1": "2"}}, {"a": {"1": 2}}),
    (set[Level], ["low", "high", "low"], ["high", "low"]),
    (set[int | str], ["a", 2, 10], ["a", 10, 2]),
    (set[int | None], [1, None], [1, None]),
    (frozenset[tuple[int, str]], [[2, "b"], [1, "a"]], [[1, "a"], [2, "b"]]),
    (Quiet, {"size": "1"}, {"size": 1, "dryRun": False, "tags": []}),
    (Quiet, {"size": 1, "dryRun": False, "other": 3}, {"size": 1, "dryRun": False, "tags": []}),
    (list[Quiet], [{"size": 1, "dryRun": True}], [{"size": 1, "dryRun": True, "tags": []}]),
    (Tagged | None, {}, {"type": "box", "size": 1}),
    (Row, [1], [1, False]),
    (Optional, {}, {}),
    (Chart, {"points": {"1": {"size": 2}}}, {"points": {"1": {"size": 2, "dryRun": False, "tags": []}}, "inner": []}),
    (Quiet | Chart, {"size": 3}, {"size": 3, "dryRun": False, "tags": []}),
    (Pair, [{"2026-01-31": 3}], [{"2026-01-31": 3}, False]),
    (Partial, {"by_level": {"low": 1}, "other": 2}, {"by_level": {"low": 1}}),
    (
        Model,
        {"names": ["c", "a", "b"], "pairs": [[2, "b"], [1, "a"]], "by_number": {"3": ["z", "y"]}, "inner": [{}]},
        {
            "names": ["a", "b", "c"],
            "pairs": [[1, "a"], [2, "b"]],
            "by_number": {"3": ["y", "z"]},
            "inner": [{"names": [], "pairs": [], "by_number": {}, "inner": []}],
        },
    ),
]


@pytest.mark.parametrize(("kind", "written", "expected"), CASES)
def test_the_normal_form_is_the_whole_value(kind: Any, written: Any, expected: Any) -> None:
    signature = taking(kind)
    text = signature.normalize(json.dumps({"value": written}))
    assert json.loads(text) == {"value": expected}
    assert signature.normalize(text) == text
    assert signature.decode(text) == signature.decode(json.dumps({"value": written}))


def test_the_normal_form_is_the_same_in_every_process() -> None:
    """Sets have another order in each process; a call that was approved in one is made in another."""
    program = (
        "import json\n"
        "from tests.tools.test_type_parts import CASES\n"
        "from tests.tools.signatures import taking\n"
        "print([taking(kind).normalize(json.dumps({'value': written})) for kind, written, _ in CASES])\n"
    )
    texts = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        texts.add(ended.stdout)
    assert len(texts) == 1

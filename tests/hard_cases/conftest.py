"""Each hard case runs on a store that the seed draws, in the long form on every one; `new_store` opens it."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.samples import LONG, SEED
from tests.stores import places

DRAWN = "drawn"


@pytest.fixture(autouse=True, params=["by reference", *places.PLACES] if LONG else [DRAWN])
def _on_a_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    kind = request.param
    if kind == DRAWN:
        kind = random.Random(f"{SEED} {request.node.nodeid}").choice(["by reference", "memory", "file", "sqlite"])
        print(f"the store is {kind}")
    with places.used(kind, tmp_path):
        yield

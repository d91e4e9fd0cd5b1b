"""Every hard case runs on every store; `new_store` opens the one of the case."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import places


@pytest.fixture(autouse=True, params=["by reference", *places.PLACES])
def _on_every_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    with places.used(request.param, tmp_path):
        yield

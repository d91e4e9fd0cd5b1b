from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.samples import sample
from tests.stores.places import STORES, used


@pytest.fixture(params=sample(STORES, 1))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Make `new_store` open stores of a kind."""
    with used(request.param, tmp_path):
        yield request.param

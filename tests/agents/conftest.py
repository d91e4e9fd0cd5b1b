"""Fixtures of the tests of agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.places import Place, opening


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Yield what opens stores of the kind that the parameter names; close them after the test."""
    with opening(request.param, tmp_path) as place:
        yield place

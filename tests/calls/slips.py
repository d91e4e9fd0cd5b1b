"""A mistake in code of users, and the stores in which runs with it are tried."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stores import places

HERE = Path(__file__).name
"""The file in which mistakes are made."""


@pytest.fixture(autouse=True, params=["memory", "sqlite", "file"])
def in_a_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    with places.used(request.param, tmp_path):
        yield


class Slip:
    """A mistake that is made until it is corrected."""

    def __init__(self, error: Callable[[], Exception] = lambda: KeyError("slip")) -> None:
        self.error: Callable[[], Exception] | None = error
        self.made = 0

    def make(self) -> None:
        if self.error is not None:
            self.made += 1
            raise self.error()

    def returning(self, value: Any) -> Any:
        """Return a function that makes the mistake, and returns a value when it is corrected."""

        def given(*_: Any) -> Any:
            self.make()
            return value

        return given

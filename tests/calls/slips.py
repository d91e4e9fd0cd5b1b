"""A mistake in code of users."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).name
"""The file in which mistakes are made."""


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

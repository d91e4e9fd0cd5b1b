"""What counts as a number where one is set."""

import pytest

from ziggurat.core.numbers import is_finite


@pytest.mark.parametrize("value", [0, -3, 2.5, 10**300])
def test_numbers(value: object) -> None:
    assert is_finite(value)


@pytest.mark.parametrize("value", [True, "3", None, 1j, float("nan"), float("inf"), 10**400, [1]])
def test_what_is_none(value: object) -> None:
    assert not is_finite(value)

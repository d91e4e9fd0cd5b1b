"""Checks of setting values: which are numbers, and which are functions."""

import pytest

from ziggurat.core.settings import is_finite, is_function


@pytest.mark.parametrize("value", [0, -3, 2.5, 10**300])
def test_numbers(value: object) -> None:
    assert is_finite(value)


@pytest.mark.parametrize("value", [True, "3", None, 1j, float("nan"), float("inf"), 10**400, [1]])
def test_what_is_no_number(value: object) -> None:
    assert not is_finite(value)


async def _awaited(error: Exception) -> bool:
    return False


def test_functions() -> None:
    assert is_function(len)
    assert is_function(lambda: None)
    assert not is_function(_awaited)
    assert not is_function("len")

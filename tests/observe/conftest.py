"""Fixtures of the tests of observers."""

import pytest

from tests.observe.collector import Collector


@pytest.fixture
def collector() -> Collector:
    return Collector()

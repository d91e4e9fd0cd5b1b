"""Fixtures of the tests of runs."""

from tests.agents.conftest import new_store

__all__ = ["new_store"]

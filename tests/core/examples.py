"""Fewer examples for property tests that take long."""

from hypothesis import settings

from tests.samples import amount

few = settings(max_examples=amount(30, 100))

"""Recorded prefixes are read as another parser reads them, where they are at hand."""

import pytest

from tests.conformance.corpora import TRAFFIC, corpus
from tests.conformance.partial_json import disagreements


def test_recorded_prefixes_are_read_alike() -> None:
    file = corpus(TRAFFIC)
    if file is None:
        pytest.skip("the recorded prefixes are not here")
    total, wrong = disagreements(file)
    assert total
    assert wrong == []

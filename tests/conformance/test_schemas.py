"""Schemas and texts that others have judged are judged alike, where they are at hand."""

from pathlib import Path

import pytest

from tests.conformance.corpora import JSON, SCHEMAS, corpus
from tests.conformance.schemas import DRAFTS, schemas, texts


def _file(name: str) -> Path:
    file = corpus(name)
    if file is None:
        pytest.skip(f"{name} is not here")
    return file


@pytest.mark.parametrize("draft", sorted(DRAFTS))
def test_schemas_mean_what_their_draft_says(draft: str) -> None:
    score = schemas(_file(SCHEMAS), draft)
    assert score.total > 800
    assert score.wrong == []
    assert set(score.refused) <= {"$ref", "$schema"}


def test_what_is_no_json_is_refused_and_what_is_json_is_read() -> None:
    score = texts(_file(JSON))
    assert score.refused["n"] > 150
    assert score.wrong == []

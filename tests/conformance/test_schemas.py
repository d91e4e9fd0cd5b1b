"""Calls, schemas and texts that others have judged are judged alike, where they are at hand."""

import gzip
import json
from pathlib import Path

import pytest

from tests.conformance.corpora import corpus
from tests.conformance.schemas import CALLS, DRAFTS, JSON, SCHEMAS, calls, schemas, texts


def _file(name: str) -> Path:
    file = corpus(name)
    if file is None:
        pytest.skip(f"{name} is not here")
    return file


def test_recorded_calls_are_judged_as_another_validator_judges_them() -> None:
    score = calls(_file(CALLS))
    assert score.total
    assert score.wrong == []


def test_a_wrong_label_would_be_noticed(tmp_path: Path) -> None:
    record = {
        "task": "one",
        "tool": "weather",
        "schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "arguments": {"city": 1},
        "valid_by_jsonschema": True,
    }
    file = tmp_path / "calls.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(record).encode()))
    assert calls(file).wrong == ["one weather: city: expected a string, got 1"]


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

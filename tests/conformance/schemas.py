"""Compares the door of tools with a schema of their own with public suites: two drafts of JSON Schema, and JSON.

python -m tests.conformance.schemas
"""

import json
import tarfile
from collections import Counter
from pathlib import Path

from msgspec import Struct, field

from tests.conformance.corpora import JSON, SCHEMAS, needed
from ziggurat import ConfigurationError
from ziggurat.errors import InvalidArguments
from ziggurat.tools import SchemaValidator
from ziggurat.tools.arguments import read

DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


class Score(Struct):
    """How many were looked at, which differ, and how many schemas were refused by which keyword."""

    total: int = 0
    wrong: list[str] = []
    refused: Counter[str] = field(default_factory=Counter)


def schemas(file: Path, draft: str) -> Score:
    """The public test suite of JSON Schema, what is required of every implementation."""
    score = Score()
    for name, text in _members(file, f"/tests/{draft}/"):
        for group in json.loads(text):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DRAFTS[draft], **schema}
            try:
                validator = SchemaValidator(schema)
            except ConfigurationError as error:
                reason = next(
                    (each for each in ("$schema", "$ref", "pattern") if f": {each} " in str(error)), str(error)
                )
                score.refused[reason] += 1
                continue
            for case in group["tests"]:
                score.total += 1
                if (validator.problems(case["data"]) == []) != case["valid"]:
                    score.wrong.append(f"{name}: {group['description']}: {case['description']}")
    return score


def texts(file: Path) -> Score:
    """The public test suite of JSON parsers: what is none is refused, what is JSON is read."""
    score = Score()
    for name, text in _members(file, "/test_parsing/"):
        score.total += 1
        try:
            read(text)
            taken = True
        except InvalidArguments as error:
            taken = False
            score.refused[name[0]] += 1
            if len(str(error)) > 300:
                score.wrong.append(f"{name}: too long an error")
        if name[0] == ("n" if taken else "y") and name not in TWICE:
            score.wrong.append(name)
    return score


TWICE = ("y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json")
"""Texts that are JSON by its grammar and that name a key twice, which is refused."""


def _members(file: Path, folder: str) -> list[tuple[str, bytes]]:
    """The JSON files right in a folder of an archive."""
    with tarfile.open(file) as archive:
        found = []
        for member in archive:
            before, _, name = member.name.partition(folder)
            if before and name.endswith(".json") and "/" not in name and (data := archive.extractfile(member)):
                found.append((name, data.read()))
    return sorted(found)


def main() -> int:
    """Print how much agrees and what does not."""
    scores = {draft: schemas(needed(SCHEMAS), draft) for draft in DRAFTS}
    scores["JSON"] = texts(needed(JSON))
    for name, score in scores.items():
        for each in score.wrong:
            print(f"differs: {name}: {each}")
        refused = ", ".join(f"{count} by {reason}" for reason, count in score.refused.items())
        print(f"{name}: {score.total - len(score.wrong)} of {score.total} agree; refused: {refused or 'none'}")
    return 1 if any(score.wrong for score in scores.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())

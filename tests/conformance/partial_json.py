"""Compares our reading of unfinished JSON with that of another parser, over recorded prefixes.

python -m tests.conformance.partial_json [FILE]
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from tests.conformance.corpora import corpus
from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.partial_json import partial

REFUSED = object()


def ours(prefix: str) -> object:
    """What we make of a prefix."""
    try:
        return partial(prefix)
    except InvalidArguments:
        return REFUSED


def disagreements(file: Path) -> tuple[int, list[dict[str, Any]]]:
    """How many prefixes there are, and those that are read differently."""
    with gzip.open(file, "rt") as lines:
        records = [json.loads(line) for line in lines]
    wrong = []
    for record in records:
        expected = record["jiter_trailing_strings"] if record["jiter_ok"] else REFUSED
        if repr(ours(record["prefix"])) != repr(expected):
            wrong.append(record)
    return len(records), wrong


def main() -> int:
    """Print how many agree and which do not."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else corpus("partial_json.dev.jsonl.gz")
    if file is None or not file.exists():
        print("the recorded prefixes are not here")
        return 2
    total, wrong = disagreements(file)
    for record in wrong:
        print(f"differs: {record['prefix']!r}: {ours(record['prefix'])!r}, not {record['jiter_trailing_strings']!r}")
    print(f"partial JSON: {total - len(wrong)} of {total} agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

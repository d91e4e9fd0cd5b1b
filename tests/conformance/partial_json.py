"""Compares our reading of unfinished JSON with jiter's, over all beginnings of recorded arguments of tool calls.

python -m tests.conformance.partial_json
"""

from pathlib import Path
from typing import Any

import jiter

from tests.conformance.corpora import TRAFFIC, needed, recordings
from ziggurat.agents.partial import partial
from ziggurat.errors import InvalidArguments

LONGEST = 200
REFUSED = object()


def ours(prefix: str) -> object:
    """What we make of a beginning."""
    try:
        return partial(prefix)
    except InvalidArguments:
        return REFUSED


def theirs(prefix: str) -> object:
    """What jiter makes of it."""
    try:
        return jiter.from_json(prefix.encode(), partial_mode="trailing-strings")
    except ValueError:
        return REFUSED


def prefixes(file: Path) -> set[str]:
    """All beginnings of the arguments in recorded requests."""
    found = {text for record in recordings(file) for text in _arguments(record["request"]) if len(text) <= LONGEST}
    return {text[:end] for text in found for end in range(1, len(text) + 1)}


def _arguments(value: Any) -> list[str]:
    """The arguments of all calls within a request."""
    if isinstance(value, list):
        return [text for each in value for text in _arguments(each)]
    if not isinstance(value, dict):
        return []
    own = [value["arguments"]] if isinstance(value.get("arguments"), str) and "name" in value else []
    return own + [text for each in value.values() for text in _arguments(each)]


def disagreements(file: Path) -> tuple[int, list[str]]:
    """How many beginnings there are, and those that are read differently."""
    found = prefixes(file)
    return len(found), sorted(each for each in found if repr(ours(each)) != repr(theirs(each)))


def main() -> int:
    """Print how many agree and which do not."""
    total, wrong = disagreements(needed(TRAFFIC))
    for prefix in wrong:
        print(f"differs: {prefix!r}: {ours(prefix)!r}, not {theirs(prefix)!r}")
    print(f"partial JSON: {total - len(wrong)} of {total} agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

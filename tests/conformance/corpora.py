"""Where recorded data lies, if it does: in a folder ``corpora`` near the project, or where ZIGGURAT_CORPORA says."""

import gzip
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
TRAFFIC = "traffic/dev.jsonl.gz"
SCHEMAS = "json-schema-test-suite.tar.gz"
JSON = "json-test-suite.tar.gz"


def corpus(name: str) -> Path | None:
    """The file with this name among the recorded data, or None."""
    given = os.environ.get("ZIGGURAT_CORPORA")
    near = [ROOT / "corpora", ROOT.parent / "corpora", *sorted(ROOT.parent.glob("*/corpora"))]
    for folder in [Path(given)] if given else near:
        if (folder / name).exists():
            return folder / name
    return None


def needed(name: str) -> Path:
    """The file with this name, or the end of the program, with how to get it."""
    file = corpus(name)
    if file is None:
        sys.exit(
            f"{name} is not here. `python -m tests.conformance.fetch` takes it from public repositories; "
            "ZIGGURAT_CORPORA names a folder that holds it already."
        )
    return file


@cache
def recordings(file: Path) -> list[dict[str, Any]]:
    """The recorded interactions."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]

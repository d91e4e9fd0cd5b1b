"""Where recorded data lies, if it does: beside the project, or where ZIGGURAT_CORPORA says."""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def corpus(name: str) -> Path | None:
    """The file with this name among the recorded data, or None."""
    given = os.environ.get("ZIGGURAT_CORPORA")
    for folder in [Path(given)] if given else [ROOT / "corpora", ROOT.parent / "shared" / "corpora"]:
        if (folder / name).exists():
            return folder / name
    return None

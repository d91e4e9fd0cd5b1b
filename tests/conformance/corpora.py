"""Where recorded data lies, if it does: in a folder ``corpora`` near the project, or where ZIGGURAT_CORPORA says."""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def corpus(name: str) -> Path | None:
    """The file with this name among the recorded data, or None."""
    given = os.environ.get("ZIGGURAT_CORPORA")
    near = [ROOT / "corpora", ROOT.parent / "corpora", *sorted(ROOT.parent.glob("*/corpora"))]
    for folder in [Path(given)] if given else near:
        if (folder / name).exists():
            return folder / name
    return None

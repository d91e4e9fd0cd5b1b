"""Commands of the system that fetch what the tests need."""

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["CACHE", "output_of"]

CACHE: Path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ziggurat"
"""Where it is put: outside of the repository, for all checkouts of a user."""


def output_of(*command: str, folder: Path | None = None) -> str | None:
    """Run a command and return its output, or None if it is absent, fails or takes longer than five minutes."""
    if shutil.which(command[0]) is None:
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "TMPDIR": str(folder or "/tmp")}
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None

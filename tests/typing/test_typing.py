"""What the type checker infers and refuses is part of the interface."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FILES = sorted(path for path in HERE.glob("*.py") if path.stem not in ("__init__", "test_typing"))


def test_the_checker_infers_and_refuses_what_it_should() -> None:
    assert FILES
    settings = ["--config-file", str(HERE.parents[1] / "pyproject.toml"), "--strict", "--no-error-summary"]
    # A process of its own: mypy raises the limit of recursion of the one that imports it.
    command = [sys.executable, "-m", "mypy", *settings, *map(str, FILES)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, ""), f"\n{checked.stdout}{checked.stderr}"

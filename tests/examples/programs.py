"""Running the programs of ``examples/apps`` as a user does: in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

from ziggurat.models.real import FORBID_VARIABLE

ROOT = Path(__file__).parents[2]
APPS = ROOT / "examples" / "apps"
ENVIRONMENT = {**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100", FORBID_VARIABLE: "1"}


def command(program: str, *arguments: object) -> list[str]:
    """Return the command that starts a program of ``examples/apps``: a file, or a package."""
    what = [str(APPS / program)] if program.endswith(".py") else ["-m", f"examples.apps.{program}"]
    return [sys.executable, "-W", "error", *what, *map(str, arguments)]


def output_of(program: str, *arguments: object) -> str:
    """Run a program to its end and return what it prints; it must end with 0 and report no error."""
    done = subprocess.run(
        command(program, *arguments), capture_output=True, text=True, env=ENVIRONMENT, cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout

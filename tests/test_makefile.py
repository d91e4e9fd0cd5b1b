"""What the Makefile hands on."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("question", ['Who said "six"?', "Is it `true`, $5, $(Q) or 'x'?", "-3 + 5?", "a  b\\n#c"])
def test_a_question_is_handed_on_as_it_is(question: str, tmp_path: Path) -> None:
    installed = tmp_path / "bin" / "ziggurat"
    installed.parent.mkdir()
    installed.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n", encoding="utf-8")
    installed.chmod(0o755)
    for stamp in ("bin/python", ".installed-run", ".installed-model"):
        (tmp_path / stamp).touch()
    made = subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT), "run", f"VENV={tmp_path}", f"Q={question}"],
        capture_output=True,
        text=True,
    )
    assert (made.stdout, made.stderr) == (f"<run><--><{question}>", "")

"""What the Makefile hands on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# without what a make that runs these tests hands on
INHERITED = {name: value for name, value in os.environ.items() if name != "PYTHON" and not name.startswith("MAKE")}


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
        env=INHERITED,
    )
    assert (made.stdout, made.stderr) == (f"<run><--model><demo><--><{question}>", "")


def _lines(*command: str, **environment: str) -> list[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env={**INHERITED, **environment}
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("how", ["argument", "environment", "nothing"])
def test_a_python_that_is_chosen_has_an_environment_of_its_own(how: str) -> None:
    chosen = [f"PYTHON={sys.executable}"] if how == "argument" else []
    environment = {"PYTHON": sys.executable} if how == "environment" else {}
    lines = _lines("make", "-n", "-B", "--no-print-directory", "unit", *chosen, **environment)
    folder = ".venv" if how == "nothing" else f".venv-{sys.version_info[0]}.{sys.version_info[1]}"
    python = "python3" if how == "nothing" else sys.executable
    assert f"{python} -m venv {folder}" in lines
    assert lines[-1].startswith(f"{folder}/bin/python -m pytest ")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_every_supported_python_is_listed_once_the_oldest_first(tmp_path: Path) -> None:
    """What claims to be a Python but does not run, as a shim without a version behind it, is passed over."""
    shim = tmp_path / "python3.14"
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    found = _lines(".ci/pythons", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    versions = [_lines(python, "-c", "import sys; print(sys.version_info[1])") for python in found]
    numbers = [int(number) for (number,) in versions]
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= {11, 12, 13, 14}
    assert str(shim) not in found


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("default", "listed", "expected"),
    [
        ("3.11", ["3.11", "3.12", "3.13"], ["test", "smoke PYTHON=3.13"]),
        ("3.12", ["3.11", "3.12"], ["test PYTHON=3.11", "smoke PYTHON=3.12"]),
        ("3.12", ["3.12"], ["test"]),
        ("3.11", [], ["test"]),
    ],
)
def test_ci_tests_the_oldest_and_the_newest(
    default: str, listed: list[str], expected: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / ".ci"
    folder.mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / "run")
    programs = {
        folder / "pythons": "".join(f"echo {tmp_path}/{version}\n" for version in listed),
        tmp_path / "python3": f"echo Python {default}\n",
        tmp_path / "make": f'echo "$@" >> {tmp_path}/made\n',
        **{tmp_path / version: f"echo Python {version}\n" for version in listed},
    }
    for path, text in programs.items():
        path.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        path.chmod(0o755)
    _lines(str(folder / "run"), PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    made = (tmp_path / "made").read_text(encoding="utf-8").replace(f"{tmp_path}/", "").splitlines()
    assert made == expected

"""What the type checker infers and refuses is part of the interface."""

from pathlib import Path

from mypy import api

HERE = Path(__file__).parent
FILES = sorted(path for path in HERE.glob("*.py") if path.stem not in ("__init__", "test_typing"))


def test_the_checker_infers_and_refuses_what_it_should() -> None:
    assert FILES
    settings = ["--config-file", str(HERE.parents[1] / "pyproject.toml"), "--strict", "--no-error-summary"]
    said, complained, code = api.run([*settings, *map(str, FILES)])
    assert (code, complained) == (0, ""), f"\n{said}{complained}"

"""What docstrings show holds: examples with a prompt print what they say, and all others are Python at least."""

import ast
import doctest
import importlib
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))
_SKETCH = re.compile(r"::\n((?:\n|[ ]+[^\n]*(?:\n|$))+)")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def sketches_of(path: Path) -> Iterator[str]:
    """The indented blocks after a double colon in what is told of classes and functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for found in _SKETCH.findall(f"{ast.get_docstring(node)}\n"):
                yield textwrap.dedent(found)


def test_examples_print_what_they_say() -> None:
    for path in FILES:
        if ">>>" in path.read_text(encoding="utf-8"):
            found = doctest.testmod(importlib.import_module(module_of(path)), optionflags=doctest.ELLIPSIS)
            assert found.attempted, path
            assert not found.failed, path


def test_sketches_are_python() -> None:
    count = 0
    for path in FILES:
        for sketch in sketches_of(path):
            compile(sketch, str(path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            count += 1
    assert count > 50

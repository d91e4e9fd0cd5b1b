"""Where names are imported from: the package and the modules one dot below it.

Set ZIGGURAT_UPDATE_DOCS=1 to write the tables in docs/reference.md again, and the stubs that tell type checkers which
names a module hands on.
"""

import ast
import importlib
import os
import re
from functools import cache
from pathlib import Path

import pytest

from tests.test_docs import DOCUMENTS, UPDATE, blocks_of, ids
from tests.test_house import FACES, MODULES, handed_on

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
INTRODUCTION = """\
# Names

Every public name is imported from `ziggurat` or from a module one dot below it. A module is loaded when it is imported,
and what it names when it is first used. Modules further below are internal: they may move.
"""


def imports_in(source: str) -> set[str]:
    """Return the modules that a source imports from."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
        elif isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
    return modules


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
def test_documents_import_from_flat_modules(path: Path) -> None:
    for block in blocks_of(path):
        if block.language == "python":
            deep = {name for name in imports_in(block.text) if name.startswith("ziggurat")} - set(FACES)
            assert not deep, f"{ids(path)}, line {block.line}"


@pytest.mark.parametrize("path", EXAMPLES, ids=ids)
def test_examples_import_from_flat_modules(path: Path) -> None:
    assert not {name for name in imports_in(path.read_text()) if name.startswith("ziggurat")} - set(FACES)


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def docstring_of(module: str, name: str) -> str | None:
    """Return the docstring of a name: of the class or function, or the string after the assignment."""
    tree = tree_of(module)
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            if ast.get_docstring(node):  # an overload has none
                return ast.get_docstring(node)
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            constant = following.value if isinstance(following, ast.Expr) else None
            return str(constant.value) if isinstance(constant, ast.Constant) else None
    if name in handed_on(module):
        return docstring_of(handed_on(module)[name], name)
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and each.module in MODULES:
            for alias in each.names:
                if (alias.asname or alias.name) == name:
                    return docstring_of(each.module, alias.name)
    return None


def summary_of(module: str, name: str) -> str:
    """Return the first sentence of a docstring, on one line."""
    text = " ".join((docstring_of(module, name) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[a-z`)\]\"])[.:;](?:\s|:|$)", text, maxsplit=1)[0].rstrip(".:")


@pytest.mark.parametrize("module", FACES)
def test_every_name_resolves_and_has_a_docstring(module: str) -> None:
    loaded = importlib.import_module(module)
    for name in loaded.__all__:
        assert getattr(loaded, name) is not None
        assert docstring_of(module, name), f"{module}.{name} has no docstring"


def reference() -> str:
    """Return the page that lists every name with the first sentence of its docstring."""
    sections = [INTRODUCTION]
    for module in FACES:
        summary = (ast.get_docstring(tree_of(module)) or "").split("\n\n")[0].replace("\n", " ")
        rows = [
            f"| `{name}` | {summary_of(module, name).replace('|', chr(92) + '|')} |"
            for name in sorted(names_of(module))
        ]
        sections.append("\n".join([f"## {module}\n", f"{summary}\n", "| Name | |", "|---|---|", *rows]) + "\n")
    return "\n".join(sections)


def names_of(module: str) -> list[str]:
    return list(importlib.import_module(module).__all__)


def test_the_reference_lists_every_name() -> None:
    if os.environ.get(UPDATE):
        REFERENCE.write_text(reference(), encoding="utf-8")
    assert REFERENCE.read_text(encoding="utf-8") == reference(), f"run this test with {UPDATE}=1"


def stub_of(module: str) -> str:
    """Return what type checkers read of a module that hands on names, in the order of the linter."""
    names = sorted(
        (home, not name.isupper(), not name[0].isupper(), name.lower(), name)
        for name, home in handed_on(module).items()
    )
    imports = "".join(f"from {home} import {name} as {name}\n" for home, *_, name in names)
    return f"# Written by tests/test_names.py from {MODULES[module].name}.\n{imports}\n__all__: list[str]\n"


@pytest.mark.parametrize("module", [module for module in FACES if handed_on(module)])
def test_type_checkers_know_the_names_that_are_handed_on(module: str) -> None:
    stub = MODULES[module].with_suffix(".pyi")
    if os.environ.get(UPDATE):
        stub.write_text(stub_of(module), encoding="utf-8")
    assert stub.read_text(encoding="utf-8") == stub_of(module), f"run this test with {UPDATE}=1"

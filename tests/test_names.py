"""Where names are imported from: the package and the modules one dot below it.

Set ZIGGURAT_UPDATE_DOCS=1 to write the tables in docs/reference.md again, and the stubs that tell type checkers which
names a module hands on.
"""

import ast
import importlib
import os
import re
from pathlib import Path

from tests.test_docs import DOCUMENTS, UPDATE, blocks_of, ids
from tests.test_house import FACES, MODULES, docstring_of, handed_on, tree_of

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


def test_documents_and_examples_import_public_names() -> None:
    sources = {
        f"{ids(path)}:{block.line}": block.text
        for path in DOCUMENTS
        for block in blocks_of(path)
        if block.language == "python"
    }
    sources |= {ids(path): path.read_text(encoding="utf-8") for path in EXAMPLES}
    deep = {
        place: {name for name in imports_in(text) if name.startswith("ziggurat")} - set(FACES)
        for place, text in sources.items()
    }
    assert not {place: names for place, names in deep.items() if names}


def summary_of(module: str, name: str) -> str:
    """Return the first sentence of a docstring, on one line."""
    text = " ".join((docstring_of(module, name) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[a-z`)\]\"])[.:;](?:\s|:|$)", text, maxsplit=1)[0].rstrip(".:")


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


def test_type_checkers_know_the_names_that_are_handed_on() -> None:
    stubs = {MODULES[module].with_suffix(".pyi"): stub_of(module) for module in FACES if handed_on(module)}
    if os.environ.get(UPDATE):
        for path, text in stubs.items():
            path.write_text(text, encoding="utf-8")
    stale = [path.name for path, text in stubs.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"run this test with {UPDATE}=1"

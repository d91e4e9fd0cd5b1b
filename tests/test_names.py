"""Where names are imported from: the package and the modules one dot below it.

Set ZIGGURAT_UPDATE_DOCS=1 to write docs/reference.md again, and the table of names that are loaded lazily.
"""

import ast
import copy
import importlib
import os
import re
import textwrap
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


def internal_classes() -> set[str]:
    public = {name for module in FACES for name in names_of(module)}
    return {node.name for module in MODULES for node in tree_of(module).body if isinstance(node, ast.ClassDef)} - public


def test_classes_that_documents_make_are_public() -> None:
    internal = internal_classes()
    made = {
        f"{ids(path)}: {name}"
        for path in DOCUMENTS
        if path != REFERENCE
        for name in re.findall(r"`([A-Z]\w+)\(", path.read_text(encoding="utf-8"))
        if name in internal
    }
    assert not made


def test_docstrings_of_public_names_refer_to_public_names() -> None:
    internal = internal_classes()
    unknown = {
        f"{module}.{name}: {other}"
        for module in FACES
        for name in names_of(module)
        for other in re.findall(r"(?<!`)`(?:\w+\.)*([A-Z]\w+)`", docstring_of(module, name) or "")
        if other in internal
    }
    assert not unknown


def summary_of(module: str, name: str) -> str:
    """Return the first sentence of a docstring, on one line."""
    return first_sentence(docstring_of(module, name))


def first_sentence(docstring: str | None) -> str:
    text = " ".join((docstring or "").split("\n\n")[0].split())
    return re.split(r"(?<=[a-z`)\]\"])[.:;](?:\s|:|$)", text, maxsplit=1)[0].rstrip(".:")


def definition_of(module: str, name: str) -> tuple[str, ast.stmt]:
    """Return the module and the statement that defines a name: of an overloaded function the implementation."""
    home = handed_on(module).get(name)
    if home is not None:
        return definition_of(home, name)
    found: ast.stmt = ast.Pass()
    for node in tree_of(module).body:
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return definition_of(node.module, alias.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if getattr(node, "name", None) == name or any(getattr(target, "id", None) == name for target in targets):
            found = node
    return module, found


def fields_of(module: str, name: str) -> list[ast.AnnAssign]:
    """Return the fields of a TypedDict: its own, and then those of its bases."""
    home, node = definition_of(module, name)
    if not isinstance(node, ast.ClassDef):
        return []
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    return fields + [field for base in node.bases for field in fields_of(home, ast.unparse(base))]


def arguments_of(module: str, arguments: ast.arguments) -> str:
    """Return the arguments of a function as they are given, without `self`; those of a TypedDict by their names."""
    arguments = PlainTypes().visit(copy.deepcopy(arguments))
    rest = arguments.kwarg and arguments.kwarg.annotation
    if isinstance(rest, ast.Subscript) and ast.unparse(rest.value) == "Unpack":
        arguments.kwarg = None
        for field in fields_of(module, ast.unparse(rest.slice)):
            arguments.kwonlyargs.append(
                ast.arg(ast.unparse(field.target), PlainTypes().visit(copy.deepcopy(field.annotation)))
            )
            arguments.kw_defaults.append(ast.Constant(...))
    return re.sub(r"^self(, )?", "", ast.unparse(arguments))


def parameters_of(module: str, node: ast.ClassDef) -> str:
    """Return the parameters of a constructor: of `__init__`, or the fields of a Struct or a dataclass."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return arguments_of(module, each.args)
    node = PlainTypes().visit(copy.deepcopy(node))
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each)]
    return ", ".join(ast.unparse(each) for each in fields if not ast.unparse(each.target).startswith("_"))


class PlainTypes(ast.NodeTransformer):
    """Shows the type that is annotated with bounds."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple):
            plain: ast.AST = self.visit(node.slice.elts[0])
            return plain
        return self.generic_visit(node)


def signature_of(module: str, name: str) -> str:
    """Return the name as it is called, with its bases."""
    home, node = definition_of(module, name)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"`{call_of(home, node)}`"
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"`{name}({parameters_of(home, node)})`" + (f", a `{bases}`" if bases else "")
    if isinstance(node, ast.AnnAssign):  # an object that is called, such as a provider
        for method in getattr(definition_of(home, ast.unparse(node.annotation))[1], "body", ()):
            if getattr(method, "name", "") == "__call__":
                return f"`{call_of(home, method).replace('__call__', name, 1)}`"
    alias = ast.unparse(PlainTypes().visit(copy.deepcopy(node.value))) if isinstance(node, ast.Assign) else ""
    return f"`{name} = {alias}`" if "|" in alias or alias.startswith(("Literal", "Callable")) else f"`{name}`"


def call_of(module: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    word = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {ast.unparse(PlainTypes().visit(copy.deepcopy(node.returns)))}" if node.returns else ""
    return f"{word}{node.name}({arguments_of(module, node.args)}){returns}"


def verbs_of(module: str, name: str) -> list[str]:
    """Return the methods of a class, and of its bases, whose arguments are those of a TypedDict."""
    home, node = definition_of(module, name)
    if not isinstance(node, ast.ClassDef):
        return []
    verbs = [
        f"  - `{call_of(home, each)}`: {first_sentence(ast.get_docstring(each))}."
        for each in node.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and not each.name.startswith("_")
        and each.args.kwarg is not None
        and "Unpack" in ast.unparse(each.args)
    ]
    return verbs + [verb for base in node.bases for verb in verbs_of(home, ast.unparse(base).split("[")[0])]


def reference() -> str:
    """Return the page that lists every name with its signature and the first sentence of its docstring."""
    sections = [INTRODUCTION]
    for module in FACES:
        summary = (ast.get_docstring(tree_of(module)) or "").split("\n\n")[0].replace("\n", " ")
        rows = []
        for name in sorted(names_of(module)):
            rows.append(f"- {signature_of(module, name)}: {summary_of(module, name)}.")
            if (module, name) == ("ziggurat.agents", "Runnable"):
                rows += verbs_of(module, name)
        sections.append("\n".join([f"## {module}\n", f"{summary}\n", *rows]) + "\n")
    return "\n".join(sections)


def names_of(module: str) -> list[str]:
    return sorted(handed_on(module)) or list(importlib.import_module(module).__all__)


def test_the_reference_lists_every_name() -> None:
    if os.environ.get(UPDATE):
        REFERENCE.write_text(reference(), encoding="utf-8")
    assert REFERENCE.read_text(encoding="utf-8") == reference(), f"run this test with {UPDATE}=1"


def test_a_name_is_in_one_module_and_perhaps_in_the_package() -> None:
    homes: dict[str, list[str]] = {}
    for module in FACES:
        for name in names_of(module) if module != "ziggurat" else ():
            homes.setdefault(name, []).append(module)
    assert not {name: modules for name, modules in homes.items() if len(modules) > 1}


def index() -> str:
    """Return the table that says, at run time, in which module each name that is loaded lazily is."""
    lines = []
    for module in filter(handed_on, FACES):
        homes: dict[str, list[str]] = {}
        for name, home in handed_on(module).items():
            homes.setdefault(home.removeprefix("ziggurat."), []).append(name)
        lines.append(f'    "{module}": {{\n')
        for home, names in homes.items():
            wrapped = textwrap.wrap(" ".join(names), 100)
            if len(wrapped) == 1 and len(wrapped[0]) + len(home) < 100:
                lines.append(f'        "{home}": "{wrapped[0]}",\n')
            else:
                lines.append(
                    f'        "{home}": (\n' + "".join(f'            "{line} "\n' for line in wrapped) + "        ),\n"
                )
        lines.append("    },\n")
    doc = '"""The module of each name that is loaded lazily. Written by tests/test_names.py from the faces."""'
    return f"{doc}\n\n# fmt: off\nNAMES: dict[str, dict[str, str]] = {{\n{''.join(lines)}}}\n"


def test_names_are_loaded_from_where_type_checkers_find_them() -> None:
    path = MODULES["ziggurat.core.names"]
    if os.environ.get(UPDATE):
        path.write_text(index(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == index(), f"run this test with {UPDATE}=1"

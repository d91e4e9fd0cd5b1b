"""The house: the floors of the rooms, the size of files and functions, and the public names."""

import ast
import importlib
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ziggurat"
FLOORS = {
    "core": 1,
    "journal": 2,
    "messages": 3,
    "layers": 3,
    "databases": 3,
    "http": 3,
    "models": 4,
    "tools": 4,
    "stores": 4,
    "observe": 4,
    "middleware": 4,
    "memory": 4,
    "knowledge": 4,
    "runtime": 4,
    "sandbox": 4,
    "wires": 4,
    "calls": 5,
    "skills": 5,
    "runs": 6,
    "mcp": 6,
    "agents": 7,
    "teams": 8,
    "plans": 8,
    "code": 8,
    "fleet": 9,
    "serve": 9,
    "testing": 9,
    "cli": 10,
}
KNOW_NO_MESSAGES = {"layers", "databases", "http"}  # they serve whatever is called, stored or fetched
MAX_FILE, MAX_FUNCTION, MAX_FACE, MAX_NAMES, MAX_MODULES = 600, 60, 40, 30, 200
MANY_NAMES = ROOT / "tests" / "data" / "many_names.txt"
FILES = sorted(SOURCE.rglob("*.py"))
FACES = sorted(  # the modules that users import from: the package and those one dot below it that have public names
    ["ziggurat", *(f"ziggurat.{path.stem}" for path in SOURCE.glob("[a-z]*.py"))]
    + [f"ziggurat.{path.parent.name}" for path in SOURCE.glob("*/__init__.py") if "__all__" in path.read_text()]
)


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imported_by(module: str) -> list[tuple[str, str]]:
    """Return the module and the name of each import of the package's own, type-only and local imports counted."""
    found = []
    for node in ast.walk(tree_of(module)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            home = name
            while home and home not in MODULES:
                home = home.rpartition(".")[0]
            if home and home != module:
                found.append((home, name.removeprefix(home).lstrip(".")))
    return found


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "ziggurat"


def test_imports_go_down() -> None:
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(FLOORS)
    offenders = []
    for module in MODULES.keys() - {*FACES, "ziggurat.__main__"}:
        room = room_of(module)
        for imported, _ in imported_by(module):
            other = room_of(imported)
            down = other == room or (other != "ziggurat" and FLOORS[other] < FLOORS[room])
            if room == "cli":  # the program uses the public names, as its users do
                down = True
            elif imported in FACES or (room in KNOW_NO_MESSAGES and other == "messages"):
                down = False
            if not down:
                offenders.append(f"{module} imports {imported}")
    assert not offenders


def test_there_is_no_circle_between_the_folders_of_a_room() -> None:
    """A circle between rooms cannot exist where imports go down."""
    folders: dict[Path, set[Path]] = {}
    for module in MODULES:
        folder = MODULES[module].parent.relative_to(SOURCE)
        others = {MODULES[imported].parent.relative_to(SOURCE) for imported, _ in imported_by(module)}
        same_room = {other for other in others if other.parts[:1] == folder.parts[:1] and len(other.parts) > 1}
        if len(folder.parts) > 1:
            folders.setdefault(folder, set()).update(same_room - {folder})
    try:
        TopologicalSorter(folders).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' > '.join(map(str, error.args[1]))}")


def test_no_private_name_is_imported() -> None:
    assert not [
        f"{module} imports {imported}.{name}"
        for module in MODULES
        for imported, name in imported_by(module)
        if name.startswith("_")
    ]


def test_files_fit_a_sitting() -> None:
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert not {module: count for module, count in lines.items() if count > MAX_FILE}


def test_functions_fit_a_screen() -> None:
    """A function is measured without its signature and docstring."""
    offenders = {}
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                if length > MAX_FUNCTION:
                    offenders[f"{module}.{node.name}"] = length
    assert not offenders


def test_few_names_are_imported_by_a_file() -> None:
    """Files that import more are on a list that may only shrink: remove a file from it that does not any more."""
    counts = {
        module: sum(
            len(node.names) for node in ast.walk(tree_of(module)) if isinstance(node, ast.Import | ast.ImportFrom)
        )
        for module in MODULES.keys() - FACES
    }
    allowed = {module: int(count) for module, count in map(str.split, MANY_NAMES.read_text().splitlines())}
    assert not {module: count for module, count in counts.items() if count > max(MAX_NAMES, allowed.get(module, 0))}
    assert not {module for module in allowed if counts.get(module, 0) <= MAX_NAMES}


def test_public_names_are_sorted_and_load() -> None:
    face = importlib.import_module("ziggurat").__all__
    assert face == sorted(face)
    assert len(face) <= MAX_FACE
    for module in FACES:
        loaded = importlib.import_module(module)
        assert len(loaded.__all__) == len(set(loaded.__all__)), module
        assert not [name for name in loaded.__all__ if getattr(loaded, name, None) is None], module
        if MODULES[module].name == "__init__.py":  # an import of a file beside it would hide a lazy name
            assert not handed_on(module).keys() & {path.stem for path in MODULES[module].parent.iterdir()}, module


@cache
def handed_on(module: str) -> dict[str, str]:
    """Return the names that a module loads lazily, each with the module that has it."""
    if "lazy(__name__)" not in MODULES[module].read_text(encoding="utf-8"):
        return {}
    return {
        alias.name: str(each.module)
        for node in tree_of(module).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for each in node.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }


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


def test_public_names_have_docstrings() -> None:
    names = [(module, name) for module in FACES for name in importlib.import_module(module).__all__]
    assert not [f"{module}.{name}" for module, name in names if not docstring_of(module, name)]


def test_nothing_revives_objects_or_runs_text() -> None:
    offenders = []
    for module in MODULES.keys() - {"ziggurat.sandbox.child"}:  # which is the sandbox
        for node in ast.walk(tree_of(module)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if {"pickle", "marshal", "shelve"} & {*names} or called in ("exec", "eval", "__import__"):
                offenders.append(f"{module}:{getattr(node, 'lineno', 0)}")
    assert not offenders


def test_a_first_run_imports_only_the_rooms_that_it_uses() -> None:
    """One agent with one tool imports msgspec and few modules besides."""
    code = (
        "import sys, asyncio; before = set(sys.modules)\n"
        "from ziggurat import Agent, Message, ModelResponse, Text\n"
        "async def model(request, ctx): return ModelResponse(Message('assistant', (Text('done'),)))\n"
        "def add(a: int, b: int) -> int: 'Add.'\n"
        "asyncio.run(Agent(model, tools=[add]).run('Hello'))\n"
        "print(sorted(set(sys.modules) - before))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    imported = set(ast.literal_eval(printed))
    assert len(imported) <= MAX_MODULES
    outside = {name.partition(".")[0] for name in imported if not name.startswith("_")} - set(sys.stdlib_module_names)
    assert outside <= {"ziggurat", "msgspec", "typing_extensions"}  # msgspec imports the last where it is installed
    rooms = {room_of(name) for name in imported if name.startswith("ziggurat.")}
    assert rooms == {"core", "journal", "messages", "models", "tools", "stores", "calls", "runs", "agents"}

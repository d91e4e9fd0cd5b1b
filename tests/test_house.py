"""The house: who may import whom, how large a room may grow, and a face in order."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ziggurat"

FLOORS = {
    "core": 1,
    "messages": 2,
    "layers": 2,
    "databases": 2,
    "http": 2,
    "models": 3,
    "tools": 3,
    "stores": 3,
    "observe": 3,
    "middleware": 3,
    "memory": 3,
    "knowledge": 3,
    "runtime": 3,
    "wires": 3,
    "calls": 4,
    "runs": 5,
    "agents": 6,
    "teams": 7,
    "plans": 7,
    "serve": 8,
    "testing": 8,
    "cli": 9,
}
MAY_ALSO_IMPORT = {
    ("layers", "messages"): False,  # layers wrap any service and know no messages
    ("databases", "messages"): False,  # what opens a database knows nothing of what is kept in it
    ("http", "messages"): False,  # it asks any server, and knows no models
    ("cli", "ziggurat"): True,  # the program stands on the face, as its users do
}
MAX_FILE, MAX_FUNCTION, MAX_FACE, MAX_IMPORTED = 400, 40, 40, 169
FILES = sorted(SOURCE.rglob("*.py"))
FACES = sorted(  # what users import from: the package, and the modules one dot below it that show names
    ["ziggurat", *(f"ziggurat.{path.stem}" for path in SOURCE.glob("[a-z]*.py"))]
    + [f"ziggurat.{path.parent.name}" for path in SOURCE.glob("*/__init__.py") if "__all__" in path.read_text()]
)


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def imports_of(module: str) -> frozenset[str]:
    """Every module of ours that a module imports, type-only and local imports counted."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            pytest.fail(f"{module} has a relative import; name the room instead")
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name:
                found.add(name)
    return frozenset(found - {module})


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "ziggurat"


def test_every_folder_has_a_floor() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(FLOORS)


@pytest.mark.parametrize("module", [module for module in MODULES if module not in (*FACES, "ziggurat.__main__")])
def test_imports_go_down(module: str) -> None:
    room = room_of(module)
    for imported in imports_of(module):
        other = room_of(imported)
        assert imported not in FACES or room == "cli", f"{module} imports {imported}, which is there for users only"
        if other == room:
            continue
        allowed = MAY_ALSO_IMPORT.get((room, other))
        if allowed is None:
            allowed = other != "ziggurat" and FLOORS[other] < FLOORS[room]
            # on one floor rooms do not know each other
        assert allowed, f"{module} imports {imported}, which is not on a lower floor"


def test_there_is_no_circle() -> None:
    waiting: dict[str, int] = {}

    def visit(module: str, trail: tuple[str, ...]) -> None:
        if waiting.get(module) == 2:
            return
        assert waiting.get(module) != 1, f"a circle: {' > '.join(trail[trail.index(module) :])} > {module}"
        waiting[module] = 1
        for imported in sorted(imports_of(module)):
            visit(imported, (*trail, module))
        waiting[module] = 2

    for module in MODULES:
        if module not in FACES:  # a face names what it shows, and no room of the house imports it
            visit(module, ())


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_file_outgrows_a_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_FILE


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its signature and docstring: what has to be read to follow it."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_function_outgrows_a_screen(path: Path) -> None:
    assert not {each.name for each in functions(path) if length_of(each) > MAX_FUNCTION}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_list_of_names_has_what_is_there_and_all_that_is_not_private(path: Path) -> None:
    if "\n__all__ = [" not in path.read_text():
        return
    module = importlib.import_module(module_of(path))
    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        assert getattr(module, name) is not None
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert node.name in module.__all__, f"{node.name} is neither shown nor private"


def test_the_face_is_sorted_small_and_loads() -> None:
    import ziggurat

    assert ziggurat.__all__ == sorted(ziggurat.__all__)
    assert len(ziggurat.__all__) <= MAX_FACE
    for name in ziggurat.__all__:
        assert getattr(ziggurat, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(ziggurat, "nonsense")  # noqa: B009 - type checkers know that there is none


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_modules_import_what_others_show(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            module = importlib.import_module(node.module)
            names = {alias.name for alias in node.names if f"{node.module}.{alias.name}" not in MODULES}
            hidden = names - {name for name in getattr(module, "__all__", names) if not name.startswith("_")}
            assert not hidden, f"{module_of(path)} takes {hidden} from {node.module}, which does not show them"


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=module_of)
def test_a_folder_that_lists_its_files_names_them_all(path: Path) -> None:
    told = ast.get_docstring(ast.parse(path.read_text())) or ""
    if "\n- " in told:
        files = {each.stem for each in path.parent.glob("*.py") if not each.stem.startswith("__")}
        folders = {each.parent.name for each in path.parent.glob("*/__init__.py")}
        assert not (files | folders) - set(re.findall(r"`(\w+)`", told)), f"say in {module_of(path)} what they are"


@cache
def handed_on(module: str) -> dict[str, str]:
    """Return the names that a module hands on lazily, each with the module that has it."""
    return {
        name: f"ziggurat.{home}"
        for node in ast.walk(ast.parse(MODULES[module].read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy"
        for home, names in ast.literal_eval(node.args[1]).items()
        for name in (importlib.import_module(f"ziggurat.{home}").__all__ if names == "*" else names)
    }


@pytest.mark.parametrize("module", [module for module in FACES if handed_on(module)])
def test_no_name_that_is_handed_on_is_that_of_a_file_beside_it(module: str) -> None:
    """Whoever imported that file first would get it in the place of the thing."""
    assert importlib.import_module(module).__all__ == sorted(handed_on(module))
    if MODULES[module].name == "__init__.py":
        assert not handed_on(module).keys() & {each.stem for each in MODULES[module].parent.iterdir()}


def test_public_things_have_docstrings() -> None:
    missing: list[str] = []
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text())
        if path.stat().st_size and ast.get_docstring(tree) is None:
            missing.append(module)
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        for node in [*tree.body, *(each for shown in classes for each in shown.body)]:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            overload = any("overload" in ast.unparse(each) for each in node.decorator_list)
            if not node.name.startswith("_") and not overload and ast.get_docstring(node) is None:
                missing.append(f"{module}.{node.name}")
    assert not missing


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_nothing_revives_objects_or_runs_text(path: Path) -> None:
    text = path.read_text()
    if not re.search(r"pickle|exec|__import__", text):
        return  # to write the code anew takes a while
    code = "\n".join(ast.unparse(node) for node in ast.parse(text).body if not isinstance(node, ast.Expr))
    assert not re.search(r"\b(import pickle|exec\(|__import__\()", code)


def test_a_first_run_imports_what_it_needs() -> None:
    """One agent with one tool needs few modules and one other distribution; what it does not use is not imported."""
    import subprocess
    import sys

    code = (
        "import sys, asyncio; before = set(sys.modules)\n"
        "from ziggurat import Agent, Message, ModelResponse, Text\n"
        "async def model(request, ctx): return ModelResponse(Message('assistant', (Text('done'),)))\n"
        "def add(a: int, b: int) -> int: 'Add.'\n"
        "asyncio.run(Agent(model, tools=[add]).run('Hello'))\n"
        "print(sorted(set(sys.modules) - before))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    imported = set(ast.literal_eval(told))
    assert len(imported) <= MAX_IMPORTED
    outside = {name.partition(".")[0] for name in imported if not name.startswith("_")} - set(sys.stdlib_module_names)
    assert outside <= {"ziggurat", "msgspec", "typing_extensions"}  # msgspec takes the last where it is there anyway
    rooms = {room_of(name) for name in imported if name.startswith("ziggurat.")}
    assert rooms == {"core", "messages", "models", "tools", "stores", "calls", "runs", "agents"}

"""What the documents say holds: every Python block runs, what is shown is what is printed, what is named exists.

Blocks of one file run in order and share their names. Top-level ``await`` is allowed, as in a notebook. A block of
``text`` directly after one of ``python`` is its output. A block that makes ``Agent("demo")`` needs the demo
model: it runs, with all of its file, under the marker ``local`` only. Set ZIGGURAT_UPDATE_DOCS=1 to write the help
texts in cli.md again.
"""

import ast
import asyncio
import builtins
import contextlib
import importlib
import inspect
import io
import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

import pytest
from msgspec import Struct

from tests.test_house import FLOORS
from ziggurat.cli.main import execute
from ziggurat.providers import PROVIDERS
from ziggurat.sandbox import Sandbox
from ziggurat.testing import allow_real_calls

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
UPDATE = "ZIGGURAT_UPDATE_DOCS"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_ROOMS = sorted(
    path.stem
    for path in (ROOT / "src" / "ziggurat").glob("[a-z]*")
    if path.suffix == ".py" or (path / "__init__.py").is_file()
)


class Block(Struct, frozen=True):
    """A fenced block: its language and text, its line in the file, and the output shown after it."""

    language: str
    text: str
    line: int
    shown: str | None

    @property
    def local(self) -> bool:
        """Whether it names the demo model."""
        if self.language != "python":
            return False
        texts = [node.value for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.Constant)]
        return any(isinstance(text, str) and text.partition(":")[0] in ("demo", "local") for text in texts)


def blocks_of(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    blocks = []
    for index, match in enumerate(found):
        following = found[index + 1] if index + 1 < len(found) else None
        adjacent = following is not None and not text[match.end() : following.start()].strip()
        shown = following[2] if following is not None and adjacent and following[1] == "text" else None
        blocks.append(Block(match[1], match[2], text.count("\n", 0, match.start()) + 2, shown))
    return blocks


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


WITH_LOCAL = [path for path in DOCUMENTS if any(block.local for block in blocks_of(path))]


# -- Python ----------------------------------------------------------------------------------------------------------


def used_in(block: Block) -> set[str]:
    """Names that a block uses, in its functions too."""
    return {node.id for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Name)}


def bound_in(block: Block) -> set[str]:
    """Names that a block binds at its top level."""
    bound = set()
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
    return bound


def compiled(block: Block, path: Path) -> CodeType:
    padded = "\n" * (block.line - 1) + block.text  # so that a traceback names the line of the document
    code: CodeType = compile(padded, str(path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


@pytest.fixture(autouse=True)
def _names_of_models() -> Iterator[None]:
    """Take back what a document adds to the names of models."""
    before = dict(PROVIDERS)
    yield
    PROVIDERS.clear()
    PROVIDERS.update(before)


def run_blocks(path: Path, *, with_local: bool) -> None:
    missing: set[str] = set()
    namespace: dict[str, object] = {"__name__": path.stem}
    with asyncio.Runner() as runner:
        for block in blocks_of(path):
            if block.language != "python":
                continue
            code = compiled(block, path)
            if not with_local and (block.local or used_in(block) & missing - bound_in(block)):
                missing |= bound_in(block) - namespace.keys()
                continue
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                waiting = eval(code, namespace)
                if inspect.isawaitable(waiting):
                    runner.run(_awaited(waiting))
            if block.shown is not None:
                assert out.getvalue() == block.shown, f"{ids(path)}:{block.line} prints something else"


async def _awaited(waiting: object) -> None:
    assert inspect.isawaitable(waiting)
    await waiting


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
def test_python_blocks_run_offline(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if path.name == "code.md" and (why := Sandbox.unavailable("monty")) is not None:
        pytest.skip(why)
    monkeypatch.chdir(tmp_path)
    run_blocks(path, with_local=False)


@pytest.mark.local
@pytest.mark.parametrize("path", WITH_LOCAL, ids=ids)
def test_python_blocks_run_on_the_demo_model(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with allow_real_calls():
        run_blocks(path, with_local=True)


def test_a_block_that_fails_is_noticed(tmp_path: Path) -> None:
    path = ROOT / "docs" / "nothing.md"
    for text, error in (("1 / 0\n", ZeroDivisionError), ("await nobody()\n", NameError)):
        block = Block("python", text, 7, None)
        with pytest.raises(error), asyncio.Runner() as runner:
            waiting = eval(compiled(block, path), {})
            runner.run(_awaited(waiting))


def test_the_first_program_of_the_readme_stands_on_its_own() -> None:
    first = next(block for block in blocks_of(ROOT / "README.md") if block.language == "python")
    assert used_in(first) <= bound_in(first) | set(dir(builtins))


# -- the shell -------------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, str]]:
    """Every line of a shell block that is a command, and where it stands; a console's are those after ``$``."""
    for path in DOCUMENTS:
        for block in blocks_of(path):
            if block.language not in ("sh", "console"):
                continue
            for line in block.text.splitlines():
                command = line if block.language == "sh" else line.removeprefix("$ ") if line.startswith("$ ") else ""
                command = command.partition("  #")[0].strip()
                if command and not command.startswith("#"):
                    yield command, f"{ids(path)}:{block.line}"


@cache
def help_of(*command: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert execute([*command, "--help"]) == 0
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines()) + "\n"


def check_ziggurat(words: list[str], where: str) -> None:
    group: list[str] = []
    while len(group) < len(words) and re.search(
        rf"^  {re.escape(words[len(group)])} ", _listed(help_of(*group)), re.MULTILINE
    ):
        group.append(words[len(group)])
    assert group or words[0].startswith("-"), f"{where}: there is no command {words[0]!r}"
    if group == ["mcp"] and ":" in words[1]:  # a group that serves what is named
        group.append("serve")
        words = ["mcp", "serve", *words[1:]]
    text = help_of(*group)
    rest = words[len(group) :]
    assert not _listed(text) or not rest or rest[0].startswith("-"), f"{where}: there is no command {rest[0]!r}"
    for word in rest:
        if word.startswith("-") and word != "-":
            assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text), f"{where}: {word} is not an option"


def _listed(text: str) -> str:
    return text.partition("Commands:")[2]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("narrow")
def test_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    seen = 0
    for command, where in commands():
        seen += 1
        command = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", command.rpartition(" | ")[2])
        words = re.sub(r"(\"[^\"]*\"|'[^']*')", lambda quoted: quoted[0].replace(" ", "_"), command).split()
        program = words[0].removeprefix(".venv/bin/")
        if program == "make":
            assert words[1] in targets, f"{where}: there is no target {words[1]!r}"
        elif program == "ziggurat":
            check_ziggurat(words[1:], where)
        elif program == "pip":
            for extra in re.findall(r"ziggurat\[([^]]*)\]", command):
                assert set(extra.split(",")) <= project["optional-dependencies"].keys(), f"{where}: {command}"
        elif program == "python" and words[1].endswith(".py"):
            assert (ROOT / words[1]).is_file(), f"{where}: there is no {words[1]}"
        else:
            assert program in ("cd", "curl", "git", "python", "mypy", "ruff"), f"{where}: what is {program!r}?"
    assert seen > 5


@pytest.mark.usefixtures("narrow")
def test_the_help_in_the_documents_is_the_help_of_the_program() -> None:
    path = ROOT / "docs" / "cli.md"
    text = path.read_text(encoding="utf-8")

    def fresh(match: re.Match[str]) -> str:
        return f"```console\n$ ziggurat{match[1]} --help\n{help_of(*match[1].split())}```\n"

    now = re.sub(r"^```console\n\$ ziggurat((?: [a-z-]+)*) --help\n.*?^```\n", fresh, text, flags=re.M | re.S)
    if os.environ.get(UPDATE):
        path.write_text(now, encoding="utf-8")
    assert text == now, f"run the tests once with {UPDATE}=1 to write the help texts again"
    for command in re.findall(r"^  ([a-z-]+) ", _listed(help_of()), re.MULTILINE):
        parts = re.findall(r"^  ([a-z-]+) ", _listed(help_of(command)), re.MULTILINE)
        for each in (command, *(f"{command} {part}" for part in parts)):
            assert text.count(f"$ ziggurat {each} --help") == 1, f"cli.md has not one help text of {each}"


def test_no_heading_is_there_twice() -> None:
    for path in DOCUMENTS:
        headings = re.findall(r"^##+ .*$", _FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
        assert len(headings) == len(set(headings)), ids(path)


# -- what is named ---------------------------------------------------------------------------------------------------


def exists(dotted: str) -> bool:
    """Whether there is a thing with this name, counted from the package, such as ``layers.retry.retry``."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(("ziggurat", *parts[:cut])))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if name not in getattr(found, "__struct_fields__", ()) and not hasattr(found, name):
                return False
            found = getattr(found, name, None)
        return True
    return False


def test_names_in_backticks_exist() -> None:
    pattern = re.compile(rf"`(?:ziggurat\.)?((?:{'|'.join(_ROOMS)})(?:\.\w+)+)(?:\([^`]*\))?`")
    unknown = []
    for path in DOCUMENTS:
        for name in pattern.findall(_FENCE.sub("", path.read_text(encoding="utf-8"))):
            if not name.endswith((".py", ".md", ".txt")) and not exists(name):
                unknown.append(f"{ids(path)}: {name}")
    assert not unknown


def anchors_of(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    broken = []
    for path in [*DOCUMENTS, ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", path.read_text(encoding="utf-8"))):
            file, _, anchor = target.partition("#")
            there = path.parent / file if file else path
            if target.startswith(("https://", "mailto:")) or (there.exists() and not anchor):
                continue
            if not there.exists() or anchor not in anchors_of(there):
                broken.append(f"{ids(path)}: {target}")
    assert not broken


def test_files_that_are_named_exist() -> None:
    pattern = re.compile(r"`((?:src|tests|benchmarks|examples|docs)/[\w/]+\.\w+)")
    named = {(path, file) for path in DOCUMENTS for file in pattern.findall(path.read_text(encoding="utf-8"))}
    assert not [f"{ids(path)}: {file}" for path, file in named if not (ROOT / file).exists()]


def test_tests_that_are_named_exist() -> None:
    """So the behaviours that the documents promise are each shown by a test."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text))
    assert len(named) >= 30
    for file, name in named:
        functions = {getattr(node, "name", "") for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body}
        assert name in functions, f"there is no {file}::{name}"


def test_the_readme_names_what_is_not_there() -> None:
    def missing(file: str, heading: str) -> list[str]:
        section = (ROOT / file).read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
        return re.findall(r"^- .*", section, re.MULTILINE)

    cells = [line.strip("| ").rsplit(" | ", 1)[-1] for line in (ROOT / "docs/seeds.md").read_text("utf-8").splitlines()]
    assert missing("README.md", "Status") == missing("docs/limits.md", "Not there")
    assert not [cell for cell in cells if cell.startswith("planned")]


def test_every_document_is_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").glob("*.md")):
        assert f"(docs/{path.name})" in readme, f"the README does not link to {path.name}"


def links_of(path: Path) -> set[Path]:
    """Return the documents that a document links to."""
    targets = re.findall(r"\]\(([^)\s#]+\.md)[^)\s]*\)", _FENCE.sub("", path.read_text(encoding="utf-8")))
    return {(path.parent / target).resolve() for target in targets if "://" not in target}


def test_common_tasks_are_at_most_three_clicks_away_from_the_readme() -> None:
    page = ROOT / "docs" / "tasks.md"
    rows = re.findall(r"^\| (?!I want to|---)(.+) \| (.+) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) >= 20
    assert all("](" in where for _, where in rows)
    assert page in links_of(ROOT / "README.md")  # the first click, and the second leads to the place itself
    assert links_of(page) <= links_of(ROOT / "README.md") | {ROOT / "README.md"}


def test_the_house_in_the_documents_is_the_house() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \| (\d+) \|(.*)\|$", text, re.MULTILINE)
    built = {name: int(floor) for name, floor, what in rows if "planned" not in what}
    assert built == FLOORS


def test_every_name_of_the_earlier_systems_has_an_answer() -> None:
    text = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!there|---)(.+?) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) > 200
    for there, here in rows:
        told = "`" in here or here.startswith(("planned", "not taken", "the same", "a result"))
        assert told, there
        for rooms in re.findall(r"planned: ((?:`\w+/`(?:, )?)+)", here):
            for room in re.findall(r"\w+", rooms):
                design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
                assert f"| `{room}/` |" in design, f"{there}: there is no room {room}/"


def test_every_environment_variable_is_on_its_page() -> None:
    from ziggurat.models.http.dialect import DIALECTS

    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"ZIGGURAT_[A-Z_]+[A-Z]", source))
    for dialect in DIALECTS.values():
        read |= {*dialect.key_variables, *dialect.base_variables}
    documented = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", page))
    assert not read - documented
    assert {name for name in documented if name.startswith("ZIGGURAT")} <= read

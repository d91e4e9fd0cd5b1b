"""Plant faults in the source, one at a time, and count how many the tests of that room find.

    python -m tests.planted --faults 60 --seed 7
    python -m tests.planted --faults 60 --seed 7 --tests ../other-checkout   # the same faults, other tests

A fault is a negated condition, a swapped constant or a dropped statement. It is planted in a copy of the package.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/ziggurat"
ROOMS = ("core", "calls", "runs", "agents", "stores", "tools")
SECONDS = 300  # a fault; a room whose own tests take longer finds nothing in time

Place = tuple[str, ast.expr | ast.stmt, str]  # kind, node, the text in its place


def swapped(node: ast.Constant) -> str | None:
    """Return another constant of the same type."""
    if isinstance(node.value, bool):
        return str(not node.value)
    if isinstance(node.value, (int, float)):
        return repr(node.value + 1)
    return None  # a text may be one that only a person reads


def droppable(node: ast.AST) -> bool:
    """Whether a statement can go without making the code invalid."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, (ast.Call, ast.Await))
    if isinstance(node, ast.Assign):
        return all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
    return isinstance(node, (ast.AugAssign, ast.Delete, ast.Raise))


def places(text: str) -> Iterator[Place]:
    """Yield every place inside a function where a fault can be planted."""
    nodes = {
        id(node): node
        for function in ast.walk(ast.parse(text))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for statement in function.body
        for node in ast.walk(statement)
    }
    lines = text.splitlines()
    for node in nodes.values():
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield "negated", node.test, f"(not ({ast.unparse(node.test)}))"
        elif isinstance(node, ast.Constant) and (other := swapped(node)):
            if lines[node.lineno - 1][node.col_offset : node.end_col_offset] == repr(node.value):  # not in f-strings
                yield "swapped", node, other
        elif isinstance(node, ast.stmt) and droppable(node):
            yield "dropped", node, "pass"


def plant(text: str, place: Place) -> str:
    """Return the source with the fault in it; positions of `ast` count bytes."""
    _, node, other = place
    lines = text.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    return b"".join([*lines[:first], before + other.encode() + after, *lines[last + 1 :]]).decode()


def drawn(faults: int, seed: int) -> list[tuple[Path, Place]]:
    """Draw as many faults from each room, each file as often as it has places."""
    chance = random.Random(seed)
    rooms = {
        room: [(path, place) for path in sorted((SOURCE / room).rglob("*.py")) for place in places(path.read_text())]
        for room in ROOMS
    }
    return [chance.choice(rooms[ROOMS[number % len(ROOMS)]]) for number in range(faults)]


def trial(path: Path, text: str, tests: Path) -> str:
    """Run the tests of the room on a copy of the package with this text in one file, and return the outcome."""
    inside = path.relative_to(ROOT / "src")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / inside).write_text(text)
        command = [sys.executable, "-m", "pytest", f"tests/{inside.parts[1]}", "-x", "-p", "no:cacheprovider"]
        process = subprocess.Popen(
            [*command, "--numprocesses=2", "--dist=worksteal"],
            cwd=tests,
            env={**os.environ, "PYTHONPATH": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return "TIMED OUT"
        if code > 2:  # neither passed, failed nor interrupted
            raise SystemExit(f"pytest ended with {code}: {' '.join(command)}")
        return "found" if code else "NOT FOUND"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--tests", type=Path, default=ROOT, help="a checkout whose tests are run instead of these")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    count = 0
    for number, (path, place) in enumerate(drawn(arguments.faults, arguments.seed), start=1):
        kind, node, _ = place
        began = time.monotonic()
        outcome = trial(path, plant(path.read_text(), place), arguments.tests.absolute())
        count += outcome == "found"
        where = f"{path.relative_to(SOURCE)}:{node.lineno}"
        print(f"{number:3} {outcome:9} {time.monotonic() - began:4.0f} s  {kind} at {where}", flush=True)
    print(f"{count} of {arguments.faults} found")


if __name__ == "__main__":
    main()

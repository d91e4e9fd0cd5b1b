"""Count the lines of the ports and of the samples they are ports of, in the same way.

    python -m examples.apps.ports.lines              # the ports
    python -m examples.apps.ports.lines CHECKOUTS    # a folder with pydantic-ai, openai-agents-python and langgraph

A line of code is one that is left when comments, docstrings and empty lines are removed and the rest is formatted by
ruff at 100 columns, so that nobody's style counts. Of a notebook, the cells of the compared part count, without those
that install packages or set keys.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
_NOTEBOOK = "langgraph/docs/docs/how-tos"
ORIGINALS: dict[str, tuple[str, tuple[int, ...]]] = {
    "bank_support": ("pydantic-ai/examples/pydantic_ai_examples/bank_support.py", ()),
    "roulette_wheel": ("pydantic-ai/examples/pydantic_ai_examples/roulette_wheel.py", ()),
    "human_in_the_loop": ("openai-agents-python/examples/agent_patterns/human_in_the_loop.py", ()),
    "llm_as_a_judge": ("openai-agents-python/examples/agent_patterns/llm_as_a_judge.py", ()),
    "structured_weather": (f"{_NOTEBOOK}/react-agent-structured-output.ipynb", (2, 3, 4)),
    "ask_human": (f"{_NOTEBOOK}/human_in_the_loop/wait-user-input.ipynb", (6, 7, 9)),
}
"""The sample that each port is a port of, and the code cells that count if it is a notebook, from 0."""

SNIPPETS = {
    "agent_runtime/quick_start": 41,
    "agent_runtime/skills": 40,
    "agent_runtime/discovery": 40,
    "agent_runtime/plan_execute": 35,
    "agent_runtime/streaming": 30,
    "agent_runtime/planner": 29,
    "agent_runtime/team": 26,
    "agent_runtime/swarm": 26,
    "agent_runtime/bus": 24,
    "agent_runtime/sandbox": 24,
}
"""The ports of programs in the README of llm-agent-runtime 1.75, and the lines of each program there, without comments
and empty lines."""


def code_of(path: Path, cells: tuple[int, ...] = ()) -> str:
    """Return the code of a program, or of some cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    code = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return "\n".join(code[cell] for cell in cells)


def count(code: str) -> int:
    """Return the number of lines of code."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [each for each in node.body if not _is_text(each)] or [ast.Pass()]
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "100", "-"]
    shown = subprocess.run(ruff, input=ast.unparse(tree), capture_output=True, text=True, check=True)  # noqa: S603
    return sum(bool(line.strip()) for line in shown.stdout.splitlines())


def _is_text(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, wherever it is."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def main(checkouts: Path | None) -> None:
    for name, (original, cells) in ORIGINALS.items():
        ours = count(code_of(HERE / f"{name}.py"))
        theirs = count(code_of(checkouts / original, cells)) if checkouts else "?"
        print(f"{name:26} {ours:4} {theirs:>4}  {original}")
    for name, rust in SNIPPETS.items():
        print(f"{name:26} {count(code_of(HERE / f'{name}.py')):4} {rust:4}  the README of llm-agent-runtime")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)

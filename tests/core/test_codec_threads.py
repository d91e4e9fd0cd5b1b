"""Threads that read a type for the first time, at the same time."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples import amount

PROGRAM = """
import sys
import threading
from types import ModuleType
from typing import Any

from ziggurat import tool
from ziggurat.core import codec

sys.setswitchinterval(1e-6)
DATA = b'{"a": 1, "below": {"a": 2, "below": {"a": 3}}}'
FIELDS = "a: int; b: str = ''; c: tuple[int, ...] = (); more: dict[str, float] | None = None"


def decoded(kind: Any) -> None:
    codec.decode(DATA, kind)


def converted(kind: Any) -> None:
    codec.convert({"a": 1, "below": {"a": 2, "below": {"a": 3}}}, kind)


def given(kind: Any) -> None:
    def look(at: kind) -> str:
        "Look."
        return str(at.a)

    tool(look).normalize(ToolCall("c", "look", '{"at": ' + DATA.decode() + "}"))


from ziggurat import ToolCall

for number in range(int(sys.argv[2])):
    module = ModuleType(f"kinds_{number}")
    sys.modules[module.__name__] = module
    source = "from msgspec import Struct\\nclass Kind0(Struct): a: int\\n"
    for kind in range(1, 12):
        source += f"class Kind{kind}(Struct): {FIELDS}; below: Kind{kind - 1} | None = None\\n"
    exec(source, module.__dict__)
    start = threading.Barrier(3)

    def read(kind: Any) -> None:
        start.wait()
        globals()[sys.argv[1]](kind)

    threads = [threading.Thread(target=read, args=(getattr(module, name),)) for name in ("Kind11", "Kind10", "Kind11")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


@pytest.mark.parametrize("way", ["decoded", "converted", "given"])
def test_threads_that_read_a_type_for_the_first_time_do_not_meet(way: str, tmp_path: Path) -> None:
    """The process of a program in which they do ends with a segmentation fault."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), way, str(amount(100, 1_000))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_types_are_read_by_the_codec_or_while_no_other_thread_reads_one() -> None:
    source = Path(__file__).parents[2] / "src"
    read: set[str] = set()
    for path in source.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        held = {
            inner
            for block in ast.walk(tree)
            if isinstance(block, ast.With) and any("READING_TYPES" in ast.unparse(each) for each in block.items)
            for inner in ast.walk(block)
        }
        calls = {node for node in ast.walk(tree) if isinstance(node, ast.Call)} - held
        read |= {f"{path.name}: {ast.unparse(call)}" for call in calls if _reads_a_class(call)}
    assert {each.partition(":")[0] for each in read} == {"codec.py"}, read


def _reads_a_class(call: ast.Call) -> bool:
    """Return whether msgspec reads a type with fields for a call."""
    name = ast.unparse(call.func)
    kinds = [ast.unparse(each.value) for each in call.keywords if each.arg == "type"]
    plain = ("dict[", "list[", "tuple[")
    return (
        (
            name == "msgspec.convert"
            and ast.unparse(call.args[1]) != "annotation"  # of texts, in the rules of settings
        )
        or re.fullmatch(r"(msgspec\.)?(json|msgpack)\.Decoder", name) is not None
        or (
            name.endswith(("json.decode", "yaml.decode", "msgpack.decode"))
            and any(not each.startswith(plain) for each in kinds)
        )
    )

"""The one place that writes to the terminal."""

import ast
import io
import json
import logging
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import ziggurat.cli
from tests.samples import amount
from ziggurat.cli.terminal import note, read_line, report_logs, shell_word, write, write_json
from ziggurat.core.visible import is_hidden

ROOM = Path(ziggurat.cli.__file__).parent
WRITERS = {"print", "input", "print_exception", "print_exc", "echo", "secho", "write", "writelines", "print_stack"}


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def written_in(file: Path) -> list[str]:
    """Return the places of a module where it writes or reads by itself."""
    tree = ast.parse(file.read_text())
    imported = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "ziggurat.cli.terminal"
        for each in node.names
    }
    return [
        f"{file.name}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and name_of(node.func) in WRITERS
        and not (isinstance(node.func, ast.Name) and node.func.id in imported)
        and not (isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "terminal")
    ]


def test_no_other_module_writes_or_reads_by_itself() -> None:
    assert [place for file in ROOM.glob("*.py") if file.name != "terminal.py" for place in written_in(file)] == []


@given(st.text())
def test_nothing_hidden_is_written(text: str) -> None:
    out = io.StringIO()
    write(text, out)
    assert not any(is_hidden(each) for each in out.getvalue() if each not in "\n\t")
    assert out.getvalue().endswith("\n")


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_json_stays_json_on_one_line_without_hidden_characters(value: dict[str, str]) -> None:
    out = io.StringIO()
    write_json(json.dumps(value, ensure_ascii=False), out)
    assert json.loads(out.getvalue()) == value
    assert len(out.getvalue().splitlines()) == 1
    assert not any(is_hidden(each) for each in out.getvalue()[:-1])


@settings(max_examples=amount(20, 100))
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=30))
def test_a_copied_word_is_the_same_word_to_a_shell(texts: list[str]) -> None:
    words = [shell_word(text) for text in texts]
    assert not any(is_hidden(each) for word in words for each in word)
    script = "printf '%s\\0' " + " ".join(words)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == texts


def test_messages_prompts_and_logged_warnings_are_written_like_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    note("the run \x1b[2J failed")
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    assert read_line("pay\u202e? ") == "yes"
    assert read_line() is None
    assert capsys.readouterr() == ("pay\\u202e? ", "ziggurat: the run \\u001b[2J failed\n")
    logger = logging.getLogger("ziggurat")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", False)
    report_logs(reports_runs=False)
    report_logs(reports_runs=False)
    logger.warning("the session %s was not written", "\x9b1m")
    assert capsys.readouterr().err == "ziggurat: the session \\u009b1m was not written\n"

"""Tests of loading tools and agents by name, and of the errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import AGENTS, Command
from ziggurat import ConfigurationError
from ziggurat.cli.load import load_agent, load_tool


@pytest.fixture(autouse=True)
def _as_it_was(ziggurat: Command) -> None:
    return


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("nope:x", "nope"),
        ("os.nope:x", "os.nope"),
        ("json:decodr", "decodr"),
        ("math:sqrt", "annotations"),
        ("os:path", "agents"),
        ("calculater", "calculator"),
        ("nonsense", "calculator, echo"),
        ("nope.py:x", "nope.py"),
        ("..:x", "module's name"),
        (f"{AGENTS}:untyped", "city"),
        (f"{AGENTS}:forecst", "forecast"),
        (AGENTS, "name is missing"),
        ("", "a tool is module:function"),
        (":", "module's name"),
    ],
)
def test_a_wrong_tool_is_told_how(spec: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_tool(spec)
    assert (spec.rpartition(":")[0] or spec) in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (f"{AGENTS}:planz", "there are"),
        (AGENTS, "broken, careful"),
        (f"{AGENTS}:model", "FunctionModel"),
        (f"{AGENTS}:City", "City"),
        ("/:x", "directory"),
        (" ", "empty"),
        ("tests/cli/nothing.py:x", "file"),
    ],
)
def test_a_wrong_agent_is_told_how(spec: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_agent(spec)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "mine.py, line 1"),
        ("import nothing_of_this_name\n", "nothing_of_this_name"),
        ("\n1 / 0\n", "ZeroDivisionError"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("from ziggurat import Agent\nAgent('demo', max_steps=0)\n", "mine.py:2 in <module>"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_agent(f"{tmp_path}/mine.py:agent")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_in_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("def twice(number: int) -> int:\n    return 2 * number\n")
    monkeypatch.chdir(tmp_path)
    twice: Any = load_tool("only_here:twice")
    assert twice(4) == 8


def test_a_file_named_like_a_module_at_work_does_not_get_its_place(tmp_path: Path) -> None:
    import json

    (tmp_path / "json.py").write_text("def twice(number: int) -> int:\n    return 2 * number\n")
    twice: Any = load_tool(f"{tmp_path}/json.py:twice")
    assert twice(4) == 8
    assert json.loads("1") == 1


def test_a_file_is_loaded_once(ziggurat: Command) -> None:
    assert load_agent(f"{AGENTS}:plain") is load_agent(f"{AGENTS}:plain")


@pytest.mark.parametrize(
    ("options", "named"),
    [(("-m", "demo"), "--model"), (("-t", "echo", "--timeout", "3"), "--tool and --timeout"), (("-i", ""), "--inst")],
)
def test_a_ready_agent_excludes_other_options(
    ziggurat: Command, options: tuple[str, ...] | tuple[str, str], named: str
) -> None:
    ended = ziggurat("run", "--agent", f"{AGENTS}:plain", *options, "x")
    assert ended.code == 2
    assert named in ended.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("-m", "locla"), "local"),
        (("-m", "local"), "demo"),
        (("-m", "acme:x"), "acme"),
        (("-m", ""), "empty"),
        (("-m", "local:/nope.gguf"), "/nope.gguf"),
        (("--timeout", "0"), "--timeout"),
        (("--timeout", "nan"), "--timeout"),
        (("--timeout", "soon"), "--timeout"),
        (("--max-steps", "0"), "--max-steps"),
        (("--nope",), "--nope"),
        (("and", "more"), "extra argument"),
    ],
)
def test_wrong_options_end_with_two(ziggurat: Command, options: tuple[str, str] | tuple[str], told: str) -> None:
    ended = ziggurat("run", *options, "x")
    assert ended.code == 2
    assert told in ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err


BY_NAME: dict[str, Callable[[str], tuple[str, ...]]] = {
    "run": lambda spec: ("run", "--agent", spec, "x"),
    "chat": lambda spec: ("chat", "--agent", spec),
    "tool": lambda spec: ("run", "--tool", spec, "x"),
    "mcp": lambda spec: ("mcp", spec),
    "serve": lambda spec: ("serve", spec),
    "worker": lambda spec: ("worker", spec),
    "submit": lambda spec: ("submit", spec, "x"),
    "recover": lambda spec: ("recover", spec),
}


@pytest.mark.parametrize(
    "spec", [f"{AGENTS}:nope", "nope.py:agent", AGENTS, "nothing_of_this_name:agent", f"{AGENTS}:City"]
)
@pytest.mark.parametrize("command", BY_NAME)
def test_a_wrong_name_is_refused_in_the_words_that_were_typed(kept: Command, command: str, spec: str) -> None:
    typed = BY_NAME[command](spec)
    ended = kept(*typed)
    (line,) = [line for line in ended.err.splitlines() if line.startswith("ziggurat: ")]
    assert ended.code == 2
    assert spec.rpartition(":")[0] in line or spec in line
    assert [each for each in ("--agent", "--tool") if each in line and each not in typed] == []

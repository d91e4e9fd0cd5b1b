"""Tests of the command line's entry point: help, version, errors, and the program itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import AGENTS, Command
from tests.samples import sample
from ziggurat.cli.main import COMMANDS

PROGRAM = (sys.executable, "-m", "ziggurat")


def test_every_help_has_an_example(ziggurat: Command) -> None:
    for command in ("", "run", "chat", "models", "models list", "models install", "models remove", "doctor"):
        ended = ziggurat(*command.split(), "--help")
        assert (ended.code, "Example" in ended.out, f"ziggurat {command}" in ended.out) == (0, True, True), command
        assert ended.out == ziggurat(*command.split(), "-h").out


def test_the_version_is_that_of_the_package(ziggurat: Command) -> None:
    from importlib.metadata import version

    assert ziggurat("--version").out == f"ziggurat {version('ziggurat')}\n"


def test_an_unknown_command_is_told_the_near_one(ziggurat: Command) -> None:
    ended = ziggurat("runn")
    assert ended.code == 2
    assert "Did you mean 'run', 'runs'?" in ended.err


def test_tracebacks_are_shown_only_when_asked_for(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in ziggurat("run", "-m", "nope", "x").err
    monkeypatch.setenv("ZIGGURAT_DEBUG", "1")
    ended = ziggurat("run", "-m", "nope", "x")
    assert "Traceback" in ended.err
    assert ended.code == 2


def test_an_error_of_the_users_code_is_shown_once(tmp_path: Path) -> None:
    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        command = (*PROGRAM, "run", "--store", "memory:", "--agent", f"{file}:agent", "x")
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})

    file = tmp_path / "mine.py"
    file.write_text(
        "from ziggurat import Agent\nfrom ziggurat.messages import tool_call\n"
        "from ziggurat.testing import ScriptedModel\n\n"
        "def look() -> str:\n    raise KeyError('missing')\n\n"
        "agent = Agent(ScriptedModel(tool_call('look'), 'done'), tools=[look])\n"
    )
    ended = run(ZIGGURAT_DEBUG="")
    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0)
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("ziggurat: ")]
    assert f"(at {file}:6 in look)" in line
    ended = run(ZIGGURAT_DEBUG="1")
    assert (ended.returncode, ended.stderr.count("Traceback")) == (1, 1)
    assert "ZIGGURAT_DEBUG" not in ended.stderr


def test_without_the_extra_one_line_says_how_to_get_it() -> None:
    for missing in ("rich", "typer"):
        program = f"import sys; sys.modules[{missing!r}] = None; from ziggurat.cli.main import main; sys.exit(main())"
        ended = subprocess.run([sys.executable, "-c", program, "run", "x"], capture_output=True, text=True)
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
        assert "pip install 'ziggurat[cli]'" in ended.stderr


def test_the_doctor_comes_without_the_extra_too() -> None:
    program = (
        "import sys; sys.modules['typer'] = sys.modules['rich'] = None;"
        "from ziggurat.cli.main import main; sys.exit(main(['doctor']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode in (0, 1)
    assert "Model that is used where none is named\n" in ended.stdout
    assert "extra cli" in ended.stdout
    assert ended.stderr == ""


def test_an_interruption_before_the_run_is_told(ziggurat: Command, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("raise KeyboardInterrupt")
    ended = ziggurat("run", "--agent", f"{tmp_path}/slow.py:agent", "x")
    assert (ended.code, ended.out, ended.err) == (130, "", "ziggurat: interrupted\n")


@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [
        ("<&-", 2, "ziggurat: standard input is empty"),
        (">&-", 1, "ziggurat: standard output is closed"),
        ("2>&-", 2, ""),
    ],
)
def test_streams_that_are_closed_are_no_surprise(closed: str, code: int, said: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, "run", "--agent", f"{AGENTS}:plain"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith(said)


def test_the_program_writes_the_answer_to_a_pipe() -> None:
    ended = subprocess.run(
        [*PROGRAM, "run", "--agent", f"{AGENTS}:plain"], input="12 * (7 + 5)?", capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (0, "It is 144.\n")
    assert "calculator" in ended.stderr


def test_an_interrupted_run_says_so_and_ends_its_events() -> None:
    with subprocess.Popen(
        [*PROGRAM, "run", "--json", "--agent", f"{AGENTS}:hangs", "x"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        lines = [program.stdout.readline()]
        while "ModelStarted" not in lines[-1]:
            lines.append(program.stdout.readline())
        program.send_signal(signal.SIGINT)
        rest, told = program.communicate()
    last = json.loads(rest.splitlines()[-1])
    assert last["event"] == "AgentEnded"
    assert last["run"]["stop"] == {"stop": "Cancelled"}
    assert told.splitlines()[-1] == "ziggurat: interrupted"
    assert program.returncode == 130


def test_a_reader_that_leaves_stops_the_run_quietly() -> None:
    for option in sample(("--json", "--quiet"), 1):
        reader, writer = os.pipe()
        os.close(reader)
        with subprocess.Popen(
            [*PROGRAM, "run", option, "--agent", f"{AGENTS}:long", "x"],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            os.close(writer)
            _, told = program.communicate()
        assert told == "printed while loading\n"
        assert program.returncode == 1


def test_the_list_of_commands_has_the_first_lines_of_their_help(ziggurat: Command) -> None:
    for name, (_, summary) in COMMANDS.items():
        assert ziggurat(name, "--help").out.split("\n\n")[1].split() == summary.split(), name

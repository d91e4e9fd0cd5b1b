"""Tests of the run command: what is written where, and exit codes."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import AGENTS, Command, Typed
from ziggurat.cli.main import main
from ziggurat.core.codec import decode
from ziggurat.events import AgentEnded
from ziggurat.messages.events import AnyEvent
from ziggurat.models import FunctionModel
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.providers import PROVIDERS


def test_a_pipe_gets_the_answer_and_nothing_else(ziggurat: Command) -> None:
    ended = ziggurat("run", "--agent", f"{AGENTS}:plain", "What is 12 * (7 + 5)?")
    assert (ended.code, ended.out) == (0, "It is 144.\n")
    assert 'calculator(expression="12 * (7 + 5)")' in ended.err
    assert "→ 144" in ended.err
    assert "2 steps · 1 tool call · tokens: 200 in, 20 out" in ended.err
    assert "\x1b" not in ended.err


def test_quiet_leaves_the_view_out(ziggurat: Command) -> None:
    ended = ziggurat("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    assert (ended.out, ended.err) == ("It is 144.\n", "printed while loading\n")


def test_what_tools_print_stays_out_of_the_answer(ziggurat: Command) -> None:
    ended = ziggurat("run", "--agent", f"{AGENTS}:prints", "Rain?")
    assert ended.out == "Sunny.\n"
    assert "printed by the tool" in ended.err


def test_a_terminal_shows_all_in_one_view(monkeypatch: pytest.MonkeyPatch, ziggurat: Command) -> None:
    screen = Typed()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "dumb")
    assert main(["run", "--agent", f"{AGENTS}:plain", "x"]) == 0
    text = screen.getvalue()
    assert text.index("calculator") < text.index("It is 144.") < text.index("2 steps")
    assert text.count("It is 144.") == 1


def test_json_is_one_event_per_line_and_ends_with_the_run(ziggurat: Command) -> None:
    ended = ziggurat("run", "--json", "--agent", f"{AGENTS}:prints", "x")
    lines = ended.out.splitlines()
    events = [decode(line, AnyEvent) for line in lines]
    assert isinstance(events[-1], AgentEnded)
    assert events[-1].run.text == "Sunny."
    assert [json.loads(line)["event"] for line in lines][:3] == ["AgentStarted", "StepStarted", "ModelStarted"]
    assert ended.code == 0


def test_json_ends_with_the_run_also_when_it_was_used_wrongly(ziggurat: Command) -> None:
    ended = ziggurat("run", "--json", "--agent", f"{AGENTS}:broken", "x")
    last = decode(ended.out.splitlines()[-1], AnyEvent)
    assert isinstance(last, AgentEnded)
    assert type(last.run.stop).__name__ == "Failed"
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("ziggurat: the function of the model 'function' returned int")


def test_an_output_of_another_type_is_written_as_json(ziggurat: Command) -> None:
    ended = ziggurat("run", "--agent", f"{AGENTS}:typed", "x")
    assert json.loads(ended.out) == {"name": "Rome", "people": 3}


@pytest.mark.parametrize(
    ("agent", "code", "told"),
    [
        ("failing", 1, "the provider is down"),
        ("short", 1, "--max-steps"),
        ("careful", 3, 'calculator(expression="12 * (7 + 5)")'),
        ("silent", 0, "empty"),
    ],
)
def test_exit_codes_are_honest(ziggurat: Command, agent: str, code: int, told: str) -> None:
    ended = ziggurat("run", "--agent", f"{AGENTS}:{agent}", "x")
    assert (ended.code, ended.out) == (code, "")
    assert told in ended.err.splitlines()[-1]
    as_json = ziggurat("run", "--json", "--agent", f"{AGENTS}:{agent}", "x")
    assert as_json.code == code
    assert json.loads(as_json.out.splitlines()[-1])["event"] == "AgentEnded"


def test_the_question_comes_from_standard_input(ziggurat: Command) -> None:
    for arguments in ((), ("-",)):
        ended = ziggurat("run", "-q", "--agent", f"{AGENTS}:memory", *arguments, stdin="  two\nlines\n")
        assert ended.out == "you said 1 things, lastly two\nlines\n"


def test_an_empty_question_is_refused(ziggurat: Command) -> None:
    cases: list[tuple[tuple[str, ...], str]] = [(("",), ""), (("  ",), ""), (("-",), " \n"), ((), "")]
    for arguments, stdin in cases:
        ended = ziggurat("run", "--agent", f"{AGENTS}:memory", *arguments, stdin=stdin)
        assert (ended.code, "is empty" in ended.err) == (2, True), arguments


def test_no_question_on_a_terminal_is_refused(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Typed())
    assert main(["run"]) == 2
    assert capsys.readouterr().err.startswith("ziggurat: there is no question; ask one")


def test_a_question_that_is_no_text_is_refused(ziggurat: Command) -> None:
    ended = ziggurat("run", "--agent", f"{AGENTS}:memory", "caf\udce9")
    assert ended.code == 2
    assert "not text (at character 4)" in ended.err


def test_the_options_make_an_agent(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "mine", "tests.cli.test_run:model_named")
    ended = ziggurat(
        "run", "-m", "mine:x", "-t", f"{AGENTS}:forecast", "-t", "echo", "-i", "Be brief.", "--max-steps", "1", "hi"
    )
    assert ended.out == "x: forecast, echo; Be brief.\n"
    monkeypatch.setenv("ZIGGURAT_MODEL", "mine:env")
    assert ziggurat("run", "hi").out == "env: calculator, timestamp; None\n"


def model_named(name: str) -> FunctionModel:
    return FunctionModel(
        lambda request: f"{name}: {', '.join(tool.name for tool in request.tools)}; {request.instructions}"
    )


@pytest.mark.local
def test_without_any_other_model_the_demo_runs(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path))
    for dialect in DIALECTS.values():
        for variable in dialect.key_variables:
            monkeypatch.delenv(variable, raising=False)
    ended = ziggurat("run", "What is 12 * (7 + 5)?")
    assert (ended.code, ended.out) == (0, "The answer is 144.\n")
    assert ended.err.startswith("model: demo (there is no key, no local server and no other model)\n")


MISTAKES = {
    "model": "def answer(request: object) -> str:\n    return prices['tea']\n",
    "helper": "def look():\n    return prices['tea']\n\ndef answer(request: object) -> str:\n    return look()\n",
}
FAILURES = {
    "provider": "raise ModelError('no more of this', kind='server')",
    "connection": "raise ConnectionError('no more of this')",
    "limit": "raise LimitExceeded('requests', 3, 3)",
}
FILE = """from ziggurat import Agent
from ziggurat.errors import LimitExceeded, ModelError
from ziggurat.models import FunctionModel

prices = {}

"""


@pytest.mark.parametrize("json_lines", [False, True])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_of_the_world_ends_with_one_line(
    ziggurat: Command, tmp_path: Path, failure: str, json_lines: bool
) -> None:
    body = f"def answer(request: object) -> str:\n    {FAILURES[failure]}\n"
    (tmp_path / "mine.py").write_text(f"{FILE}{body}agent = Agent(FunctionModel(answer))\n")
    ended = ziggurat("run", "--json" if json_lines else "-q", "--agent", f"{tmp_path}/mine.py:agent", "x")
    (line,) = ended.err.splitlines()
    assert line.startswith("ziggurat: the run ")
    assert "no more" in line
    assert ended.code == 1


@pytest.mark.parametrize("command", [("run", "-q"), ("run", "--json"), ("chat", "-q")])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_users_code_ends_with_its_traceback(
    ziggurat: Command, tmp_path: Path, mistake: str, command: tuple[str, str]
) -> None:
    (tmp_path / "mine.py").write_text(f"{FILE}{MISTAKES[mistake]}agent = Agent(FunctionModel(answer))\n")
    ended = ziggurat(
        *command, "--agent", f"{tmp_path}/mine.py:agent", *(["x"] if "run" in command else []), stdin="x\n"
    )
    lines = ended.err.splitlines()
    frames = [line.split('"')[1] for line in lines if line.startswith('  File "')]
    assert set(frames) == {f"{tmp_path}/mine.py"}
    assert lines[0].startswith("Traceback")
    assert [line for line in lines if line.startswith("ziggurat: ")] == [lines[-1]]
    assert "KeyError" in lines[-1]
    assert ended.code == 1

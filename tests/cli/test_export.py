"""Tests of runs that are exported as tests, and made again from their options."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import AGENTS, Command, listed
from ziggurat.models import FunctionModel
from ziggurat.providers import PROVIDERS


def test_a_test_is_not_made_with_an_agent_that_cannot_be_named(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    (run,) = listed(kept)
    for agent in ("", "desk", "desk.py", ":agent", "desk.py:", "desk.py:the agent"):
        ended = kept("export", run["id"], "--pytest", "--agent", agent)
        assert (ended.code, ended.out, "module:name" in ended.err) == (2, "", True), agent


@pytest.mark.parametrize("agent", ["desk.py:agent", "desk:agent", "my-desk.py:agent", "agent.py:run"])
def test_a_test_finds_an_agent_of_any_name(
    agent: str, kept: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    where, _, name = agent.partition(":")
    (tmp_path / f"{where.removesuffix('.py')}.py").write_text(f"from tests.cli.agents import plain\n\n{name} = plain\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(AGENTS).parents[2]), prepend=os.pathsep)
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    (run,) = listed(kept)
    file = tmp_path / "test_recorded.py"
    assert kept("export", run["id"], "--pytest", "--agent", agent, "-o", str(file)).code == 0
    assert "1 passed" in outcome_of(file)


def test_what_a_run_was_made_of_is_made_again(kept: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(PROVIDERS, "toy", "tests.cli.test_export:toy")
    monkeypatch.chdir(Path(AGENTS).parent)
    options = ("--model", "toy:brief", "--tool", "agents.py:forecast", "--instructions", "Be brief.")
    assert kept("run", "-q", *options, "Rain?").out == "you said: Rain?\n"
    (run,) = listed(kept)
    monkeypatch.chdir(tmp_path)
    assert kept("replay", run["id"]).code == 0
    forked = kept("fork", "-q", run["id"], "--at", "1", "--model", "toy:long")
    assert forked.out == "you said, if I heard it right: Rain?\n"
    assert "--model toy:long" in kept("show", listed(kept)[0]["id"]).out
    file = tmp_path / "test_recorded.py"
    assert json.loads(kept("export", run["id"]).out.splitlines()[0])["run_id"] == run["id"]
    assert kept("export", run["id"], "--pytest", "-o", str(file)).code == 0
    assert "Agent(ReplayModel(RECORD), tools=[forecast]" in file.read_text()
    assert "1 passed" in outcome_of(file)
    file.write_text(file.read_text().replace("instructions='Be brief.'", "instructions='Be formal.'"))
    assert "first divergence at agent: instructions" in outcome_of(file)


def outcome_of(file: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def toy(name: str) -> FunctionModel:
    said = "you said" if name == "brief" else "you said, if I heard it right"
    return FunctionModel(lambda messages: f"{said}: {messages[0].text}", name=f"toy:{name}")

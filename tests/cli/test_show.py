"""Tests of a run that is shown: as text, and as a diagram of its agent."""

import re

from tests.cli.conftest import AGENTS, Command, listed


def test_a_run_is_shown_with_what_it_called(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "What is 12 * (7 + 5)?")
    (run,) = listed(kept)
    shown = kept("show", run["id"][:6])
    assert shown.code == 0
    assert "2 steps · 1 tool call · tokens: 200 in, 20 out" in shown.out
    assert 'calculator(expression="12 * (7 + 5)") → 144' in shown.out
    assert f"--agent {AGENTS}:plain" in shown.out
    assert shown.out.rstrip().endswith("ended: Completed")


def test_a_graph_and_an_agent_are_drawn_with_how_far_a_run_has_come(kept: Command) -> None:
    assert kept("submit", f"{AGENTS}:review", '{"notes": []}', "--run-id", "r-1").code == 0
    kept("resume", "r-1", "--agent", f"{AGENTS}:review")
    drawn = kept("show", "r-1", "--as", "diagram", "--agent", f"{AGENTS}:review")
    assert drawn.code == 0
    names = {name: number for number, name in re.findall(r'(n\d+)\["(\w+)"\]', drawn.out)}
    marks = {
        number: mark for numbers, mark in re.findall(r"class (\S+) (\w+)", drawn.out) for number in numbers.split(",")
    }
    assert {name: marks.get(number) for name, number in names.items()} == {
        "look": "done", "check": "waiting", "publish": None
    }  # fmt: skip
    picture = kept("show", "r-1", "--as", "picture", "--agent", f"{AGENTS}:review").out
    assert picture.startswith("<svg ")
    assert all(f">{name}</text>" in picture for name in names)
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "What is 12 * (7 + 5)?")
    agent = kept("show", listed(kept, "--agent", "plain")[0]["id"], "--as", "diagram")
    assert "calculator" in agent.out
    assert "done" in agent.out, "the options of the command are on record, so the agent need not be named"
    refused = kept("show", "r-1", "--as", "tree", "--agent", f"{AGENTS}:review")
    assert refused.code != 0
    assert "only a diagram needs the agent" in refused.err

"""The ports of other frameworks' samples: they run, and their lines are counted fairly."""

import re

from examples.apps.ports import lines

from tests.examples.programs import ROOT, output_of

PRINTED = {
    "bank_support": "Support(advice='I have blocked your card, John.', block_card=True, risk=8)",
    "roulette_wheel": "I bet five is the winner: False",
    "human_in_the_loop": 'get_temperature {"city":"Oakland"} (y/n): y\nIt is sunny in Oakland, at 20° Celsius.',
    "llm_as_a_judge": "score: pass\nA detective finds that a comet took the moon.",
    "structured_weather": "Weather(temperature=75.0, wind_direction='SE', wind_speed=4.8)",
    "ask_human": "It is sunny in San Francisco.",
    "agent_runtime/quick_start": "42: 2 steps, 2 memories, 0 s",
    "agent_runtime/skills": "web-search 0.50\nsummarise 0.20\n# web-search\n\nSearch twice.\n\n# summarise\n\nWrite",
    "agent_runtime/discovery": "summariser-1 at http://summariser-1:8080: 0.67\nevicted: ()",
    "agent_runtime/plan_execute": "2 steps, 2 completed\nachieved: True (92%)",
    "agent_runtime/streaming": "thought: I know this.\n42\ncompleted: True\nsteps: 1 tokens: 102\nanswer: 42",
    "agent_runtime/planner": "3 steps\n1. web_search {'query': '{company}'}\n1. read_filings {'ticker': '{ticker}'}\n",
    "agent_runtime/team": "answer: leader says: urgent\nmodel calls: 9\nanswers: {'analyst-1': 'analyst-1 says",
    "agent_runtime/swarm": "failures: 0\nAnswers to 3 subtasks:\n1. [worker-1] worker-1 has done",
    "agent_runtime/bus": "content='Write the report', reply_to=None)\nplanner: BusMessage(id=2, sender='executor'",
    "agent_runtime/sandbox": "permissions: file_write\nread_file True ()\ndelete_file False ('file_write',)",
}


def test_every_port_runs() -> None:
    parts = dict(part.split("\n", 1) for part in output_of("ports").split("-- ")[1:])
    assert parts.keys() == PRINTED.keys() == {*lines.ORIGINALS, *lines.SNIPPETS}
    for name, expected in PRINTED.items():
        assert expected in parts[name]


def test_the_documented_figures_are_those_of_the_script_and_no_port_is_longer() -> None:
    table = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)` .*\| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    counted = {name: lines.count(lines.code_of(lines.HERE / f"{name}.py")) for name in PRINTED}
    assert {name: int(ours) for name, ours, _ in rows} == counted
    theirs = {name: int(theirs) for name, _, theirs in rows}
    assert theirs == theirs | lines.SNIPPETS
    assert [name for name, count in counted.items() if count > theirs[name]] == []

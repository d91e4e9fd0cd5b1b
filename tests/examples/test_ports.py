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
}


def test_every_port_runs() -> None:
    parts = dict(part.split("\n", 1) for part in output_of("ports").split("-- ")[1:])
    assert parts.keys() == PRINTED.keys() == lines.ORIGINALS.keys()
    for name, expected in PRINTED.items():
        assert expected in parts[name]


def test_the_documented_figures_are_those_of_the_script() -> None:
    table = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(\w+)` .*\| (\d+) \| \d+ \|$", table, re.MULTILINE))
    counted = {name: str(lines.count(lines.code_of(lines.HERE / f"{name}.py"))) for name in lines.ORIGINALS}
    assert documented == counted

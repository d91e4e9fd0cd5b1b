"""The examples of graphs that are rebuilt from another library: their lines are counted fairly."""

import re

from benchmarks import graph_examples

from tests.examples.programs import ROOT


def test_the_documented_figures_are_those_of_the_script() -> None:
    table = (ROOT / "docs" / "graphs.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| .*\[(\w+)\.py\]\S* \| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    assert {name: (int(theirs), int(ours)) for name, theirs, ours in documented} == graph_examples.lines()

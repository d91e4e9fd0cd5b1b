"""The examples of graphs that are rebuilt from another library: their lines are counted fairly."""

import re

from benchmarks import graph_examples

from tests.examples.programs import ROOT


def test_only_code_that_does_the_same_counts() -> None:
    program = (
        "import a\nclass A: ...\nasync def main():\n    run = 1\n    assert run\n    print(run)\nif a: main()\nx = 2\n"
    )
    assert graph_examples.code_of(program) == "run = 1\nx = 2"
    assert graph_examples.code_of("for a in b:\n    print(a)\nfor a in b:\n    c(a)") == "for a in b:\n    c(a)"


def test_the_documented_figures_are_those_of_the_script() -> None:
    table = (ROOT / "docs" / "graphs.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| .*\[(\w+)\.py\]\S* \| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    assert {name: (int(theirs), int(ours)) for name, theirs, ours in documented} == graph_examples.lines()

"""The evaluation: its table, and how it ends."""

import io

from examples.apps import evaluation
from rich.console import Console

from tests.examples.programs import output_of


def test_the_table_compares_two_versions_by_two_judges() -> None:
    printed = output_of("evaluation.py")
    assert "friendly: polite" in printed
    total = next(line for line in printed.splitlines() if line.startswith("│ all"))
    assert [cell.strip() for cell in total.split("│")[2:-1]] == ["75%", "25%", "75%", "100%"]


async def test_it_fails_when_too_few_answers_are_right() -> None:
    console = Console(file=io.StringIO(), width=120)
    assert await evaluation.main(console) == 0
    assert await evaluation.main(console, passing=0.8) == 1

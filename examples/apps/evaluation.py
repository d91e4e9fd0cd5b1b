"""An evaluation: questions with expected answers, judged by a rule and by a model, and a table of the results.

    python examples/apps/evaluation.py        # ends with 1 if too few answers pass, for use in continuous integration

Two versions of an agent are compared; all cases run at the same time, some at once.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from statistics import mean

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from ziggurat import Agent, ModelRequest, ToolCall
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.tools import calculator

MODEL = os.environ.get("MODEL")


class Case(Struct):
    question: str
    expected: str


class Judgement(Struct):
    polite: bool
    reason: str


class Score(Struct):
    version: str
    case: Case
    right: bool
    polite: bool
    tokens: int


CASES = [
    Case("What is 12 * 12?", "144"),
    Case("What is 7 + 5?", "12"),
    Case("What is 2 ** 10?", "1024"),
    Case("Who was the first king of Rome?", "Romulus"),
]


def stand_in(request: ModelRequest) -> ToolCall | str:
    """Calculate what can be calculated; answers as a model would, without a key."""
    last = request.messages[-1]
    if last.tool_results:
        result = last.tool_results[0].text
        return f"It is {result}." if "friendly" in (request.instructions or "") else result
    if not any(character.isdigit() for character in last.text):
        return "I do not know, sorry."
    return tool_call("calculator", expression=last.text.removeprefix("What is ").removesuffix("?"))


def stand_in_judge(request: ModelRequest) -> ToolCall:
    answer = request.messages[-1].text
    polite = "It is" in answer or "sorry" in answer
    return tool_call("final_answer", polite=polite, reason="a sentence" if polite else "a bare number")


VERSIONS = {
    version: Agent(MODEL or FunctionModel(stand_in), tools=[calculator], instructions=instructions, name=version)
    for version, instructions in {"brief": "Be brief.", "friendly": "Be friendly, and answer in a sentence."}.items()
}
JUDGE = Agent(
    MODEL or FunctionModel(stand_in_judge), output=Judgement, instructions="Is the answer polite?", name="judge"
)


async def score(version: str, case: Case, places: asyncio.Semaphore) -> Score:
    async with places:
        run = await VERSIONS[version].run(case.question)
        judged = await JUDGE.run(f"Question: {case.question}\nAnswer: {run.text}")
    polite = judged.raise_for_stop().output.polite
    return Score(version, case, case.expected in run.text, polite, run.usage.total + judged.usage.total)


def report(scores: Sequence[Score]) -> Table:
    table = Table("question", *(f"{version}: {judge}" for version in VERSIONS for judge in ("right", "polite")))
    for case in CASES:
        row = [each for each in scores if each.case == case]
        table.add_row(case.question, *("✓" if passed else "✗" for each in row for passed in (each.right, each.polite)))
    columns = [[each for each in scores if each.version == version] for version in VERSIONS]
    shares = [mean(passed) for each in columns for passed in ([s.right for s in each], [s.polite for s in each])]
    table.add_section()
    table.add_row("all", *(f"{share:.0%}" for share in shares))
    return table


async def main(console: Console, passing: float = 0.7) -> int:
    """Print the report; return 1 if a smaller share than `passing` is right, for the exit code."""
    places = asyncio.Semaphore(4)
    scores = await asyncio.gather(*(score(version, case, places) for case in CASES for version in VERSIONS))
    console.print(report(scores))
    right = mean(each.right for each in scores)
    return 0 if right >= passing else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Console())))

"""Similar names are found, also for hostile names, with little work for each."""

import random
import string
import time
from typing import Any

from ziggurat import Agent, Toolbox, ToolCall, tool
from ziggurat.core.similar import similar
from ziggurat.testing import ScriptedModel
from ziggurat.tools import FunctionTool

WORDS = ["city", "days", "amount", "search", "look_up", "delete_file", "read_file", "maximum_size", "name"]


def _mistakes(word: str) -> list[str]:
    """Return a word with one letter left out, doubled, or exchanged for its neighbour, and in other styles."""
    made = [word[:at] + word[at + 1 :] for at in range(len(word))]
    made += [word[:at] + word[at] + word[at:] for at in range(len(word))]
    made += [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(1, len(word) - 2)]
    return [*made, word.upper(), word.replace("_", "-"), word.replace("_", ""), word.title(), word + "s"]


def test_a_name_with_one_mistake_is_found_and_no_other() -> None:
    assert [wrong for word in WORDS for wrong in _mistakes(word) if similar(wrong, WORDS) != [word]] == []
    chance = random.Random(7)
    names = ["".join(chance.choices(string.ascii_lowercase, k=12)) for _ in range(100)]
    assert [name for name in names if similar(name, WORDS)] == []
    assert similar("x" * 101, ["x" * 101]) == []


def _numbered(number: int) -> FunctionTool:
    def work(size: int) -> str:
        return "x"

    return tool(name=f"tool_number_{number}_of_many")(work)


async def test_many_calls_of_many_unknown_tools_are_answered_quickly() -> None:
    """The names differ from all of the tools' by little, so that the closest is hard to find."""
    box = Toolbox([_numbered(number) for number in range(200)])
    calls: list[Any] = [ToolCall(f"c{number}", f"tool_numbr_{number}_of_may", "{}") for number in range(200)]
    began = time.process_time()
    run = await Agent(ScriptedModel(calls, "Done."), tools=box).run("Go")
    assert time.process_time() - began < 1, "comparing letter by letter takes much longer"
    assert run.text == "Done."
    assert "did you mean tool_number_7_of_many" in run.observations[7]


def test_few_of_many_tools_are_listed() -> None:
    said = Toolbox([_numbered(number) for number in range(200)]).unknown("zzz")
    assert said.endswith("tool_number_49_of_many and 150 more")

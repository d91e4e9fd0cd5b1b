"""Programs of a model beside smolagents' CodeAgent: how often the model is called, and what its prompts hold.

    python -P benchmarks/code_mode.py                  (with smolagents, where Python has it)

Five tasks, each with the same programs and the same tools on both sides, on a scripted model. A prompt is all that is
sent with a call: instructions, messages, calls and schemas of tools; four characters are a token. Every answer is
checked.
"""

import asyncio
import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

from ziggurat.agents.agent import Agent
from ziggurat.code.recursive import recursive_agent
from ziggurat.code.tool import CodeTool
from ziggurat.messages.message import tool_call
from ziggurat.messages.model import ModelRequest
from ziggurat.models.scripted import ScriptedModel


def price(item: str) -> float:
    """Return the price of an item in euros.

    Args:
        item: The item.
    """
    return {"desk": 240.0, "chair": 85.5, "lamp": 31.25}[item]


def exchange_rate(currency: str) -> float:
    """Return what a euro is worth in another currency.

    Args:
        currency: Its code, such as USD.
    """
    return {"USD": 1.1, "JPY": 160.0}[currency]


def orders(year: int) -> list[dict[str, Any]]:
    """Return the orders of a year, with number, country and total.

    Args:
        year: The year.
    """
    return [{"number": n, "country": "SE" if n % 3 else "NO", "total": n * 12.5} for n in range(1, 60)]


def page(number: int) -> dict[str, Any]:
    """Return a page of a list of names, and the number of the next one, 0 after the last.

    Args:
        number: The number of the page, from 1.
    """
    return {"names": [f"name-{number}-{each}" for each in range(10)], "next": number + 1 if number < 6 else 0}


def stock(item: str) -> int:
    """Return how many of an item are in stock.

    Args:
        item: The item.
    """
    return {"desk": 2, "chair": 14, "lamp": 0}[item]


def reorder(item: str, count: int) -> str:
    """Order more of an item.

    Args:
        item: The item.
        count: How many.
    """
    return f"ordered {count} of {item}"


def document(name: str) -> str:
    """Return the text of a document.

    Args:
        name: Its name.
    """
    return "\n".join(f"{number}; entry  no. {number} ; {number % 4}" for number in range(1, 40))


class Task(NamedTuple):
    """A task: the tools, the programs, the expression that is the answer after the last one, and the answer."""

    question: str
    tools: list[Callable[..., Any]]
    programs: list[str]
    answer: str
    expected: object


TASKS = {
    "calls and arithmetic": Task(
        "What do three desks and ten chairs cost in dollars?",
        [price, exchange_rate],
        ["total = 3 * price(item='desk') + 10 * price(item='chair')\nrate = exchange_rate(currency='USD')"],
        "round(total * rate, 2)",
        1732.5,
    ),
    "table with a filter": Task(
        "What is the total of the orders of 2025 from Norway over 300?",
        [orders],
        [
            "rows = orders(year=2025)\nprint(len(rows), rows[:2])",
            (
                "rows = orders(year=2025)\n"
                "found = [row['total'] for row in rows if row['country'] == 'NO' and row['total'] > 300]"
            ),
        ],
        "sum(found)",
        5775.0,
    ),
    "loop over pages": Task(
        "How many names end with 7?",
        [page],
        [
            (
                "names = []\nnumber = 1\nwhile number:\n    found = page(number=number)\n    names += found['names']\n"
                "    number = found['next']"
            )
        ],
        "len([name for name in names if name.endswith('7')])",
        6,
    ),
    "decision on a result": Task(
        "Have at least five of each item in stock.",
        [stock, reorder],
        [
            (
                "done = []\nfor item in ['desk', 'chair', 'lamp']:\n    count = stock(item=item)\n    if count < 5:\n"
                "        done.append(reorder(item=item, count=5 - count))"
            )
        ],
        "done",
        ["ordered 3 of desk", "ordered 5 of lamp"],
    ),
    "text with checks": Task(
        "Give the table as lines 'number,class', and check that each class is below 4.",
        [document],
        [
            "text = document(name='table')\nprint(text[:200])",
            (
                "rows = [line.split(';') for line in document(name='table').splitlines()]\n"
                "lines = [row[0].strip() + ',' + row[2].strip() for row in rows]\n"
                "wrong = [line for line in lines if not 0 <= int(line.split(',')[1]) < 4]\nprint(wrong)"
            ),
            (
                "rows = [line.split(';') for line in document(name='table').splitlines()]\n"
                "lines = [row[0].strip() + ',' + row[2].strip() for row in rows]"
            ),
        ],
        "'\\n'.join(lines[:3])",
        "1,1\n2,2\n3,3",
    ),
}


class Figures(NamedTuple):
    """The calls of a model, and the characters of their prompts."""

    calls: int
    characters: int


def length(request: ModelRequest) -> int:
    """Return the characters of a request."""
    tools = [
        {"name": each.name, "description": each.description, "parameters": each.parameters} for each in request.tools
    ]
    parts = [request.instructions or "", json.dumps(tools)]
    for message in request.messages:
        parts += [message.text, *(call.arguments for call in message.tool_calls)]
        parts += [result.text for result in message.tool_results]
    return sum(map(len, parts))


def ours(task: Task) -> Figures:
    """Do a task with `CodeTool`: the last line of the last program is the answer, which the model repeats."""
    *first, last = task.programs
    programs = [*first, f"{last}\n{task.answer}"]
    model = ScriptedModel(
        *(tool_call("run_code", code=each) for each in programs),
        lambda request: request.messages[-1].tool_results[0].text,
    )
    run = asyncio.run(Agent(model, tools=[CodeTool(task.tools)]).run(task.question))
    text = task.expected if isinstance(task.expected, str) else json.dumps(task.expected)
    assert run.text == text, run.text
    return Figures(len(model.calls), sum(map(length, model.calls)))


def session(task: Task) -> Figures:
    """Do a task with an agent without a context, whose last program gives the answer."""
    *first, last = task.programs
    programs = [*first, f"{last}\nsubmit({task.answer})"]
    model = ScriptedModel(*(tool_call("run_code", code=each) for each in programs))
    agent = recursive_agent(model, {}, tools=task.tools, output=type(task.expected))
    result = asyncio.run(agent.run(task.question)).output
    assert result == task.expected, result
    return Figures(len(model.calls), sum(map(length, model.calls)))


def smolagents(task: Task) -> Figures:
    """Do a task with smolagents' CodeAgent: the last program gives the answer."""
    from smolagents import CodeAgent, Model, tool
    from smolagents.models import ChatMessage, MessageRole
    from smolagents.monitoring import LogLevel

    *first, last = task.programs
    replies = [*first, f"{last}\nfinal_answer({task.answer})"]
    lengths: list[int] = []

    class Scripted(Model):
        def generate(self, messages: Any, *arguments: Any, **settings: Any) -> Any:
            lengths.append(sum(len(part["text"]) for message in messages for part in message.content))
            text = f"<code>\n{replies[len(lengths) - 1]}\n</code>"
            return ChatMessage(role=MessageRole.ASSISTANT, content=text)

    agent = CodeAgent(tools=[tool(each) for each in task.tools], model=Scripted(), verbosity_level=LogLevel.OFF)
    result = agent.run(task.question)
    assert result == task.expected, result
    return Figures(len(lengths), sum(lengths))


def main() -> None:
    """Print the figures of each side."""
    sides: dict[str, Callable[[Task], Figures]] = {"CodeTool": ours, "recursive_agent": session}
    if find_spec("smolagents"):
        sides["smolagents"] = smolagents
    else:
        print("smolagents is not installed here: only our own figures")
    print(f"{'calls, tokens of all prompts':<30}" + "".join(f"{side:>20}" for side in sides))
    for name, task in TASKS.items():
        figures = [side(task) for side in sides.values()]
        print(f"{name:<30}" + "".join(f"{each.calls:>8}{each.characters // 4:>12,}" for each in figures))


if __name__ == "__main__":
    main()
